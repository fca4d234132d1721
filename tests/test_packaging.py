"""What an installation brings: one command, one version, and extras for what is not needed by everybody."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import aar
from aar.__main__ import main

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.covers("PKG-01")
def test_there_is_one_command_and_an_extra_for_each_provider_and_transport() -> None:
    project = PROJECT["project"]
    assert project["name"] == "aar-agent"
    assert project["scripts"] == {"aar": f"{main.__module__}:{main.__name__}"}
    extras = project["optional-dependencies"]
    assert sorted(extras) == [
        "acp",
        "agents",
        "all",
        "anthropic",
        "dev",
        "gemini",
        "local",
        "mcp",
        "openai",
        "servers",
        "tui",
        "web",
    ]
    (everything,) = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == set(extras) - {"all", "dev"}


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "aar/_version.py"
    assert "version" not in PROJECT["project"]
    assert aar.__version__ in Path(aar.__file__).with_name("_version.py").read_text(encoding="utf-8")
