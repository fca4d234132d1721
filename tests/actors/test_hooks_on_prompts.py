"""Hooks that look at what people say, before it is on record."""

from __future__ import annotations

import trio

from aar.hooks import Hooks
from aar.messages.events import Notice, UserMessage
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime


def said_in(session) -> list[str]:
    return [fact.content for fact in facts_of(session) if isinstance(fact, UserMessage)]


async def with_more(said: UserMessage) -> UserMessage:
    return said.model_copy(update={"content": f"{said.content} more"})


async def look(said: UserMessage) -> None:
    pass


async def fail(said: UserMessage) -> None:
    raise KeyError("hook")


async def test_hooks_change_what_is_said_in_order_and_one_that_fails_is_a_notice() -> None:
    hooks = Hooks(before_user_message=(with_more, look, fail, with_more))
    async with open_test_runtime(ScriptedProvider().text("ok"), hooks=hooks) as runtime:
        session = await runtime.sessions.open("/")
        assert (await session.prompt("some")).stop == "end_turn"
        assert said_in(session) == ["some more more"]
        [notice] = [fact for fact in facts_of(session) if isinstance(fact, Notice)]
        assert notice.text == "A before_user_message hook failed: KeyError('hook')"


async def test_a_prompt_that_is_cancelled_in_a_hook_is_on_record_as_it_was_said() -> None:
    looking = trio.Event()

    async def stuck(said: UserMessage) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                looking.set()
                await trio.sleep_forever()
            finally:
                raise ValueError("on my way out")

    hooks = Hooks(before_user_message=(with_more, stuck))
    async with open_test_runtime(ScriptedProvider().text("ok"), hooks=hooks) as runtime:
        session = await runtime.sessions.open("/")

        async def cancel() -> None:
            await looking.wait()
            await session.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with trio.fail_after(5):
                assert (await session.prompt("some")).stop == "cancelled"
        assert said_in(session) == ["some"]
        assert (await session.status()).state == "cancelled"


async def test_a_session_that_is_closed_while_a_hook_looks_has_a_closed_turn_on_record() -> None:
    looking = trio.Event()

    async def stuck(said: UserMessage) -> None:
        looking.set()
        await trio.sleep_forever()

    store = MemoryStore()
    hooks = Hooks(before_user_message=(stuck,))
    async with open_test_runtime(ScriptedProvider().text("ok"), hooks=hooks, store=store) as runtime:
        session = await runtime.sessions.open("/")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "some")
            await looking.wait()
            await runtime.sessions.close(session.session_id)
        stored = await store.load(session.session_id)
        types = [record.event.type for record in stored.records]
        assert types == ["session", "turn_started", "user_message", "error", "turn_ended"]
