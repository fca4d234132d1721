"""Sessions for runs: opened for somebody who may leave at any moment."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.errors import SessionInUse
from aar.messages.events import ConfigChanged
from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime
from aar.sharing.attaching import attached
from aar.testing import MemoryStore, ScriptedProvider
from aar.transports.runs.conversations import IDLE_FOR, Conversations


class GatedStore(MemoryStore):
    """Opening a session waits until `gate` is set. `opened` are the ids of those that were."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gate = trio.Event(), trio.Event()
        self.opened: list[str] = []

    @asynccontextmanager
    async def open(self, session_id: str, **more: Any) -> AsyncIterator[Any]:
        self.asked.set()
        await self.gate.wait()
        async with super().open(session_id, **more) as log:
            self.opened.append(session_id)
            yield log


def moments() -> Iterator[int]:
    """How many passes of the scheduler after the file could be opened somebody leaves."""
    return itertools.chain(*(range(12) for _ in range(8)))


async def is_free(store: MemoryStore, session_id: str) -> bool:
    try:
        async with MemoryStore.open(store, session_id, create=False):
            return True
    except SessionInUse:
        return False


async def test_whenever_somebody_leaves_while_a_session_is_opened_it_is_ours_or_nobodys(tmp_path: Path) -> None:
    lost = []
    for moment in moments():
        store = GatedStore()
        async with open_runtime(AgentConfig(), provider=ScriptedProvider(), store=store, home=tmp_path) as runtime:
            conversations = Conversations(runtime.sessions, runtime.start, str(tmp_path))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_join, conversations)
                await store.asked.wait()
                store.gate.set()
                for _ in range(moment):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked(0.002)
            lost += [
                moment for one in store.opened if conversations.find(one) is None and not await is_free(store, one)
            ]
    assert lost == []


async def test_one_that_nobody_waits_for_any_more_is_let_go_and_leaves_nothing(
    tmp_path: Path, autojump_clock: Any
) -> None:
    store = GatedStore()
    async with open_runtime(AgentConfig(), provider=ScriptedProvider(), store=store, home=tmp_path) as runtime:
        conversations = Conversations(runtime.sessions, runtime.start, str(tmp_path))
        runtime.start("idle-sessions", conversations.let_go_of_idle_ones)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when, store.asked, scope)
                async with conversations.joined(None):
                    pass
        assert scope.cancelled_caught
        store.gate.set()
        await trio.sleep(200.0)
        assert len(store.opened) == 1
        assert await store.list() == ([], "")
        assert not [name for name in runtime.registry.names() if name.startswith("session:")]


@pytest.mark.parametrize("is_over", [False, True])
async def test_of_the_sessions_that_are_let_go_only_those_stay_in_which_something_was_said(
    tmp_path: Path, autojump_clock: Any, *, is_over: bool
) -> None:
    """Also where the last run that came to it was cancelled, and where it is not ours but was found."""
    store, said = MemoryStore(), {}
    async with open_runtime(
        AgentConfig(), provider=ScriptedProvider().text("x").forever(), store=store, home=tmp_path
    ) as runtime:
        found = (await runtime.sessions.open(str(tmp_path))).session_id
        await runtime.sessions.close(found)
        conversations = Conversations(runtime.sessions, runtime.start, str(tmp_path))
        for name, joins in (("blank", 1), ("used", 1), ("used and joined again", 2)):
            for number in range(joins):
                async with conversations.joined(said.get(name)) as conversation:
                    said[name] = conversation.handle.session_id
                    if name != "blank" and not number:
                        await conversation.handle.prompt("go")
        async with conversations.joined(found):
            pass
        if is_over:
            await conversations.let_go_of_blank_ones()
        else:
            runtime.start("idle-sessions", conversations.let_go_of_idle_ones)
            await trio.sleep(200.0)
        kept = {entry.session_id for entry in (await store.list())[0]}
        assert kept == {found, said["used"], said["used and joined again"]}


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _join(conversations: Conversations) -> None:
    async with conversations.joined(None):
        await trio.sleep_forever()


async def test_whoever_is_cut_short_while_it_changes_the_settings_leaves_them_to_nobody(tmp_path: Path) -> None:
    async with open_runtime(AgentConfig(), provider=ScriptedProvider(), home=tmp_path) as runtime:
        conversations = Conversations(runtime.sessions, runtime.start, str(tmp_path))
        async with conversations.joined(None) as conversation:

            def patches() -> list[dict[str, Any]]:
                facts = [record.event for record in conversation.handle.records()]
                return [fact.patch for fact in facts if isinstance(fact, ConfigChanged)]

            await conversation.use(None)
            assert patches() == []
            strict = {"read_only": True}
            with trio.CancelScope() as scope:
                scope.cancel()
                await conversation.use(None, strict)
            await conversation.use(None, strict)
            await conversation.use(None, strict)
            assert patches()[-1] == {"safety": strict}
            await conversation.use(None)
            told = len(patches())
            await conversation.use(None)
            assert (patches()[-1], len(patches())) == ({"provider": None, "safety": None}, told)


async def test_a_session_that_another_process_uses_is_not_let_go(autojump_clock: Any, tmp_path: Path) -> None:
    provider = ScriptedProvider().text("one").text("two")
    async with open_runtime(AgentConfig(), provider=provider, home=tmp_path, share=True) as runtime:
        conversations = Conversations(runtime.sessions, runtime.start, str(tmp_path))
        runtime.start("idle", conversations.let_go_of_idle_ones)
        async with conversations.joined(None) as conversation:
            await conversation.handle.prompt("go")
            session_id = conversation.handle.session_id
            await trio.sleep(1)
        async with attached(tmp_path, session_id) as guest:
            await trio.sleep(10 * IDLE_FOR)
            assert (await guest.handle.prompt("still there?")).stop == "end_turn"
        await trio.sleep(2 * IDLE_FOR)
        assert conversations.find(session_id) is None
