"""Opening that is taken back, and terminals that come too late: nothing stays that nobody owns."""

from __future__ import annotations

import pytest
import trio

from tests.transports.acp.test_cancels import CANCELLED, a_long_story, half_told

WITHDRAWN = -32800


async def refused(client, number):
    frame = await client.until(lambda frame: frame.get("id") == number and "method" not in frame)
    return frame.get("error", {}).get("code")


@pytest.mark.parametrize("times", [20])
async def test_sessions_whose_opening_was_cancelled_are_not_there(editor, place, times):
    """Wherever the cancel meets the opening: what was not answered with an id does not stay."""
    async with editor() as client, editor() as other:
        source = await client.new(place.project)
        known = {source}
        for method, more in (("session/new", {}), ("session/fork", {"sessionId": source})):
            for _ in range(times):
                number = await client.begin(method, cwd=str(place.project), mcpServers=[], **more)
                await client.notify("$/cancel_request", requestId=number)
                frame = await client.until(lambda frame, number=number: frame.get("id") == number)
                if "result" in frame:
                    known.add(frame["result"]["sessionId"])
                else:
                    assert frame["error"]["code"] == WITHDRAWN
        await client.ask("session/close", sessionId=source)  # behind the last fork that was taken back
        with trio.fail_after(10):
            while {one["sessionId"] for one in (await other.ask("session/list"))["sessions"]} != known:
                pass


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_whose_loading_was_cancelled_can_be_loaded_by_another(editor, place, model, method):
    async with editor() as client, editor() as other:
        session = await client.new(place.project)
        await client.ask("session/close", sessionId=session)
        params = {"sessionId": session, "cwd": str(place.project), "mcpServers": []}
        for _ in range(10):
            number = await client.begin(method, **params)
            await client.notify("$/cancel_request", requestId=number)
            if await refused(client, number) is None:
                await client.ask("session/close", sessionId=session)
            else:  # this waits for what was taken back
                assert (await client.refusal("session/close", sessionId=session)).code == -32002
            await other.ask("session/load", **params)
            await other.ask("session/close", sessionId=session)


async def test_a_story_that_is_cancelled_leaves_a_session_that_was_closed_closed(editor, place, model):
    async with editor() as client, editor() as other:
        session = await a_long_story(client, place, model)
        await client.ask("session/close", sessionId=session)
        number = await half_told(client, place, session)
        await client.notify("$/cancel_request", requestId=number)
        closing = await client.begin("session/close", sessionId=session)
        client.go_on_reading()
        assert await refused(client, number) == WITHDRAWN
        assert await refused(client, closing) == -32002
        assert await other.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])


async def test_a_story_that_is_cancelled_leaves_a_session_that_was_open_as_it_was(editor, place, model):
    async with editor() as client:
        session = await a_long_story(client, place, model)
        number = await half_told(client, place, session)
        await client.notify("$/cancel_request", requestId=number)
        client.go_on_reading()
        assert await refused(client, number) == WITHDRAWN
        model.says("Still here.")
        at = len(client.frames)
        assert await client.prompt(session, "there?") == "end_turn"
        assert client.text(session, after=at) == "Still here."


async def test_a_session_that_is_open_may_be_resumed_and_is_told_of_once(editor, place, model):
    model.says("Once.")
    async with editor() as client:
        session = await client.new(place.project)
        for _ in range(2):
            await client.ask("session/resume", sessionId=session, cwd=str(place.project), mcpServers=[])
        await client.prompt(session, "go")
        assert client.text(session) == "Once."


async def test_a_session_that_is_open_keeps_its_servers_and_says_so(editor, place):
    broken = {"name": "new", "command": "/no/such/program", "args": []}
    async with editor() as client:
        session = await client.new(place.project)
        for method in ("session/resume", "session/load"):
            await client.ask(method, sessionId=session, cwd=str(place.project), mcpServers=[broken])
        told = "This session is open already and keeps its MCP servers: close it first to use 'new'."
        await client.until(lambda _: client.text(session).count(told) == 2)


# --- terminals that come too late -------------------------------------------------------------


async def test_a_terminal_that_comes_long_after_the_cancel_is_given_back(editor, place, model):
    model.calls("acp_terminal", command="make").says("Well.")
    async with editor("--yes", terminal=True) as client:
        has_come, may_answer, is_released = trio.Event(), trio.Event(), trio.Event()

        async def create(_):
            has_come.set()
            with trio.CancelScope(shield=True):  # a client that does not know of withdrawn requests
                await may_answer.wait()
            return {"terminalId": "late"}

        async def release(params):
            assert params["terminalId"] == "late"
            is_released.set()

        client.answers |= {"terminal/create": create, "terminal/release": release}
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "go")
        await has_come.wait()
        await client.notify("session/cancel", sessionId=session)
        assert await client.answer_to(prompt) == CANCELLED
        may_answer.set()
        with trio.fail_after(10):
            await is_released.wait()
