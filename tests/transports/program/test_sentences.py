"""Every error that can reach a terminal is a sentence for its reader."""

from __future__ import annotations

import re

import pytest

from aar import errors
from aar.transports.program.sentences import sentence


def _made(kind: type[Exception]) -> Exception:
    return kind("denied", "Ask again.") if issubclass(kind, errors.ToolError) else kind("Ask again.")


@pytest.mark.parametrize("name", errors.__all__)
def test_no_error_shows_the_name_of_its_class(name):
    error = _made(getattr(errors, name))
    text = sentence(error)
    assert name not in text
    assert "Ask again." in text or isinstance(error, errors.ClientGone | errors.ActorError)


def test_a_part_that_is_gone_is_said_with_what_to_do():
    text = sentence(errors.ActorStopped("session:1 is stopped"))
    assert text.startswith("A part of Aar stopped working (session:1 is stopped). What was said until then is kept: ")
    assert "`aar chat --continue`" in text


def test_an_error_of_the_system_names_the_file():
    assert sentence(IsADirectoryError(21, "Is a directory", "/x")) == "/x: Is a directory"
    assert sentence(PermissionError(13, "Permission denied", "/x")).startswith(
        "/x: Permission denied. Allow this user "
    )
    assert sentence(OSError(28, "No space left")) == "No space left. Free some space, then try again."


def test_a_bug_is_told_with_its_kind_and_with_where_to_look():
    text = sentence(KeyError("x"))
    assert text.startswith("internal error (KeyError): 'x'.")
    assert re.search("report it.*--log-level debug", text)
