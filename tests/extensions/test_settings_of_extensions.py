"""What users say to extensions: which are loaded, with which settings, and for which version they are written."""

from __future__ import annotations

from typing import Any

import pytest

from aar.config import masked, secret_values, without_keys
from aar.messages.events import Notice
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of

TELLING = """
    def register(api):
        api.defaults(a="default", b="default", c="default", deep={"x": 1, "y": 1})

        @api.command("tell")
        def tell(args, ctx):
            return str(dict(ctx.settings))
"""


def config(**extensions: Any) -> AgentConfig:
    return AgentConfig(tools={"enabled_builtins": []}, extensions=extensions)


def told(session: Any) -> list[str]:
    return [fact.text for fact in facts_of(session) if isinstance(fact, Notice)]


@pytest.mark.covers("AURA-96")
async def test_the_folder_counts_more_than_the_user_and_the_user_more_than_the_extension(world) -> None:
    world.user("words.py", TELLING)
    said = config(
        settings={"words": {"b": "global", "c": "global", "deep": {"y": 2}}},
        local={str(world.project): {"words": {"c": "local"}}, "/elsewhere": {"words": {"a": "elsewhere"}}},
    )
    async with world.session(ScriptedProvider(), said) as session:
        expected = {"a": "default", "b": "global", "c": "local", "deep": {"x": 1, "y": 2}}
        assert await session.run_command("tell") == str(expected)
        await session.configure({"extensions": {"settings": {"words": {"a": "client"}}}})
        assert await session.run_command("tell") == str(expected)
        assert told(session) == []


async def test_a_setting_that_an_extension_does_not_have_is_told(world) -> None:
    world.user("words.py", TELLING)
    async with world.session(ScriptedProvider(), config(settings={"words": {"d": 1}, "others": {"x": 1}})) as session:
        assert told(session) == ["Extension 'words' has no setting 'd'. It has: a, b, c, deep."]


@pytest.mark.covers("AURA-96")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ["one", "other", "two"]),
        ({"include": ["o*"]}, ["one", "other"]),
        ({"exclude": ["o*"]}, ["two"]),
        ({"include": ["o*", "two"], "exclude": ["one"]}, ["other", "two"]),
        ({"include": []}, []),
    ],
)
async def test_patterns_say_which_extensions_are_loaded(world, notes, said, expected) -> None:
    for name in ("one", "two", "other"):
        world.user(f"{name}.py", f"def register(api):\n    api.command('{name}')(print)\n")
    async with world.session(ScriptedProvider(), config(**said)) as session:
        assert [one.name for one in await session.commands()] == expected


async def test_an_extension_for_another_version_is_refused_with_a_word(world) -> None:
    world.user("new.py", "AAR_API = 2\ndef register(api):\n    api.command('new')(print)\n")
    world.user("same.py", "AAR_API = 1\ndef register(api):\n    api.command('same')(print)\n")
    async with world.session(ScriptedProvider(), config()) as session:
        assert [one.name for one in await session.commands()] == ["same"]
        assert told(session) == [
            "Extension 'new' could not be loaded: its module: it is written for version 2 of the API for extensions, "
            "and this Aar has version 1. Update the one that is older"
        ]


def test_what_is_secret_in_them_is_neither_shown_nor_recorded() -> None:
    local = {"/here": {"words": {"api_key": "hush-hush-2"}}}
    said = config(settings={"words": {"api_key": "hush-hush", "tone": "dry"}}, local=local)
    assert masked(said)["extensions"]["settings"] == {"words": {"api_key": "********", "tone": "dry"}}
    assert without_keys(said)["extensions"]["settings"] == {"words": {"tone": "dry"}}
    assert "hush" not in f"{masked(said)} {without_keys(said)}"
    assert {"hush-hush", "hush-hush-2"} <= set(secret_values(said))
