from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from aar.errors import InvalidSetting
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import History, ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly, Provider

REQUEST = ProviderRequest(History([{"role": "user", "content": "hi"}]))
META = ProviderMeta(provider="whole", model="m", usage={"input_tokens": 1})
CALLS = (ToolCall(tool_name="a", tool_call_id="1"), ToolCall(tool_name="b", tool_call_id="2", arguments={"x": 1}))
THOUGHTS = (ReasoningBlock(content="hm", data={"signature": "s"}), ReasoningBlock(content="so"))
ANSWER = ProviderResponse("hello", CALLS, "max_tokens", THOUGHTS, META)


class Whole(Provider):
    name = "whole"

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        return ANSWER


class Streamed(Provider):
    name = "streamed"

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        yield StreamDelta(text="hel")
        yield StreamDelta()
        yield StreamDelta(reasoning_delta="h")
        yield StreamDelta(text="lo", reasoning_delta="m")
        yield StreamDelta(tool_call_delta=CALLS[0])
        yield StreamDelta(done=True, stop_reason="tool_use", meta=META)
        yield StreamDelta(text="never seen")


async def streamed(provider: Provider) -> list[StreamDelta]:
    async with aclosing(provider.stream(REQUEST)) as deltas:
        return [delta async for delta in deltas]


@pytest.mark.covers("PRV-01")
async def test_a_provider_that_only_completes_works_in_both_modes() -> None:
    provider = Whole(ProviderConfig())
    assembly = Assembly()
    for delta in await streamed(provider):
        assembly.add(delta)
    assert (await provider.complete(REQUEST), assembly.response()) == (ANSWER, ANSWER)


async def test_a_provider_that_only_streams_works_in_both_modes(plain: Any) -> None:
    answer = await Streamed(ProviderConfig()).complete(REQUEST)
    assert plain(answer) == (
        "hello",
        [("1", "a", {})],
        "tool_use",
        [("hm", {"text_before": 3})],
        ("whole", "m", "", {"input_tokens": 1}),
    )


OWN = {"provider": "p"}


@pytest.mark.covers("ENG-21")
@pytest.mark.parametrize(
    ("said", "last", "thoughts"),
    [
        (["+a", "+b", "c"], (), [("ab", {})]),
        (["a", "+b ", "+c", "d", "+e"], (), [("b c", {"text_before": 1}), ("e", {"text_before": 2})]),
        (["+a", "bcd", "+ ", "+e", "f"], (), [("a", {}), ("e", {"text_before": 3})]),
        (["+a", "b", "+c"], (("ac", OWN),), [("a", OWN), ("c", OWN | {"text_before": 1})]),
        (["+a", "b", "+c"], (("ac", {"replay": True}),), [("ac", {"replay": True})]),
        (["+a", "b", "+c"], (("a", {}), ("c", {})), [("a", {}), ("c", {})]),
        (["+a", "b", "+c"], (("a, then c", {}),), [("a, then c", {})]),
    ],
)
def test_thoughts_that_text_came_in_between_are_several_and_know_what_was_said_before(said, last, thoughts) -> None:
    assembly = Assembly()
    for piece in said:
        is_thought = piece.startswith("+")
        assembly.add(StreamDelta(reasoning_delta=piece[1:]) if is_thought else StreamDelta(text=piece))
    blocks = tuple(ReasoningBlock(content=content, data=data) for content, data in last)
    assembly.add(StreamDelta(done=True, stop_reason="end_turn", reasoning=blocks))
    assert [(block.content, block.data) for block in assembly.response().reasoning] == thoughts


async def test_a_provider_that_does_neither_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Provider must define complete\(\) or stream\(\)"):
        await Provider(ProviderConfig()).complete(REQUEST)
    with pytest.raises(NotImplementedError):
        await streamed(Provider(ProviderConfig()))


@pytest.mark.covers("PRV-02")
def test_capabilities_have_six_keys_with_the_defaults_of_the_base() -> None:
    assert Whole(ProviderConfig()).capabilities() == {
        "name": "whole",
        "tools": True,
        "reasoning": False,
        "streaming": True,
        "structured_output": False,
        "vision": False,
    }


@pytest.mark.covers("PRV-03")
async def test_the_fallback_stream_replays_text_thoughts_calls_and_the_terminal_delta() -> None:
    assert await streamed(Whole(ProviderConfig())) == [
        StreamDelta(text="hello"),
        StreamDelta(reasoning_delta="hm"),
        StreamDelta(reasoning_delta="so"),
        StreamDelta(tool_call_delta=CALLS[0]),
        StreamDelta(tool_call_delta=CALLS[1]),
        StreamDelta(done=True, stop_reason="max_tokens", meta=META, reasoning=THOUGHTS),
    ]


@pytest.mark.parametrize(("calls", "stop"), [((), "end_turn"), (CALLS, "tool_use")])
def test_a_stream_without_a_terminal_delta_is_logged_and_judged_by_its_calls(
    calls: tuple[ToolCall, ...], stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    assembly = Assembly()
    for call in calls:
        assembly.add(StreamDelta(tool_call_delta=call))
    with caplog.at_level(logging.WARNING):
        assert assembly.response() == ProviderResponse(tool_calls=calls, stop_reason=stop)
    assert caplog.messages == ["The stream ended without a terminal delta"]


class Patient(Provider):
    default_first_byte_timeout = 600.0


@pytest.mark.parametrize(
    ("extra", "limits"),
    [
        ({}, (120.0, 60.0)),
        ({"first_byte_timeout": 5}, (5.0, 60.0)),
        ({"idle_timeout": 0}, (120.0, None)),
        ({"idle_timeout": None, "first_byte_timeout": 0.5}, (0.5, None)),
        ({"timeout": 7}, (7.0, 7.0)),
        ({"read_timeout": 8, "timeout": 7}, (8.0, 8.0)),
        ({"read_timeout": None}, (None, None)),
        ({"read_timeout": 8, "idle_timeout": 3}, (8.0, 3.0)),
    ],
)
def test_limits_on_silence_come_from_extra(extra: dict[str, Any], limits: tuple[float | None, float | None]) -> None:
    provider = Whole(ProviderConfig(extra=extra))
    assert (provider.first_byte_timeout, provider.idle_timeout) == limits


def test_an_adapter_may_have_other_limits_of_its_own() -> None:
    assert Patient(ProviderConfig()).first_byte_timeout == 600.0


@pytest.mark.parametrize("value", ["60", True, -1, float("inf"), []])
def test_a_limit_that_is_no_number_of_seconds_is_refused(value: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"provider\.extra\.timeout must be a number of seconds"):
        Whole(ProviderConfig(extra={"timeout": value}))
