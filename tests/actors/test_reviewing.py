"""A second model looks at tool calls and at what people say."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from aar.config.reviewer import Reviewer
from aar.errors import InvalidSetting, ProviderUnavailable
from aar.messages.events import ErrorEvent, Notice, ToolResult
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.revising import drop
from aar.runtime import open_runtime
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry

SAFE = '{"safe": true, "reason": "fine"}'
UNSAFE = '```json\n{"safe": false, "reason": "it deletes all"}\n```'


def settings(**reviewer: Any) -> AgentConfig:
    return AgentConfig(
        provider=ProviderConfig(name="scripted", model="agent"),
        providers={"judge": ProviderConfig(name="scripted", model="judge")},
        tools={"enabled_builtins": []},
        max_retries=1,
        reviewer={"provider": "judge", **reviewer},
    )


class Judge:
    """What the second model answers, one after the other, and what it was asked."""

    def __init__(self, *answers: ScriptedAnswer | str) -> None:
        self._answers = list(answers)
        self.asked: list[Any] = []

    def __call__(self, config: ProviderConfig) -> ScriptedProvider:
        provider = ScriptedProvider(config)

        def reply(request: Any) -> ScriptedAnswer | str:
            self.asked.append(json.loads(request.messages[0]["content"]))
            assert request.tools is None
            return self._answers.pop(0)

        return provider.reply(reply).forever()


async def run(judge: Judge, config: AgentConfig, model: ScriptedProvider, *prompts: str) -> tuple[Any, list[str]]:
    tools = ToolRegistry()
    tools.register("echo")(lambda text="": text)
    tools.register("other")(lambda: "other")
    async with open_runtime(config, provider=model, tools=tools, build_provider=judge) as runtime:
        session = await runtime.sessions.open("/")
        stops = [(await session.prompt(text)).stop for text in prompts or ("go",)]
        return session, stops


def results(session: Any) -> list[str]:
    return [fact.output for fact in facts_of(session) if isinstance(fact, ToolResult)]


def told(session: Any) -> list[str]:
    return [fact.text for fact in facts_of(session) if isinstance(fact, Notice) and fact.text]


def calling() -> ScriptedProvider:
    return ScriptedProvider().call("echo", text="hi").text("done")


OBJECTION = "the reviewer objects to this tool call: "


@pytest.mark.covers("AURA-98")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SAFE, "hi"),
        (UNSAFE, f"Error [blocked]: {OBJECTION}it deletes all"),
        ("It is safe.", f"Error [blocked]: {OBJECTION}its answer is no verdict"),
        ('{"safe": "true"}', f"Error [blocked]: {OBJECTION}its answer is no verdict"),
        ("[true]", f"Error [blocked]: {OBJECTION}its answer is no verdict"),
    ],
)
async def test_a_call_runs_when_the_verdict_is_clearly_yes(answer: str, expected: str) -> None:
    judge = Judge(answer)
    session, stops = await run(judge, settings(), calling())
    assert (results(session), stops) == ([expected], ["end_turn"])
    assert judge.asked == [{"tool": "echo", "arguments": {"text": "hi"}, "folder": "/"}]


@pytest.mark.covers("AURA-98")
@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("block", f"Error [blocked]: {OBJECTION}it said nothing within 30 s"),
        ("allow", "hi"),
    ],
)
async def test_without_a_verdict_in_time_the_setting_decides(autojump_clock, on_error: str, expected: str) -> None:
    silent = ScriptedAnswer(text=SAFE, delay=60)
    session, _ = await run(Judge(silent), settings(on_error=on_error, timeout=30), calling())
    assert results(session) == [expected]
    if on_error == "allow":
        assert told(session) == ["The reviewer did not look at this tool call: it said nothing within 30 s"]


@pytest.mark.covers("AURA-98")
@pytest.mark.parametrize("on_error", ["block", "allow"])
async def test_a_reviewer_that_cannot_be_reached_is_no_verdict(on_error: str) -> None:
    gone = ScriptedAnswer(error=ProviderUnavailable("gone"))
    session, _ = await run(Judge(gone), settings(on_error=on_error), calling())
    why = "it cannot be asked (gone)"
    assert results(session) == ["hi" if on_error == "allow" else f"Error [blocked]: {OBJECTION}{why}"]


@pytest.mark.covers("AURA-98")
async def test_an_objection_may_only_be_told_and_some_tools_are_not_looked_at() -> None:
    judge = Judge(UNSAFE)
    model = ScriptedProvider().calls(("echo", {"text": "hi"}), ("other", {})).text("done")
    session, _ = await run(judge, settings(tool_calls="log", tools=["ec*"]), model)
    assert sorted(results(session)) == ["hi", "other"]
    assert told(session) == [f"Only told, not stopped: {OBJECTION}it deletes all"]
    session, _ = await run(judge, settings(tool_calls="off"), calling())
    assert (results(session), len(judge.asked)) == (["hi"], 1)


@pytest.mark.covers("AURA-98")
async def test_each_call_of_a_step_is_looked_at_by_itself() -> None:
    model = ScriptedProvider().calls(("echo", {"text": "a"}), ("echo", {"text": "b"})).text("done")
    judge = Judge(SAFE, SAFE)
    session, _ = await run(judge, settings(), model)
    assert results(session) == ["a", "b"]
    assert sorted(one["arguments"]["text"] for one in judge.asked) == ["a", "b"]


@pytest.mark.covers("AURA-98")
async def test_what_people_say_is_looked_at_before_the_model_sees_it() -> None:
    model = ScriptedProvider().text("one").text("never")
    judge = Judge(SAFE, UNSAFE)
    session, stops = await run(judge, settings(tool_calls="off", user_messages="block"), model, "nice", "nasty")
    assert stops == ["end_turn", "error"]
    assert [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)] == [
        "the reviewer objects to this message: it deletes all"
    ]
    assert judge.asked == [{"said to the agent": ["nice"]}, {"said to the agent": ["nasty"]}]
    assert len(model.requests) == 1


async def test_what_is_too_long_to_be_looked_at_is_no_yes() -> None:
    model = ScriptedProvider().call("echo", text="x" * 60_000).text("done")
    judge = Judge()
    session, _ = await run(judge, settings(), model)
    assert results(session) == [f"Error [blocked]: {OBJECTION}it is too long to be looked at"]
    assert judge.asked == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"provider": "jugde"}, "reviewer.provider: must be a key of `providers`; there are: judge"),
        ({"tool_call": "off"}, "reviewer.tool_call: there is no such setting. Did you mean 'tool_calls'?"),
        ({"tool_calls": "on"}, "reviewer.tool_calls: must be one of off, log, block, not 'on'"),
        ({"timeout": 0}, "reviewer.timeout: must be a number of seconds, 600 at most, not 0"),
        ({"tools": "echo"}, "reviewer.tools: must be a list of patterns"),
        ({"prompt": 3}, "reviewer.prompt: must be a text"),
    ],
)
async def test_a_mistake_in_the_settings_is_told(said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{re.escape(why)}"):
        await run(Judge(), settings(**said), calling())


def test_the_page_about_safety_names_its_settings_and_their_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "safety.md").read_text(encoding="utf-8")
    table = page[page.index("| key of `reviewer` |") :].partition("\n\n")[0]
    told = {row.split("|")[1].strip(" `"): row.split("|")[2] for row in table.splitlines()[2:]}
    for field in fields(Reviewer):
        default = "" if field.default in (MISSING, "") else field.default
        shown = {"timeout": "`120`", "tools": '`["*"]`'}.get(field.name, f"`{default}`" if default else "")
        assert told.get(field.name, "missing").strip() == shown, field.name


async def test_a_notice_behind_what_people_say_hides_nothing(tmp_path: Path) -> None:
    judge = Judge(UNSAFE)
    config = settings(user_messages="block", tool_calls="off").patched({"file_snapshots": True})
    async with open_runtime(
        config, provider=ScriptedProvider().text("never"), home=tmp_path, build_provider=judge
    ) as runtime:
        session = await runtime.sessions.open(str(tmp_path))  # Aar's own folder, which is not kept: that is told
        assert (await session.prompt("burn it")).stop == "error"
    assert any(isinstance(fact, Notice) and fact.kind == "snapshot" for fact in facts_of(session))
    assert judge.asked == [{"said to the agent": ["burn it"]}]


async def test_a_message_that_was_stopped_is_looked_at_with_the_next_one() -> None:
    """The model would see it then."""
    judge = Judge(UNSAFE, UNSAFE, SAFE)
    config = settings(user_messages="block", tool_calls="off")
    async with open_runtime(config, provider=ScriptedProvider().text("hi"), build_provider=judge) as runtime:
        session = await runtime.sessions.open("/")
        stops = [(await session.prompt(text)).stop for text in ("burn it", "go on")]
        await drop(session, 2)
        stops.append((await session.prompt("hello")).stop)
    assert stops == ["error", "error", "end_turn"]
    assert [asked["said to the agent"] for asked in judge.asked] == [["burn it"], ["burn it", "go on"], ["hello"]]


async def test_an_answer_that_no_reader_takes_is_no_yes() -> None:
    model = ScriptedProvider().text("never")
    _, stops = await run(Judge("[" * 100_000), settings(user_messages="block", tool_calls="off"), model, "burn it")
    assert (stops, list(model.requests)) == (["error"], [])
