from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
import trio

from aar.errors import AnswerCut, ProviderError, ProviderRateLimited
from aar.messages.events import ToolCall
from aar.messages.provider import History, ProviderRequest, StreamDelta
from aar.providers.base import Assembly
from aar.providers.scripted import ScriptedAnswer, ScriptedProvider


def asking(text: str = "hi") -> ProviderRequest:
    return ProviderRequest(History([{"role": "user", "content": text}]))


async def streamed(provider: ScriptedProvider, assembly: Assembly | None = None) -> list[StreamDelta]:
    seen: list[StreamDelta] = []
    async with aclosing(provider.stream(asking())) as deltas:
        async for delta in deltas:
            seen.append(delta)
            if assembly is not None:
                assembly.add(delta)
    return seen


def meta(number: int, **usage: int) -> tuple[str, str, str, dict[str, int]]:
    return "scripted", "scripted", f"scripted_{number}", usage


async def test_a_script_is_played_in_order_streamed_or_not(plain: Any) -> None:
    provider = (
        ScriptedProvider()
        .text("hello", chunks=2)
        .call("bash", command="ls")
        .calls(("a", {}), ToolCall(tool_name="b", tool_call_id="mine"), text="both")
        .text("done")
        .reasoning("hm")
        .usage(3, 4, cache_read_tokens=1)
        .stop("max_tokens")
    )
    assert provider.remaining == 4
    assert plain(await streamed(provider)) == [("he", ""), ("llo", ""), ("done", "end_turn", [], meta(1))]
    assert plain(await provider.complete(asking())) == (
        "",
        [("call_1", "bash", {"command": "ls"})],
        "tool_use",
        [],
        meta(2),
    )
    assert plain(await streamed(provider)) == [
        ("both", ""),
        ("call_2", "a", {}),
        ("mine", "b", {}),
        ("done", "tool_use", [], meta(3)),
    ]
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 1}
    assert plain(await streamed(provider)) == [
        ("", "hm"),
        ("done", ""),
        ("done", "max_tokens", [("hm", {})], meta(4, **usage)),
    ]
    assert provider.remaining == 0


async def test_what_was_asked_is_recorded() -> None:
    provider = ScriptedProvider().text("a").text("b")
    requests = [asking("one"), asking("two")]
    for request in requests:
        await provider.complete(request)
    assert provider.requests == requests


async def test_a_script_that_is_over_says_which_request_found_nothing() -> None:
    provider = ScriptedProvider().text("a")
    await provider.complete(asking())
    with pytest.raises(ProviderError, match="The script is over: it has no answer for request 2") as caught:
        await provider.complete(asking())
    assert not caught.value.retryable


async def test_an_error_comes_after_its_text() -> None:
    error = ProviderRateLimited("slow down", retry_after=3)
    provider = ScriptedProvider().error(error, after="so far").cut("half")
    for text, kind in (("so far", ProviderRateLimited), ("half", AnswerCut)):
        assembly = Assembly()
        with pytest.raises(kind):
            await streamed(provider, assembly)
        assert assembly.text == text


async def test_a_hanging_answer_says_its_text_and_ends_only_when_it_is_left() -> None:
    provider = ScriptedProvider().hang("a")
    async with aclosing(provider.stream(asking())) as deltas:
        assert (await anext(deltas)).text == "a"
        assert provider.streaming_now == 1
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(deltas)
    assert (scope.cancelled_caught, provider.streaming_now) == (True, 0)


async def test_pieces_come_after_their_delay(autojump_clock: trio.testing.MockClock) -> None:
    provider = ScriptedProvider().text("abc", chunks=3, delay=2)
    times: list[tuple[str, float]] = []
    async with aclosing(provider.stream(asking())) as deltas:
        async for delta in deltas:
            times.append((delta.text, trio.current_time()))
    assert times == [("a", 2.0), ("b", 4.0), ("c", 6.0), ("", 6.0)]


async def test_an_answer_can_wait_for_the_test_and_the_test_for_the_request(nursery: trio.Nursery) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("a").after(gate)
    answers: list[str] = []

    async def ask() -> None:
        answers.append((await provider.complete(asking())).content)
        nursery.cancel_scope.cancel()

    nursery.start_soon(ask)
    await provider.reached(1)
    assert answers == []
    gate.set()
    await trio.sleep_forever()


async def test_an_answer_may_depend_on_the_request() -> None:
    def echo(request: ProviderRequest) -> str:
        return str(next(iter(request.messages))["content"])

    provider = ScriptedProvider().reply(echo).reply(lambda request: ScriptedAnswer(text="x", stop="error"))
    assert (await provider.complete(asking("ping"))).content == "ping"
    answer = await provider.complete(asking())
    assert (answer.content, answer.stop_reason) == ("x", "error")
    with pytest.raises(TypeError, match="a function cannot be changed"):
        ScriptedProvider().reply(echo).usage(1, 1)


async def test_the_last_answer_may_serve_every_further_request() -> None:
    provider = ScriptedProvider().text("first").call("ls").forever()
    answers = [await provider.complete(asking()) for _ in range(3)]
    ids = [[call.tool_call_id for call in answer.tool_calls] for answer in answers]
    assert ([answer.content for answer in answers], ids) == (["first", "", ""], [[], ["call_1"], ["call_2"]])


async def test_closing_is_counted() -> None:
    provider = ScriptedProvider()
    await provider.aclose()
    await provider.aclose()
    assert provider.closed == 2
