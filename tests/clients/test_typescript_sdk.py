"""The official SDK for TypeScript as an editor: it validates every message against the schema of the protocol."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.clients.conftest import errors
from tests.transports.cli.conftest import PATIENCE, Model, Place

pytestmark = pytest.mark.clients
QUIET = {"write", "usage_update", "session_info_update", "available_commands_update", "config_option_update", "plan"}
OPTIONS = ["allow_once", "allow_always", "reject_once", "reject_always"]


async def test_an_editor_goes_through_tools_a_permission_a_cancel_and_a_resume(
    installed: Path, agent: Callable[..., Path], place: Place, model: Model
) -> None:
    model.calls("write_file", path="one.txt", content="1\n").calls("write_file", path="two.txt", content="2\n")
    model.says("Both ", "are there.").says("one ", "two", wait=trio.Event()).says("We go on.")
    sdk = installed / "node_modules" / "@agentclientprotocol" / "sdk"
    editor = Path(__file__).with_name("editor.mjs")
    command = [shutil.which("node") or "node", str(editor), str(sdk), str(agent()), str(place.project)]
    with trio.fail_after(PATIENCE * 2):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert (done.returncode, done.stderr.decode(), errors(place).read_text()) == (0, "", "")
    told: list[list[Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    written: list[list[Any]] = [
        ["tool_call", "Write one.txt", "edit", "pending"],
        ["permission", "Write one.txt", *OPTIONS],
        ["tool_call_update", "in_progress"],
        ["tool_call_update", "completed"],
        ["tool_call", "Write two.txt", "edit", "pending"],
        ["tool_call_update", "in_progress"],
        ["tool_call_update", "completed"],
    ]
    assert joined([line for line in told if line[0] not in QUIET]) == [
        ["initialized", 1, "aar", True],
        ["new", "review", ["model", "mode"]],
        *written,
        ["agent_message_chunk", "Both are there."],
        ["stop", "end_turn"],
        ["agent_message_chunk", "one "],
        ["stop", "cancelled", True],
        ["current_mode_update", "read-only"],
        ["current_mode_update", "auto"],
        ["mode", "auto"],
        ["error", -32602],
        ["closed", True],
        ["ended", 0],
        ["initialized", 1, "aar", True],
        ["list", [True]],
        ["user_message_chunk", "write two files"],
        ["tool_call", "Write one.txt", "edit", "pending"],
        ["tool_call_update", "completed"],
        ["tool_call", "Write two.txt", "edit", "pending"],
        ["tool_call_update", "completed"],
        ["agent_message_chunk", "Both are there."],
        ["user_message_chunk", "count for ever"],
        ["agent_message_chunk", "one "],
        ["loaded"],
        ["agent_message_chunk", "We go on."],
        ["stop", "end_turn"],
        ["resumed"],
        ["list", 0],
        ["error", -32002],
        ["ended", 0],
    ]
    assert [line[1] for line in told if line[0] == "write"] == ["/one.txt", "/two.txt"]
    assert [(place.project / name).read_text() for name in ("one.txt", "two.txt")] == ["1\n", "2\n"]


def joined(lines: list[list[Any]]) -> list[list[Any]]:
    """Chunks that follow one another as one: how a text is cut is the business of the network."""
    out: list[list[Any]] = []
    for line in lines:
        if line[0].endswith("_message_chunk") and out and out[-1][0] == line[0]:
            out[-1] = [line[0], out[-1][1] + line[1]]
        else:
            out.append(line)
    return out
