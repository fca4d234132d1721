"""What serves others needs packages beyond the smallest installation: without them it is one line, and exit code 1."""

from __future__ import annotations

import sys

import pytest

SOME_MODEL = ("--provider", "generic", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (("mcp",), "aar.transports.mcp_server.offered", "mcp,web"),
        (("mcp", "--http"), "hypercorn.trio", "web"),
        (("serve",), "hypercorn.trio", "web"),
        (("acp", "--http"), "hypercorn.trio", "web"),
        (("acp", "--http"), "quart_trio", "web"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_gets_it(here, monkeypatch, words, module, extra) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = here(*words, *SOME_MODEL)
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(f": pip install 'aar-agent[{extra}]'\n")
    assert done.err.count("\n") == 1
