"""acpx, a client for scripts: one process per prompt, and one in the background that keeps the agent."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.clients.conftest import errors
from tests.transports.cli.conftest import PATIENCE, Finished, Model, Place

pytestmark = pytest.mark.clients
Acpx = Callable[..., Awaitable[Finished]]


@pytest.fixture
async def acpx(installed: Path, node: str, agent: Callable[..., Path], place: Place) -> AsyncIterator[Acpx]:
    """`await acpx("exec", "hi", flags=[...])`; the agent and its keeper are ended after the test."""
    place.home.mkdir(exist_ok=True)
    # acpx splits the command at spaces, and takes a quoted part as one word.
    command = [node, str(installed / "node_modules" / ".bin" / "acpx"), "--agent", f'"{agent()}"']

    async def run(*arguments: str, flags: tuple[str, ...] = ()) -> Finished:
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(
                [*command, *flags, *arguments],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=place.project,
                env=place.environment,
            )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    yield run
    await run("sessions", "close")


async def test_a_single_prompt_uses_tools_and_is_allowed_to(acpx: Acpx, model: Model, place: Place) -> None:
    model.calls("write_file", path="hello.txt", content="hi\n").says("It is there.")
    done = await acpx("exec", "write it", flags=("--approve-all",))
    assert (done.code, done.out.splitlines()[-1]) == (0, "[done] end_turn")
    assert "Write hello.txt (completed)" in done.out
    assert "It is there." in done.out
    assert (place.project / "hello.txt").read_text() == "hi\n"
    assert errors(place).read_text() == ""


async def test_what_is_denied_is_not_done(acpx: Acpx, model: Model, place: Place) -> None:
    model.calls("bash", command="touch made").says("I may not.")
    done = await acpx("exec", "make it", flags=("--deny-all",))
    assert "(failed)" in done.out
    assert "I may not." in done.out
    assert list(place.project.iterdir()) == []


async def test_reading_needs_no_permission_and_writing_does(acpx: Acpx, model: Model, place: Place) -> None:
    place.write("notes.txt", "secret of the house\n")
    model.calls("read_file", path="notes.txt").calls("write_file", path="x", content="").says("Done.")
    done = await acpx("exec", "copy", flags=("--approve-reads", "--non-interactive-permissions", "deny"))
    assert "Read notes.txt (completed)" in done.out
    assert "Write x (failed)" in done.out
    assert not (place.project / "x").exists()


async def test_a_session_is_kept_cancelled_set_and_resumed(
    acpx: Acpx, model: Model, place: Place, nursery: trio.Nursery
) -> None:
    model.says("First.").says("one ", "two", wait=trio.Event()).says("Third.").says("Fourth.")
    assert (await acpx("sessions", "new")).code == 0
    assert "First." in (await acpx("prompt", "one")).out

    cancelled: list[Finished] = []

    async def prompt_for_ever() -> None:
        cancelled.append(await acpx("prompt", "two"))
        ended.set()

    model.asked, ended = trio.Event(), trio.Event()
    nursery.start_soon(prompt_for_ever)
    await model.asked.wait()
    assert "cancel requested" in (await acpx("cancel")).out
    with trio.fail_after(PATIENCE):
        await ended.wait()
    assert (cancelled[0].code, cancelled[0].out.splitlines()[-1]) == (0, "[done] cancelled")

    assert "mode set: read-only" in (await acpx("set-mode", "read-only")).out
    assert "config set: mode=auto" in (await acpx("set", "mode", "auto")).out
    assert "Third." in (await acpx("prompt", "three")).out
    status = (await acpx("status")).out
    pid = int(next(line.split()[1] for line in status.splitlines() if line.startswith("pid:")))

    # Its keeper is gone, and the agent with it: the next prompt goes on with the same conversation.
    assert (await acpx("sessions", "close")).code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    (session_id,) = [path.stem for path in (place.home / "sessions").rglob("*.jsonl")]
    assert (await acpx("sessions", "new", "--resume-session", session_id)).code == 0
    assert "Fourth." in (await acpx("prompt", "four")).out
    said = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["one", "two", "three", "four"]
