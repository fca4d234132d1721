"""Injectors that extensions bring: the same timings, in threads when they are plain functions."""

from __future__ import annotations

import pytest

from aar.messages.events import Notice, UserMessage
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of


def bare() -> AgentConfig:
    return AgentConfig(tools={"enabled_builtins": []})


async def test_an_extension_brings_injectors_plain_and_asynchronous(world) -> None:
    world.user(
        "words.py",
        """
        import threading
        from aar.injectors import AfterResponseInjection, Injection, ResponseChange

        def register(api):
            @api.inject("before_chat", once=True)
            def greet(at):
                assert threading.current_thread() is not threading.main_thread()
                return Injection(content=f"In {at.cwd.rpartition('/')[2]}.")

            @api.inject("after_response", name="polish")
            async def shout(at, response):
                return AfterResponseInjection(response=ResponseChange(content=response.content.upper()))

            @api.inject("before_chat", timeout=1)
            def fail(at):
                raise KeyError("hook")
        """,
    )
    provider = ScriptedProvider().text("one").text("two")
    async with world.session(provider, bare()) as session:
        await session.prompt("go")
        await session.prompt("on")
        said = [(fact.content, fact.data) for fact in facts_of(session) if isinstance(fact, UserMessage)]
        problems = [fact.text for fact in facts_of(session) if isinstance(fact, Notice) and fact.kind == "hook_failed"]
        answer = session.snapshot().last_text()
    assert said[1:] == [
        ("In project.", {"kind": "injected", "injector": "words.greet"}),
        ("on", {"kind": "prompt"}),
    ]
    assert problems == ["Injector 'words.fail', before_chat: KeyError: 'hook'"] * 2
    assert answer == "TWO"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('@api.inject("sometimes")', "there is no timing 'sometimes'; there are: before_chat, "),
        ('@api.inject("before_chat", timeout=60)', "an injector has a time-out of 9 s at most, and not 60"),
    ],
)
async def test_what_is_no_injector_keeps_the_extension_out(world, wrong, why) -> None:
    world.user("words.py", f"def register(api):\n    {wrong}\n    def ask(at):\n        return None\n")
    async with world.session(ScriptedProvider().text("ok"), bare()) as session:
        [problem] = [fact.text for fact in facts_of(session) if isinstance(fact, Notice)]
    assert why in problem
