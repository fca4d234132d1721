from __future__ import annotations

import os
import select
import shlex
import sys

import trio

from aar.messages.approvals import ASIDE
from aar.messages.events import ApprovalRequested, ApprovalResolved, TurnEnded
from aar.testing import ScriptedProvider
from aar.transports.cli import lines
from aar.transports.cli.approve import QUESTION, Approver
from aar.transports.cli.lines import Lines
from aar.transports.program.screen import Screen
from tests.transports.cli.conftest import PATIENCE


async def test_a_question_that_was_settled_before_it_could_be_asked_is_not_asked(live) -> None:
    """A terminal that was stopped goes on, and shows the question and its end in one breath."""
    ours, theirs = os.openpty()
    try:
        async with live(ScriptedProvider()) as session, trio.open_nursery() as nursery:
            approver = Approver(session, Screen(out=theirs, err=theirs), Lines(theirs))
            approver.notice(ApprovalRequested(tool_call_id="a", tool_name="bash"), nursery)
            approver.notice(ApprovalResolved(tool_call_id="a", decision="deny", by="timeout"), nursery)
        assert select.select([ours], [], [], 0)[0] == []
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_question_about_a_command_beside_the_conversation_outlives_a_turn(live) -> None:
    ours, theirs = os.openpty()
    shown = b""
    try:
        async with live(ScriptedProvider()) as session, trio.open_nursery() as nursery:
            approver = Approver(session, Screen(out=theirs, err=theirs), Lines(theirs))
            approver.notice(ApprovalRequested(tool_call_id="a", tool_name="bash", data={ASIDE: True}), nursery)
            approver.notice(TurnEnded(stop="end_turn"), nursery)
            while QUESTION.encode() not in shown:
                await trio.lowlevel.wait_readable(ours)
                shown += os.read(ours, 4096)
            os.write(ours, b"y\n")
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_question_is_asked_again_when_something_was_written_below_it(live) -> None:
    """The result of a call that runs beside it would otherwise stand where the answer is typed."""
    ours, theirs = os.openpty()
    shown = b""

    async def see(times: int) -> None:
        nonlocal shown
        while shown.count(QUESTION.encode()) < times:
            await trio.lowlevel.wait_readable(ours)
            shown += os.read(ours, 4096)

    try:
        async with live(ScriptedProvider()) as session, trio.open_nursery() as nursery:
            screen = Screen(out=theirs, err=theirs)
            approver = Approver(session, screen, Lines(theirs))
            approver.notice(ApprovalRequested(tool_call_id="a", tool_name="bash"), nursery)
            await see(1)
            await screen.tell("")
            await approver.remind()
            await screen.tell("\nResult of another call\n")
            await approver.remind()
            await see(2)
            assert shown.endswith(b"Result of another call\r\n" + QUESTION.encode())
            assert shown.count(QUESTION.encode()) == 2
            os.write(ours, b"y\n")
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_question_waits_until_the_terminal_is_given_back(live, monkeypatch) -> None:
    """After Ctrl+Z and `bg`: whoever reads a terminal in the background is stopped, and nobody can answer any more."""
    ours, theirs = os.openpty()
    shown, is_ours = b"", False
    monkeypatch.setattr(lines, "has_terminal", lambda descriptor: is_ours)
    monkeypatch.setattr(lines, "_LOOKS_EVERY", 0.01)
    try:
        async with live(ScriptedProvider()) as session, trio.open_nursery() as nursery:
            approver = Approver(session, Screen(out=theirs, err=theirs), Lines(theirs))
            approver.notice(ApprovalRequested(tool_call_id="a", tool_name="bash"), nursery)
            while b"Approval Required" not in shown:
                await trio.lowlevel.wait_readable(ours)
                shown += os.read(ours, 4096)
            await trio.sleep(0.1)
            assert QUESTION.encode() not in shown
            is_ours = True
            while QUESTION.encode() not in shown:
                await trio.lowlevel.wait_readable(ours)
                shown += os.read(ours, 4096)
            os.write(ours, b"y\n")
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_run_in_the_background_of_a_shell_asks_nobody(model, place, flags) -> None:
    """As docs/attach.md has it: `aar run "..." &`, and then `aar attach` in the same terminal."""
    model.calls("bash", command="echo hi > made.txt").says("Done.")
    run = [sys.executable, "-m", "aar", "run", *flags, "Do it."]
    shell = ["bash", "-c", f"set -m; {shlex.join(run)} & wait $!; echo ended: $?"]
    on_a_terminal = [sys.executable, "-c", f"import pty; pty.spawn({shell!r})"]
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            on_a_terminal, stdin=b"", capture_stdout=True, cwd=place.project, env=place.environment
        )
    assert "ended: 0" in done.stdout.decode()
    assert "nobody could be asked" in done.stdout.decode()
    assert not (place.project / "made.txt").exists()
