"""How things end: a cancel in every state, a client that leaves, signals; and a stream with nothing but frames."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

PROMPT_ENDS_WITHIN = 1.0  # seconds
PROCESS_ENDS_WITHIN = 2.5


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def cancelled(client, session, prompt):
    """Cancel, and check what must hold: an answer in time, and no call left open."""
    started = trio.current_time()
    await client.notify("session/cancel", sessionId=session)
    assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
    assert trio.current_time() - started < PROMPT_ENDS_WITHIN
    updates = client.updates(session)
    begun = {one["toolCallId"] for one in updates if one["sessionUpdate"] == "tool_call"}
    ended = {one["toolCallId"] for one in updates if one.get("status") in ("completed", "failed")}
    assert begun == ended
    assert "cancel" not in client.text(session).lower()


@pytest.mark.covers("ACP-10")
async def test_a_cancel_ends_a_prompt_whose_model_is_silent(editor, place, model):
    model.says(wait=trio.Event()).says("Here again.")
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await model.asked.wait()
        await cancelled(client, session, prompt)
        assert await client.prompt(session, "again") == "end_turn"


@pytest.mark.covers("ACP-10")
async def test_a_cancel_right_behind_its_prompt_is_not_lost(editor, place, model):
    model.says("Let me", " think.", wait=trio.Event())
    async with editor() as client:
        session = await client.new(place.project)
        for _ in range(5):
            prompt = await client.begin_prompt(session, "go")
            await cancelled(client, session, prompt)


@pytest.mark.covers("ACP-10")
async def test_a_cancel_without_a_prompt_does_nothing_now_or_later(editor, place, model):
    model.says("Fine.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.notify("session/cancel", sessionId=session)
        await client.notify("session/cancel", sessionId="unknown")
        assert await client.prompt(session, "go") == "end_turn"


@pytest.mark.covers("ACP-10")
async def test_a_cancel_ends_a_command_and_all_that_it_started(editor, place, model):
    model.calls("bash", command="sleep 1000 & echo $! > pids; wait").says("Well.")
    async with editor("--yes") as client:
        session = await client.new(place.project)
        os.mkfifo(place.project / "pids")
        prompt = await client.begin_prompt(session, "go")
        pid = int(await written_to(place.project / "pids"))
        await cancelled(client, session, prompt)
        assert not is_alive(pid)


async def written_to(fifo) -> str:
    """What somebody writes into this pipe."""
    return await trio.to_thread.run_sync(fifo.read_text, abandon_on_cancel=True)


@pytest.mark.covers("ACP-10")
async def test_a_cancel_ends_a_prompt_that_waits_for_an_answer_and_takes_the_question_back(editor, place, model):
    model.calls("bash", command="touch here").says("Well.")
    async with editor() as client:
        has_come = client.says_nothing_to("session/request_permission")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_come.wait()
        await cancelled(client, session, prompt)
        assert [frame["method"] for frame in client.frames if frame.get("method", "").startswith("$/")] == [
            "$/cancel_request"
        ]
        assert not (place.project / "here").exists()


@pytest.mark.covers("ACP-10")
@pytest.mark.parametrize("silent", ["create", "wait_for_exit"])
async def test_a_cancel_ends_a_prompt_that_waits_for_a_terminal(editor, place, model, silent):
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", terminal=True) as client:

        async def made(_):
            return {"terminalId": "t1"}

        async def nothing(_):
            return {}

        client.answers |= {"terminal/create": made, "terminal/kill": nothing, "terminal/release": nothing}
        has_come = client.says_nothing_to(f"terminal/{silent}")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_come.wait()
        await cancelled(client, session, prompt)
        ends = [method for method, _ in client.asked if method in ("terminal/kill", "terminal/release")]
        assert ends == (["terminal/kill", "terminal/release"] if silent == "wait_for_exit" else [])


async def test_cancelling_the_request_is_cancelling_the_prompt(editor, place, model):
    model.says("Let me", " think.", wait=trio.Event())
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await client.update("agent_message_chunk")
        await client.notify("$/cancel_request", requestId=prompt)
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}


# --- the client leaves ------------------------------------------------------------------------


@pytest.fixture
async def busy(editor, place, model, nursery):
    """A program whose command runs, with the id of a process of that command."""

    @asynccontextmanager
    async def open_busy():
        model.calls("bash", command="sleep 1000 & echo $! > pids; wait").says("Well.")
        async with editor("--yes") as client:
            session = await client.new(place.project)
            os.mkfifo(place.project / "pids")
            prompt = await client.begin_prompt(session, "go")
            pid = int(await written_to(place.project / "pids"))
            assert is_alive(pid)
            yield client, session, prompt, pid

    return open_busy


async def gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.covers("ACP-51")
@pytest.mark.parametrize("end", ["input", "SIGTERM", "SIGINT", "SIGHUP"])
async def test_a_client_that_leaves_ends_everything_in_order(busy, editor, place, model, end):
    async with busy() as (client, session, prompt, pid):
        started = trio.current_time()
        if end == "input":
            await client.close_input()
        else:
            client.process.send_signal(signal.Signals[end])
        assert await client.end() == 0
        assert trio.current_time() - started < PROCESS_ENDS_WITHIN
        assert not is_alive(pid)
        await client.until(lambda frame: frame.get("id") == prompt)
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
    async with editor() as client:
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert client.text(session, kind="user_message_chunk") == "go"
        assert await client.prompt(session, "and now?") == "end_turn"


@pytest.mark.parametrize("end", ["input", "SIGTERM"])
async def test_what_runs_in_a_terminal_of_the_editor_ends_with_it(editor, place, model, end):
    """The editor may be there still: it was not the one who sent the signal, or reads what is said last."""
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", terminal=True) as client:

        async def made(_):
            return {"terminalId": "t1"}

        async def nothing(_):
            return {}

        client.answers |= {"terminal/create": made, "terminal/kill": nothing, "terminal/release": nothing}
        has_begun = client.says_nothing_to("terminal/wait_for_exit")
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_begun.wait()
        if end == "input":
            await client.close_input()
        else:
            client.process.send_signal(signal.Signals[end])
        assert await client.end() == 0
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
        said = [frame for frame in client.frames if frame.get("method") in ("terminal/kill", "terminal/release")]
        assert [frame["method"] for frame in said] == ["terminal/kill", "terminal/release"]
        assert all(frame["params"] == {"sessionId": session, "terminalId": "t1"} for frame in said)


async def test_a_client_that_reads_no_more_ends_it_too(busy):
    async with busy() as (client, _, _, pid):
        await client.process.stdout.aclose()
        await client.notify("nonsense")
        await client.send({"id": 1, "method": "nonsense"})
        assert await client.end() == 0
        assert not is_alive(pid)


@pytest.mark.parametrize("whom", ["the process", "its group"])
async def test_a_program_that_is_killed_leaves_no_process(busy, editor, place, whom):
    """Some editors kill the whole process group."""
    async with busy() as (client, session, _, pid):
        if whom == "its group":
            assert os.getpgid(client.process.pid) == client.process.pid
            os.killpg(client.process.pid, signal.SIGKILL)
        client.process.kill()
        await client.end()
        await gone(pid)
    async with editor() as client:
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        calls = [one["status"] for one in client.updates(session) if one["sessionUpdate"].startswith("tool_call")]
        assert calls == ["pending", "failed"]


# --- the streams ------------------------------------------------------------------------------


@pytest.mark.covers("ACP-48", "LOG-05")
async def test_standard_output_holds_nothing_but_frames_also_when_everything_is_logged(editor, place, model):
    model.calls("bash", command="echo to stdout; echo to stderr >&2; cat").says("Done.").says("no", status=500)
    async with editor("--yes", "--log-level", "debug", "--max-steps", "2") as client:
        session = await client.new(place.project)
        await client.prompt(session, "go")
        await client.write(b"{oops\n")
        await client.close_input()
        await client.end()
        assert all(frame["jsonrpc"] == "2.0" for frame in client.frames)
    assert "DEBUG" in (place.project.parent / "stderr").read_text()


class Endless:
    """A model whose answer never ends; `left` says that nobody listens any more."""

    def __init__(self) -> None:
        self.started = trio.Event()
        self.left = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            piece = json.dumps({"choices": [{"delta": {"content": "x" * 60_000}}]}).encode()
            try:
                while True:
                    await stream.send_all(b"data: " + piece + b"\n\n")
                    self.started.set()
            except trio.BrokenResourceError:
                self.left.set()


async def test_a_cancel_gets_through_while_the_client_reads_nothing(editor, place, nursery):
    endless = Endless()
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, endless.serve, [listener])
    address = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
    async with editor("--base-url", address) as client:
        session = await client.new(place.project)
        client.stop_reading()
        prompt = await client.begin_prompt(session, "go")
        await endless.started.wait()
        await client.notify("session/cancel", sessionId=session)
        with trio.fail_after(10):
            await endless.left.wait()
        client.go_on_reading()
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
    nursery.cancel_scope.cancel()


async def test_a_session_file_and_frames_hold_what_no_text_can_say(editor, place, model):
    """Half a surrogate pair comes through as a mark, not as a broken line."""
    model.says("Fine \ud83d.")
    async with editor() as client:
        session = await client.new(place.project)
        line = {"jsonrpc": "2.0", "id": "s", "method": "session/prompt"}
        prompt = [{"type": "text", "text": "half \ud83d"}]
        await client.write(json.dumps({**line, "params": {"sessionId": session, "prompt": prompt}}).encode() + b"\n")
        await client.until(lambda frame: frame.get("id") == "s")
        assert client.text(session).startswith("Fine ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_right_behind_the_first_answer_is_a_proper_end(editor, number):
    async with editor(cold=True) as client:
        client.process.send_signal(number)
        assert await client.end() == 0


async def test_after_nohup_it_stays_when_its_terminal_is_closed(editor, place, model):
    was = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with editor(cold=True) as client:
            signal.signal(signal.SIGHUP, was)
            session = await client.new(place.project)
            client.process.send_signal(signal.SIGHUP)
            model.says("Still here.")
            assert await client.prompt(session, "there?") == "end_turn"
    finally:
        signal.signal(signal.SIGHUP, was)


async def test_a_signal_to_a_program_that_is_ending_does_not_cut_it_short(editor, place, tmp_path):
    is_closing, has_closed = tmp_path / "closing", tmp_path / "closed"
    os.mkfifo(is_closing)
    script = f"echo > {is_closing}; cat > /dev/null; echo > {is_closing}; sleep 0.3; echo > {has_closed}"
    server = {"name": "slow", "command": "sh", "args": ["-c", script], "env": []}
    async with editor() as client:
        await client.ask("session/new", cwd=str(place.project), mcpServers=[server])
        await trio.to_thread.run_sync(is_closing.read_bytes, abandon_on_cancel=True)
        await client.close_input()
        await trio.to_thread.run_sync(is_closing.read_bytes, abandon_on_cancel=True)
        client.process.send_signal(signal.SIGTERM)
        assert await client.end() == 0
        assert has_closed.exists()
