"""What the page about editors tells people to copy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aar.messages.settings import AgentConfig
from aar.transports.acp.commands import COMMANDS
from aar.transports.acp.modes import modes_of

PAGE = (Path(__file__).parent.parent.parent / "docs" / "editors.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_each_block_of_settings_is_json_and_starts_the_agent(block: str) -> None:
    settings = json.loads(block)
    (entry,) = (settings.get("agent_servers") or settings["agents"]).values()
    assert " ".join([entry["command"], *entry.get("args", [])]) == "/home/you/aar/.venv/bin/aar acp"


def test_the_modes_and_commands_are_those_that_there_are() -> None:
    rows = re.findall(r"^\| `?([\w/-]+)`? \|", PAGE.partition("## What you can do there")[2], re.MULTILINE)
    modes = [mode["name"] for mode in modes_of(AgentConfig())["availableModes"]]
    commands = [f"/{command['name']}" for command in COMMANDS]
    assert [row for row in rows if row in modes] == modes
    assert [row for row in rows if row.startswith("/")] == [*commands, "/NAME"]
