from __future__ import annotations

import marshal
import os
import signal
import socket
from pathlib import Path

import pytest
import trio

from aar.processes.command import run_command
from aar.processes.group import open_process
from aar.processes.guard import open_guard

ENV = {"PATH": os.environ["PATH"]}


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def has_ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def say(word: str) -> str:
    return (await run_command(["echo", word], cwd="/", env=ENV, timeout=60, output_limit=100)).stdout


async def test_a_guard_starts_with_the_first_child_and_ends_with_its_scope() -> None:
    async with open_guard() as guard:
        assert guard.pid is None
        assert await say("one") == "one\n"
        first = guard.pid
        assert first is not None
        assert await say("two") == "two\n"
        assert guard.pid == first
    assert guard.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


async def test_tasks_that_are_started_inside_the_scope_share_its_guard() -> None:
    async with open_guard() as guard:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(say, "hello")
        assert guard.pid is not None


async def test_without_a_scope_each_child_has_a_guard_of_its_own() -> None:
    assert await say("alone") == "alone\n"


async def test_a_guard_that_was_killed_is_replaced_and_running_commands_go_on() -> None:
    async with open_guard() as guard, open_process(["cat"], cwd="/", env=ENV, stdin="pipe") as running:
        killed = guard.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await has_ended(killed)
        assert await say("again") == "again\n"
        assert guard.pid != killed
        assert running.stdin is not None
        await running.stdin.send_all(b"still here")
        assert await running.stdout.receive_some() == b"still here"


async def test_scopes_nest_and_the_inner_guard_serves_the_inner_scope() -> None:
    async with open_guard() as outer:
        async with open_guard() as inner:
            await say("inner")
            assert (outer.pid, inner.pid is None) == (None, False)
        await say("outer")
        assert outer.pid is not None


async def test_a_cancel_while_a_command_starts_leaves_nothing() -> None:
    async with open_guard() as guard:
        await say("warm")
        for checkpoints in range(8):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(say, "never")
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
        assert await say("alive") == "alive\n"
        assert guard.pid is not None
        for keeper in children_of(guard.pid):
            await has_ended(keeper)


async def test_who_kills_its_keeper_and_hides_its_marker_is_ended_by_the_guard() -> None:
    hidden = "env -i setsid -f /bin/sh -c 'echo $$; trap : TERM; while :; do sleep 1000; done'"
    script = f"read pid < <({hidden}); echo $pid; kill -KILL $PPID; sleep 1000"
    async with open_guard() as guard:
        finished = await run_command(["bash", "-c", script], cwd="/", env=ENV, timeout=60, output_limit=100)
        with trio.fail_after(5):
            await has_ended(int(finished.stdout))
        first = guard.pid
        assert await say("still here") == "still here\n"
        assert guard.pid == first


@pytest.mark.parametrize("goes_on", [True, False])
async def test_who_stops_the_guard_as_well_is_ended_with_the_next_command_or_the_scope(goes_on: bool) -> None:
    hidden = "env -i setsid -f /bin/sh -c 'echo $$; trap : TERM; while :; do sleep 1000; done'"
    guards = "$(awk '{print $4}' /proc/$PPID/stat)"
    script = f"read pid < <({hidden}); echo $pid; kill -STOP {guards}; kill -KILL $PPID; sleep 1000"
    with trio.fail_after(10):
        async with open_guard():
            finished = await run_command(["bash", "-c", script], cwd="/", env=ENV, timeout=60, output_limit=100)
            if goes_on:
                assert await say("on") == "on\n"
                await has_ended(int(finished.stdout))
        await has_ended(int(finished.stdout))


async def test_a_command_whose_caller_has_left_before_it_could_start_is_not_run() -> None:
    order = marshal.dumps(([b"echo", b"late"], b"/", {b"PATH": os.fsencode(ENV["PATH"])}, 0.2, None))
    ours, theirs = socket.socketpair()
    nothing = os.open(os.devnull, os.O_RDWR)
    with ours:
        ours.sendall(len(order).to_bytes(4, "big") + order)
        ours.shutdown(socket.SHUT_WR)
        async with open_guard() as guard:
            with theirs:
                await guard.request_keeper([theirs.fileno(), nothing, nothing, nothing])
            said = [line async for line in trio.SocketStream(trio.socket.from_stdlib_socket(ours))]
    os.close(nothing)
    assert b"".join(said) == b"gone\n"
