"""The official SDK for Python as an editor. It is one of our own packages, so nothing of install.sh is needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from tests.clients.conftest import errors
from tests.clients.test_typescript_sdk import OPTIONS, joined
from tests.transports.cli.conftest import PATIENCE, Model, Place


async def test_an_editor_in_python_goes_through_tools_permissions_a_cancel_a_fork_and_a_resume(
    agent: Callable[..., Path], place: Place, model: Model
) -> None:
    model.calls("write_file", path="one.txt", content="1\n").calls("write_file", path="two.txt", content="2\n")
    model.says("Both are there.").calls("bash", command="touch made").calls("bash", command="touch made")
    model.says("I may not.").says("one ", "two", wait=trio.Event())
    model.calls("read_file", path="one.txt").says("That is all.")
    program = Path(__file__).with_name("editor.py")
    with trio.fail_after(PATIENCE * 2):
        done = await trio.run_process(
            [sys.executable, str(program), str(agent()), str(place.project)],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert (done.returncode, done.stderr.decode(), errors(place).read_text()) == (0, "", "")
    told: list[list[Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert joined(told) == [
        ["initialized", 1, "aar"],
        *live("Write one.txt", "edit", asked=True),
        *live("Write two.txt", "edit"),
        ["agent_message_chunk", "Both are there."],
        ["stop", "end_turn"],
        ["tool_call", "`touch made`", "execute", "pending"],
        ["permission", "`touch made`", *OPTIONS],
        ["tool_call_update", "failed"],
        *told_again("`touch made`", "execute", "failed"),  # it was said once, and holds for the second time
        ["agent_message_chunk", "I may not."],
        ["stop", "end_turn"],
        ["agent_message_chunk", "one "],
        ["stop", "cancelled"],
        ["forked", True],
        ["ended", 0],
        ["initialized", 1, "aar"],
        ["list", True],
        *live("Read one.txt", "read", read="/one.txt"),
        ["agent_message_chunk", "That is all."],
        ["stop", "end_turn"],
        ["user_message_chunk", "write two files"],
        *told_again("Write one.txt", "edit"),
        *told_again("Write two.txt", "edit"),
        ["agent_message_chunk", "Both are there."],
        ["user_message_chunk", "run a command twice"],
        *told_again("`touch made`", "execute", "failed"),
        *told_again("`touch made`", "execute", "failed"),
        ["agent_message_chunk", "I may not."],
        ["user_message_chunk", "count for ever"],
        ["agent_message_chunk", "one "],
        ["user_message_chunk", "read it"],
        *told_again("Read one.txt", "read"),
        ["agent_message_chunk", "That is all."],
        ["loaded"],
        ["error", -32002],
        ["ended", 0],
    ]
    assert sorted(path.name for path in place.project.iterdir()) == ["one.txt", "two.txt"]
    assert "not saved yet" in model.requests[-1]["messages"][-1]["content"]


def live(title: str, kind: str, *, asked: bool = False, read: str = "") -> list[list[Any]]:
    """A call that is done, as it happens."""
    return [
        ["tool_call", title, kind, "pending"],
        *([["permission", title, *OPTIONS]] if asked else []),
        ["tool_call_update", "in_progress"],
        *([["read", read]] if read else []),
        ["tool_call_update", "completed"],
    ]


def told_again(title: str, kind: str, end: str = "completed") -> list[list[Any]]:
    return [["tool_call", title, kind, "pending"], ["tool_call_update", end]]
