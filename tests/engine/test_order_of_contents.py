"""Text and thoughts of one answer stay in the order in which they came."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aar.engine import EngineMessage
from aar.engine.view import View
from aar.messages.content import TextBlock
from aar.messages.events import AssistantMessage, ReasoningBlock, Recorded, StreamChunk, ToolCall, TurnStarted
from aar.messages.provider import ProviderRequest, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Provider


class Musing(Provider):
    """Thinks in the middle of what it says."""

    name = "musing"
    supports_streaming = True

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        for text, thought in (("One ", ""), ("and ", ""), ("", "hm, "), ("", "two?"), ("two.", "")):
            yield StreamDelta(text, thought)
        yield StreamDelta(done=True, stop_reason="end_turn")


def shown(message: EngineMessage) -> list[str]:
    """Thoughts with a `+` before them."""
    found = []
    for content in message.contents:
        match content:
            case TextBlock():
                found.append(content.text)
            case ReasoningBlock():
                found.append(f"+{content.content}")
            case ToolCall():
                found.append(f"{content.tool_name}()")
    return found


@pytest.mark.covers("ENG-21")
async def test_two_pieces_of_text_around_a_thought_are_three_contents(engine: Any) -> None:
    async with engine(Musing(ProviderConfig())) as it:
        await it.run("go")
        answer = it.messages[-1]
    assert shown(answer) == ["One and ", "+hm, two?", "two."]
    assert answer.text == "One and two."


def view_of(*events: Any) -> View:
    return View(Recorded(seq, "t", event) for seq, event in enumerate([TurnStarted(), *events], 1))


@pytest.mark.covers("ENG-21")
def test_a_message_that_is_being_said_has_its_parts_in_order() -> None:
    chunks = [StreamChunk(text="a"), StreamChunk(text="b"), StreamChunk(reasoning_text="c"), StreamChunk(text="d")]
    message = view_of(*chunks).streaming
    assert message is not None
    assert shown(message) == ["ab", "+c", "d"]


@pytest.mark.parametrize(
    ("places", "contents"),
    [
        ([None], ["+0", "abcd", "ls()"]),
        ([None, 2, 2, 4], ["+0", "ab", "+1", "+2", "cd", "+3", "ls()"]),
        ([3, 1, 99, -5, "x", 2.5], ["abc", "+0", "+1", "d", "+2", "+3", "+4", "+5", "ls()"]),
    ],
)
def test_places_that_make_no_sense_lose_nothing(places: list[Any], contents: list[str]) -> None:
    blocks = [
        ReasoningBlock(content=str(number), data={} if place is None else {"text_before": place})
        for number, place in enumerate(places)
    ]
    view = view_of(*blocks, ToolCall(tool_name="ls"), AssistantMessage(content="abcd"))
    assert shown(view.messages[-1]) == contents
