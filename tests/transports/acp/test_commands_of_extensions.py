"""Slash commands of extensions in an editor: advertised, run, cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transports.cli.conftest import Place

HELLO = """
import trio

def register(api):
    @api.command("hello", description="Say hello.")
    async def hello(args, ctx):
        await trio.sleep(0)
        return f"Hello, {args or 'world'}, from {ctx.cwd}."

    @api.command("status")
    def status(args, ctx):
        return "not this one: Aar has it"

    @api.command("fail")
    def fail(args, ctx):
        raise ValueError("no such thing")

    @api.command("quiet")
    def quiet(args, ctx):
        print("on standard output, where it must not break the protocol")

    @api.command("wait")
    async def wait(args, ctx):
        await trio.sleep_forever()
"""


def extend(place: Place, code: str = HELLO, *, folder: Path | None = None) -> None:
    folder = folder or place.home / "extensions"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text(code)


@pytest.mark.covers("ACP-40", "EXT-15")
async def test_they_are_advertised_and_run_without_the_model(editor, place, model) -> None:
    extend(place)
    async with editor() as client:
        session = await client.new(place.project)
        update = await client.update("available_commands_update")
        known = {one["name"]: one["description"] for one in update["availableCommands"]}
        assert list(known) == ["model", "status", "tools", "policy", "clear", "fail", "hello", "quiet", "wait"]
        assert known["hello"] == "Say hello."
        assert await client.prompt(session, "/hello you there") == "end_turn"
        assert client.text(session) == f"Hello, you there, from {place.project}."
        told = len(client.frames)
        assert await client.prompt(session, "/fail") == "end_turn"
        assert client.text(session, after=told) == "Extension command error: no such thing"
        told = len(client.frames)
        assert await client.prompt(session, "/QUIET") == "end_turn"
        assert client.updates(session, after=told) == []
        assert model.requests == []
        model.says("What do you mean?")
        await client.prompt(session, "/nosuch")
        assert len(model.requests) == 1


async def test_one_that_runs_is_cancelled_and_the_session_goes_on(editor, place, model) -> None:
    extend(place)
    model.says("Still here.")
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "/wait")
        await client.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hi"}])
        await client.notify("session/cancel", sessionId=session)
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}
        assert await client.prompt(session, "hi") == "end_turn"
        assert client.text(session) == "Still here."


async def test_a_replay_shows_what_was_said_and_the_model_gets_what_an_extension_made_of_it(editor, place, model):
    extend(place, "def register(api):\n    api.on('user_message')(lambda text, ctx: text.upper())\n")
    model.says("Yes.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "is it?")
        assert model.requests[0]["messages"][-1]["content"] == "IS IT?"
        told = len(client.frames)
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert client.text(session, kind="user_message_chunk", after=told) == "is it?"


async def test_a_session_is_closed_while_one_runs(editor, place, model) -> None:
    extend(place)
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "/wait")
        await client.ask("session/close", sessionId=session)
        assert await client.answer_to(prompt) == {"stopReason": "cancelled"}


async def test_the_editor_is_told_of_an_extension_of_the_project_that_nobody_trusts(editor, place, model) -> None:
    extend(place, "raise SystemExit\n", folder=place.project / ".aar" / "extensions")
    async with editor() as client:
        session = await client.new(place.project)
        chunk = await client.update("agent_message_chunk")
        assert "`aar extensions trust hello`" in chunk["content"]["text"]
        assert client.kinds(session) == ["available_commands_update", "agent_message_chunk"]
