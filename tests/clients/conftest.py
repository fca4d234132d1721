"""Clients and servers that others wrote: most of them only where `AAR_TEST_CLIENTS` names what install.sh made."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transports.cli.conftest import Model, Place, flags, model, place

__all__ = ["flags", "model", "place"]

INSTALLED = Path(os.environ.get("AAR_TEST_CLIENTS") or "/nowhere")
FROM_NPM = ["test_acpx.py", "test_npm_servers.py", "test_typescript_sdk.py"]
collect_ignore_glob = [] if (INSTALLED / "node_modules").is_dir() else [*FROM_NPM]
if not (INSTALLED / "toad" / "bin" / "toad").exists() or shutil.which("tmux") is None:
    collect_ignore_glob.append("test_toad.py")


@pytest.fixture
def installed() -> Path:
    return INSTALLED


@pytest.fixture
def node() -> str:
    """The newer Node among the clients."""
    return str(INSTALLED / "node_modules" / ".bin" / "node")


@pytest.fixture
def agent(place: Place, flags: list[str], model: Model) -> Callable[..., Path]:
    """`agent()`: a program that starts `aar acp` with the model of this test, as editors are told to start it.

    Its standard error goes to `agent.err` in the project's parent folder.
    """

    def write(*more: str) -> Path:
        command = shlex.join([sys.executable, "-m", "aar", "acp", *flags, *more])
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in place.environment.items())
        program = place.project.parent / "my agent"
        program.write_text(f"#!/bin/sh\nexec env {variables} {command} 2>>{shlex.quote(str(errors(place)))}\n")
        program.chmod(0o755)
        errors(place).touch()
        return program

    return write


def errors(place: Place) -> Path:
    """Where the agent complains; nothing should be in it."""
    return place.project.parent / "agent.err"
