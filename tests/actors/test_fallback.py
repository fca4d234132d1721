"""What happens when a model cannot be reached and others may be asked instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aar.errors import (
    AarError,
    ContentRefused,
    ContextTooLong,
    InvalidSetting,
    MissingKey,
    MissingPackage,
    ProviderError,
    ProviderRateLimited,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.events import ConfigChanged, ErrorEvent, Notice, ProviderSwitchEvent, TurnEnded
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.runtime import check_provider, open_runtime
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of


def settings(**fields: Any) -> AgentConfig:
    return AgentConfig.model_validate(
        {
            "provider": "a",
            "providers": {name: {"name": "scripted", "model": name} for name in "abc"},
            "fallback_providers": ["b", "c"],
            "max_retries": 1,
            "tools": {"enabled_builtins": []},
            **fields,
        }
    )


class Models:
    """Scripted models by name: what each answers first, and from then on."""

    def __init__(self, **answers: ScriptedAnswer | str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, config: ProviderConfig) -> ScriptedProvider:
        answer = self.answers[config.model]
        if isinstance(answer, ScriptedAnswer) and isinstance(
            answer.error, MissingKey | MissingPackage | InvalidSetting
        ):
            raise answer.error
        provider = ScriptedProvider(config)

        def reply(request: Any) -> ScriptedAnswer | str:
            self.asked.append(config.model)
            return answer

        return provider.reply(reply).forever()


def failing(error: AarError) -> ScriptedAnswer:
    return ScriptedAnswer(error=error)


OUT_OF_REACH = [
    ProviderUnavailable("overloaded", status=529),
    ProviderUnavailable("no network"),
    ProviderUnauthorized("wrong key", status=401),
    ProviderRateLimited("slow down", status=429),
    ProviderError("no credit", status=402),
    ProviderError("no such model", status=404),
    MissingKey("there is no key"),
]


@pytest.mark.parametrize("error", OUT_OF_REACH, ids=[f"{type(one).__name__}-{one.status}" for one in OUT_OF_REACH])
async def test_the_next_model_answers_when_one_cannot_be_reached(tmp_path: Path, error: ProviderError) -> None:
    models = Models(a=failing(error), b="I am b", c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        ended = await session.prompt("who are you?")
        assert ended.stop == "end_turn"
        assert session.snapshot().last_text() == "I am b"
        facts = facts_of(session)
        switch = next(fact for fact in facts if isinstance(fact, ProviderSwitchEvent))
        assert (switch.from_model, switch.to_model) == ("a", "b")
        assert switch.data["reason"] == "fallback"
        assert switch.data["kind"] == type(error).__name__
        assert [fact.patch for fact in facts if isinstance(fact, ConfigChanged)] == [{"provider": "b"}]
        notice = next(fact for fact in facts if isinstance(fact, Notice))
        assert notice.kind == "fallback"
        assert notice.text.endswith("Going on with scripted/b instead of scripted/a.")
        assert not any(isinstance(fact, ErrorEvent) for fact in facts)


@pytest.mark.parametrize(
    "error",
    [ContentRefused("no"), ContextTooLong("too long", status=400), ProviderError("bad request", status=400)],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_model_refuses_is_not_asked_of_the_next_one(tmp_path: Path, error: ProviderError) -> None:
    models = Models(a=failing(error), b="I am b", c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        ended = await session.prompt("who are you?")
        assert ended.stop in ("error", "refused")
        assert models.asked == ["a"]


async def test_the_list_is_gone_through_in_order_and_one_way_for_the_whole_session(tmp_path: Path) -> None:
    down = failing(ProviderUnavailable("down"))
    models = Models(a=down, b=down, c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert [(await session.prompt("go")).stop for _ in range(2)] == ["end_turn", "end_turn"]
        assert models.asked == ["a", "b", "c", "c"]


async def test_when_all_are_out_of_reach_the_turn_ends_with_the_error_of_the_last(tmp_path: Path) -> None:
    models = Models(
        a=failing(ProviderUnavailable("a is down")),
        b=failing(ProviderRateLimited("b is busy")),
        c=failing(ProviderUnauthorized("c knows no such key")),
    )
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        ended = await session.prompt("go")
        assert ended.stop == "error"
        assert models.asked == ["a", "b", "c"]
        errors = [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
        assert errors == ["Authentication failed — check your API key."]


async def test_a_model_that_somebody_chooses_again_has_its_fallbacks_again(tmp_path: Path) -> None:
    models = Models(a=failing(ProviderUnavailable("down")), b="I am b", c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("go")
        await session.configure({"provider": "a"})
        await session.prompt("go")
        assert models.asked == ["a", "b", "a", "b"]


async def test_text_of_an_answer_that_broke_off_is_taken_back_before_the_next_model_answers(tmp_path: Path) -> None:
    cut = ScriptedAnswer(text="Half an ans", error=ProviderUnavailable("cut"))
    models = Models(a=cut, b="A whole answer", c="")
    async with open_runtime(settings(streaming=True), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("go")
        messages = session.snapshot().to_messages()
        assert [message["content"] for message in messages] == ["go", "A whole answer"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (InvalidSetting("provider.base_url is no URL"), "scripted/b cannot be used (provider.base_url is no URL)."),
        (MissingPackage("b needs a package"), "b needs a package."),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_fallback_that_cannot_be_had_is_passed_over(tmp_path: Path, error: AarError, why: str) -> None:
    models = Models(a=failing(ProviderUnavailable("down")), b=failing(error), c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert [(await session.prompt("go")).stop for _ in range(2)] == ["end_turn", "end_turn"]
        assert models.asked == ["a", "c", "c"]
        notices = [fact.text for fact in facts_of(session) if isinstance(fact, Notice)]
        assert notices[-1] == f"{why} Going on with scripted/c instead of scripted/b."


async def test_a_mistake_in_the_settings_of_the_chosen_model_is_told_and_not_passed_over(tmp_path: Path) -> None:
    wrong = failing(InvalidSetting("provider.base_url is no URL of a server"))
    models = Models(a=wrong, b="I am b", c="I am c")
    async with open_runtime(settings(), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert (await session.prompt("go")).stop == "error"
        assert models.asked == []
        errors = [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
        assert errors == ["provider.base_url is no URL of a server"]


async def test_without_fallbacks_the_turn_ends_as_ever(tmp_path: Path) -> None:
    models = Models(a=failing(ProviderUnavailable("down")))
    async with open_runtime(settings(fallback_providers=[]), home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert (await session.prompt("go")).stop == "error"
        last = facts_of(session)[-1]
        assert isinstance(last, TurnEnded)


async def test_a_fallback_that_names_no_profile_is_a_mistake_in_the_settings_and_harms_no_turn(tmp_path: Path) -> None:
    config = settings(fallback_providers=["nobody"])
    with pytest.raises(ValueError, match="Fallback provider key 'nobody' not found in providers dict"):
        check_provider(config)
    models = Models(a=failing(ProviderUnavailable("down")))
    async with open_runtime(config, home=tmp_path, build_provider=models) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert (await session.prompt("go")).stop == "error"
        assert [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)] == [
            "Could not connect to the provider — check that the server URL is correct and the service is running."
        ]
