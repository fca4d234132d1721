"""A session that goes on with another model: each pair of adapters, against servers that refuse what vendors refuse."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from aar.journal.jsonl import JsonlStore
from aar.messages.content import ImageBlock, ImageURL, TextBlock
from aar.messages.events import ErrorEvent, ProviderSwitchEvent
from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime
from aar.testing import facts_of
from aar.tools.registry import ToolRegistry
from tests.providers.wire.form import Answer, Entry
from tests.providers.wire.servers import ADAPTERS, NAMES, Vendors


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_HEAD = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
_PNG = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", _HEAD) + _chunk(b"IDAT", zlib.compress(b"\0\0")) + _chunk(b"IEND", b"")
PIXEL = base64.b64encode(_PNG).decode()
PICTURE = ImageBlock(image_url=ImageURL(url=f"data:image/png;base64,{PIXEL}"))
UNKNOWN = "no such tool!"


def toolbox() -> ToolRegistry:
    tools = ToolRegistry()

    async def weather(city: str) -> str:
        return f"sunny in {city}"

    async def distance(start: str, end: str = "here", unit: str | None = None) -> str:
        return f"far from {start}"

    tools.register(description="The weather in a city.")(weather)
    tools.register(description="How far it is.")(distance)
    return tools


def settings(vendors: Vendors, first: str, *, streaming: bool = True) -> AgentConfig:
    """The config file of somebody who has a profile for each model."""
    profiles = {name: vendors.config(name) for name in NAMES}
    return AgentConfig(provider=first, providers=profiles, streaming=streaming, max_retries=1)


def lookup(name: str, city: str) -> list[Answer]:
    """What a model says to one prompt: parallel calls, one of a tool that does not exist; then an answer."""
    calls = (("weather", {"city": city}), ("distance", {"start": city, "unit": "km"}), (UNKNOWN, {"x": [1.5, "ü"]}))
    return [
        Answer(f"{name} wonders", f"{name} looks at {city}.", calls),
        Answer(f"{name} knows", f"{name}: sunny in {city}."),
    ]


def told(name: str, city: str, refused: str) -> list[Entry]:
    """The same as the next model gets to read it."""
    return [
        ("assistant", f"{name} looks at {city}."),
        ("call", "weather", {"city": city}),
        ("call", "distance", {"start": city, "unit": "km"}),
        ("call", "no_such_tool_", {"x": [1.5, "ü"]}),
        ("result", f"sunny in {city}"),
        ("result", f"far from {city}"),
        ("result", refused),
        ("assistant", f"{name}: sunny in {city}."),
    ]


@pytest.fixture
def vendors(server: Any) -> Vendors:
    return Vendors(server)


def refusal_of(outline: Sequence[Entry]) -> str:
    """What was answered to the call of a tool that does not exist."""
    return str(outline[8][1])


@pytest.mark.covers("PRV-05")
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("first", "second"), list(permutations(NAMES, 2)))
async def test_a_session_goes_on_with_another_model_and_back(
    vendors: Vendors, tmp_path: Path, first: str, second: str, streaming: bool
) -> None:
    vendors.replies.extend([*lookup("A", "Rome"), *lookup("B", "Oslo"), *lookup("C", "Bonn")])
    async with open_runtime(settings(vendors, first, streaming=streaming), tools=toolbox(), home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        stops = [(await session.prompt([TextBlock(text="What is it like there?"), PICTURE])).stop]
        await session.configure({"provider": second})
        stops.append((await session.prompt("And there?")).stop)
        await session.configure({"provider": first})
        stops.append((await session.prompt("And at last?")).stop)
        errors = [fact.message for fact in facts_of(session) if isinstance(fact, ErrorEvent)]
    assert (vendors.findings, errors, stops) == ([], [], ["end_turn"] * 3)
    assert [name for name, _ in vendors.asked] == [first, first, second, second, first, first]
    outlines = [outline for _, outline in vendors.outlines()]
    refused = refusal_of(outlines[1])
    assert outlines[-1] == [
        ("user", "What is it like there?"),
        ("image", "image/png", PIXEL),
        *told("A", "Rome", refused),
        ("user", "And there?"),
        *told("B", "Oslo", refused),
        ("user", "And at last?"),
        *told("C", "Bonn", refused)[:-1],
    ]
    for earlier, later in pairwise(outlines):
        assert later[: len(earlier)] == earlier


@pytest.mark.parametrize(("first", "second"), list(permutations(NAMES, 2)))
async def test_another_model_takes_over_between_a_call_and_its_result(
    vendors: Vendors, tmp_path: Path, first: str, second: str
) -> None:
    steps = [lookup("A", "Rome")[0], *lookup("B", "Oslo")]
    vendors.replies.extend(steps)
    async with open_runtime(settings(vendors, first), tools=toolbox(), home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))

        async def take_over() -> None:
            await session.configure({"provider": second})

        vendors.before_answer = take_over
        ended = await session.prompt("Look at both")
    assert (vendors.findings, ended.stop) == ([], "end_turn")
    assert [name for name, _ in vendors.asked] == [first, second, second]
    outlines = [outline for _, outline in vendors.outlines()]
    refused = str(outlines[1][7][1])
    question = ("user", "Look at both")
    assert outlines == [
        [question],
        [question, *told("A", "Rome", refused)[:-1]],
        [question, *told("A", "Rome", refused)[:-1], *told("B", "Oslo", refused)[:-1]],
    ]


async def test_one_conversation_with_tools_is_carried_through_all_adapters(
    vendors: Vendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address and the model are what is said in the session; keys are in the environment, the journal on disk."""
    for name in ("anthropic", "openai", "gemini", "generic"):
        monkeypatch.setenv(f"{name.upper()}_API_KEY", vendors.formats[name].key)
    vendors.formats["responses"].key, vendors.formats["ollama"].key = vendors.formats["openai"].key, ""
    cities = ["Rome", "Oslo", "Bonn", "Bern", "Riga", "Lima", "Graz"]
    way = [*NAMES, "anthropic"]
    for name, city in zip(way, cities, strict=True):
        vendors.replies.extend(lookup(name, city))
    store = JsonlStore(tmp_path / "sessions")
    config = AgentConfig(provider=vendors.config(way[0], api_key=""), streaming=True, max_retries=1)
    async with open_runtime(config, tools=toolbox(), store=store, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt([TextBlock(text="What is it like there?"), PICTURE])
    async with open_runtime(config, tools=toolbox(), store=store, home=tmp_path) as runtime:
        session = await runtime.sessions.load(session.session_id)
        for name in way[1:]:
            patch = vendors.config(name).model_dump(mode="json", include={"name", "model", "base_url", "extra"})
            await session.configure({"provider": patch})
            ended = await session.prompt("And there?")
            assert (vendors.findings, ended.stop) == ([], "end_turn"), name
        outlines = [outline for _, outline in vendors.outlines()]
        switches = [fact.to_provider for fact in facts_of(session) if isinstance(fact, ProviderSwitchEvent)]
    refused = refusal_of(outlines[1])
    expected: list[Entry] = [("user", "What is it like there?"), ("image", "image/png", PIXEL)]
    for index, (name, city) in enumerate(zip(way, cities, strict=True)):
        expected += [("user", "And there?")] * (index > 0) + told(name, city, refused)
    assert outlines[-1] == expected[:-1]
    assert [name for name, _ in vendors.asked] == [name for name in way for _ in range(2)]
    assert switches == [ADAPTERS[name] for name in way[1:]]
