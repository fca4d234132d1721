"""Who uses a provider, and when it is closed."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from aar.errors import MissingKey
from aar.messages.events import ProviderMeta
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.runtime import open_runtime
from aar.testing import ScriptedProvider, facts_of


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, **fields})


class Workshop:
    """Builds scripted providers that answer everything, and remembers them."""

    def __init__(self, provider: type[ScriptedProvider] = ScriptedProvider) -> None:
        self.built: list[ScriptedProvider] = []
        self._kind = provider

    def __call__(self, config: ProviderConfig) -> ScriptedProvider:
        provider = self._kind(config)
        self.built.append(provider.text(f"I am {config.model}").usage(1_000_000, 0).forever())
        return self.built[-1]

    @property
    def closed(self) -> list[int]:
        return [provider.closed for provider in self.built]


def model(name: str) -> AgentConfig:
    return settings(provider=ProviderConfig(name="scripted", model=name))


@pytest.mark.covers("LOOP-49")
async def test_sessions_with_the_same_settings_share_a_provider_that_is_closed_once(tmp_path) -> None:
    build = Workshop()
    async with open_runtime(model("a"), home=tmp_path, build_provider=build) as runtime:
        one, two = [await runtime.sessions.open("/") for _ in range(2)]
        other = await runtime.sessions.open("/", config=model("b"))
        for session in (one, two, other):
            await session.prompt("go")
        assert [provider.config.model for provider in build.built] == ["a", "b"]
        await runtime.sessions.close(one.session_id)
        await runtime.sessions.close(other.session_id)
        await trio.testing.wait_all_tasks_blocked()
        assert build.closed == [0, 1]
    assert build.closed == [1, 1]


@pytest.mark.covers("LOOP-49")
async def test_a_switch_of_the_model_closes_the_former_one_once_its_last_user_has_left(tmp_path) -> None:
    build = Workshop()
    async with open_runtime(model("a"), home=tmp_path, build_provider=build) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
        await session.configure({"provider": {"model": "b"}})
        assert build.closed == [0]
        await session.prompt("go")
        await trio.testing.wait_all_tasks_blocked()
        assert session.snapshot().last_text() == "I am b"
        assert build.closed == [1, 0]
    assert build.closed == [1, 1]


@pytest.mark.covers("TOK-09")
async def test_each_answer_costs_what_its_own_model_costs(tmp_path) -> None:
    build = Workshop()
    async with open_runtime(model("claude-sonnet-4-6"), home=tmp_path, build_provider=build) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
        await session.configure({"provider": {"model": "claude-haiku-4-5"}})
        await session.prompt("go")
        costs = [event.data["cost"] for event in facts_of(session) if isinstance(event, ProviderMeta)]
        assert costs == [3.0, 1.0]
        assert (await session.status()).cost == 4.0


async def test_a_turn_that_is_cut_by_the_end_of_everything_still_has_its_provider(tmp_path) -> None:
    order: list[str] = []
    is_asked = trio.Event()

    class Noting(ScriptedProvider):
        async def stream(self, request):
            is_asked.set()
            try:
                await trio.sleep_forever()
                yield
            finally:
                order.append("stream left")

        async def aclose(self) -> None:
            order.append("closed")

    failing = open_runtime(model("a"), home=tmp_path, build_provider=Workshop(Noting))
    with pytest.raises(KeyError, match="mine"):
        await _prompt_and_fail(failing, is_asked)
    assert order == ["stream left", "closed"]


async def _prompt_and_fail(opening, is_asked) -> None:
    async with opening as runtime, trio.open_nursery() as nursery:
        session = await runtime.sessions.open("/")
        nursery.start_soon(_ignore_the_end, session)
        await is_asked.wait()
        raise KeyError("mine")


async def _ignore_the_end(session) -> None:
    await session.prompt("go")


async def test_a_provider_that_does_not_close_holds_nobody_up(tmp_path, autojump_clock, caplog) -> None:
    class Clinging(ScriptedProvider):
        async def aclose(self) -> None:
            await trio.sleep_forever()

    async with open_runtime(model("a"), home=tmp_path, build_provider=Workshop(Clinging)) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
    assert trio.current_time() < 6
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_provider_that_cannot_be_built_ends_the_turn_and_not_the_session(tmp_path, story) -> None:
    attempts = []

    def build(config):
        attempts.append(config.model)
        if len(attempts) == 1:
            raise MissingKey("There is no key", provider="scripted")
        return ScriptedProvider(config).text("x")

    async with open_runtime(model("a"), home=tmp_path, build_provider=build) as runtime:
        session = await runtime.sessions.open("/")
        assert (await session.prompt("go")).stop == "error"
        assert story(session)[-2:] == ["error There is no key", "turn_ended error"]
        assert (await session.prompt("again")).stop == "end_turn"


async def test_a_provider_with_a_server_of_its_own_has_it_for_as_long_as_it_is_used(tmp_path) -> None:
    running: list[str] = []

    class Served(ScriptedProvider):
        async def serve(self) -> None:
            running.append("+")
            try:
                await trio.sleep_forever()
            finally:
                running.append("-")

    async with open_runtime(model("a"), home=tmp_path, build_provider=Workshop(Served)) as runtime:
        session = await runtime.sessions.open("/")
        await session.prompt("go")
        assert running == ["+"]
        assert "model:1" in runtime.registry.names()
        await runtime.sessions.close(session.session_id)
        await trio.testing.wait_all_tasks_blocked()
        assert running == ["+", "-"]
        assert "model:1" not in runtime.registry.names()
