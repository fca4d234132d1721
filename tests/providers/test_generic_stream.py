"""How the generic adapter reads streams: recorded ones, odd ones, broken ones, endless ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import AnswerCut, BadProviderReply, ProviderError, ProviderRateLimited, ProviderUnavailable
from aar.messages.provider import StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly
from aar.providers.generic import GenericProvider
from aar.providers.openai_stream import ChatStream
from aar.providers.sse import SseParser
from tests.providers.streaming import REQUEST, answered, streamed

SMOL, GEMMA = "smollm2-135m", "gemma-3-270m-q4_k_m"
DAMAGED = '{"path": "hello.py", "content": "Hello'
RECORDED: dict[str, Any] = {
    "chat-json-schema": (
        '{\n  "name": "Jason",\n  "age": 25\n}',
        [],
        "end_turn",
        {},
        SMOL,
        "DUW5wT8q6FePO9I9qRo04pvhOOWvZNGY",
    ),
    "chat-length": ("In the sleepy town of Rav", [], "max_tokens", {}, SMOL, "4H0Z4ohCmFEAexwbbMrbjyAd6AoKhW1d"),
    "chat-ping": ("", [], "end_turn", {}, SMOL, "LjX6WzeGMeUnhqr2koMXVnHfUAiu13S2"),
    "chat-plain": ("The capital of France is Paris.", [], "end_turn", {}, SMOL, "84zOgo2xHup9APqE2mfd7N07PbBZ4z76"),
    "chat-stopword": ("The capital of France is Paris", [], "end_turn", {}, SMOL, "aXQS27sF2iH9hmnaZMCVwz5E48eVHE8h"),
    "chat-tool-call": (
        "",
        [("Dx5BTaf76suSQSNDPovOSlkWU13Y4eiw", "read_file", {"path": "notes.txt"})],
        "tool_use",
        {"input_tokens": 937, "output_tokens": 33, "total_tokens": 970, "cache_read_tokens": 1},
        SMOL,
        "iJ0hd4YKGSwbKW1OehedZAEbRqdeK0Kf",
    ),
    "chat-tool-choice-named-ignored": (
        "",
        [("f09rX0bP7DjeoAgdop0sDZQfxCqo6awK", "write_file", {"raw": DAMAGED})],
        "max_tokens",
        {},
        SMOL,
        "vjYcSiNO8EuZm0YJt89e7X1bFW2VZ3Cy",
    ),
    "chat-tool-parallel": (
        "",
        [
            ("FuSMcO8PQn1SGA9acHiCeCBHQ3lpry70", "read_file", {"path": "a.txt"}),
            ("6H1c77RnUtAinPYMNtscW2gQOxF3tF8O", "write_file", {"path": "b.txt", "content": "good morning"}),
            ("ZJd9CeAIwo5P9xk8L2Pq9XXHxb6LAc8o", "list_directory", {"path": "."}),
        ],
        "max_tokens",
        {},
        GEMMA,
        "L5iXHMgHTV7EZzLX3hXPfGDtTqzgcH5N",
    ),
    "chat-tool-result": ("The secret word is pineapple.", [], "end_turn", {}, SMOL, "SAgExESmRaynsnKsc222NrNREukmvxbL"),
    "chat-tool-truncated": (
        "",
        [("guZogLocPhRdU4j8K4ZiF9iHZzZh1KOF", "read_file", {"raw": '{"path": "notes'})],
        "max_tokens",
        {},
        SMOL,
        "GUAVcRa9vJCxp17vmSO4OrDKclWxZqTg",
    ),
    "chat-tools-dropped": (
        "Read notes.txt and tell me the secret word.",
        [],
        "end_turn",
        {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52},
        SMOL,
        "cJgYIOiEfuQHvzM13Zh3lYWlQ4J4lIgU",
    ),
    "chat-usage": (
        "The capital of France is Paris.",
        [],
        "end_turn",
        {"input_tokens": 16, "output_tokens": 8, "total_tokens": 24, "cache_read_tokens": 15},
        SMOL,
        "QEH2DkoahJDUW3b0MD8EN0DLWdPUcear",
    ),
}


def provider_at(url: str, **extra: Any) -> GenericProvider:
    return GenericProvider(ProviderConfig(name="generic", model="m", base_url=url, extra=extra), environ={})


@pytest.fixture
async def provider(server: Any) -> AsyncIterator[GenericProvider]:
    found = provider_at(server.url)
    yield found
    await found.aclose()


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


# --- recorded streams -------------------------------------------------------------------------


@pytest.mark.covers("GEN-07", "AURA-52")
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_stream_gives_its_whole_answer(
    name: str, server: Any, provider: GenericProvider, plain: Any
) -> None:
    server.sends_recorded(f"{name}.sse")
    text, calls, stop, usage, model, request_id = RECORDED[name]
    said, made, stopped, thoughts, meta = await answered(provider, plain)
    assert (said, made, stopped, thoughts) == (text, calls, stop, [])
    assert meta == ("generic", model, f"chatcmpl-{request_id}", usage)
    body = server.requests[0].json
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_every_recorded_stream_is_compared(recorded: Path) -> None:
    assert {path.stem for path in recorded.glob("chat-*.sse")} == set(RECORDED)


@settings(max_examples=60)
@given(st.sampled_from(sorted(RECORDED)), st.data())
def test_any_chunking_of_a_recorded_stream_gives_the_same_answer(name: str, data: st.DataObject) -> None:
    stream = (Path(__file__).parent.parent / "data" / "llamacpp" / f"{name}.sse").read_bytes()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    parser, reading, assembly = SseParser(), ChatStream(provider="p", model="m", splits_tags=True), Assembly()
    for start, end in pairwise([0, *cuts, len(stream)]):
        assembly.add(reading.read(parser.feed(stream[start:end])))
    for delta in reading.end():
        assembly.add(delta)
    answer = assembly.response()
    calls = [(made.tool_call_id, made.tool_name, made.arguments) for made in answer.tool_calls]
    assert (answer.content, calls, answer.stop_reason) == RECORDED[name][:3]


# --- one delta per read -----------------------------------------------------------------------


async def test_each_read_is_one_delta_and_a_comment_is_a_sign_of_life(
    server: Any, provider: GenericProvider, plain: Any
) -> None:
    goes_on = [trio.Event() for _ in range(3)]

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b":\n\n")
        await goes_on[0].wait()
        await connection.send(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[{"delta":{"con')
        await goes_on[1].wait()
        await connection.send(b'tent":"b"}}]}\n\ndata: {"choices":[{"delta":{"content":"c","reasoning":"d"}}]}\n\n')
        await goes_on[2].wait()
        await connection.send(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        await connection.end()

    server.plays(play)
    seen: list[StreamDelta] = []
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            seen.append(delta)
            if len(seen) <= 3:
                goes_on[len(seen) - 1].set()
    thoughts = [("d", {"provider": "generic"})]
    assert plain(seen) == [
        ("", ""),
        ("a", ""),
        ("bc", "d"),
        ("", ""),
        ("done", "end_turn", thoughts, ("generic", "m", "", {})),
    ]


@pytest.mark.covers("GEN-08")
async def test_usage_after_the_finish_reason_is_counted(server: Any, provider: GenericProvider, plain: Any) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    server.sends_chunks(chunk({"content": "a"}), chunk({}, "stop"), {"choices": [], "usage": usage})
    assert await answered(provider, plain) == (
        "a",
        [],
        "end_turn",
        [],
        ("generic", "m", "", {"input_tokens": 3, "output_tokens": 1}),
    )


async def test_a_stream_may_end_without_the_mark_of_the_end(server: Any, provider: GenericProvider, plain: Any) -> None:
    server.sends_chunks(chunk({"content": "a"}), chunk({}, "stop"), done=False)
    assert (await answered(provider, plain))[:3] == ("a", [], "end_turn")


async def test_a_last_event_without_its_empty_line_counts(server: Any, provider: GenericProvider, plain: Any) -> None:
    server.sends(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')
    assert (await answered(provider, plain))[:3] == ("a", [], "end_turn")


async def test_the_mark_of_the_end_is_enough_without_a_finish_reason(
    server: Any, provider: GenericProvider, plain: Any
) -> None:
    server.sends_chunks(chunk({"content": "a"}))
    assert (await answered(provider, plain))[:3] == ("a", [], "end_turn")


async def test_a_server_that_says_nothing_after_the_finish_is_waited_for_two_seconds(
    server: Any, provider: GenericProvider, plain: Any, mock_clock: trio.testing.MockClock
) -> None:
    finished = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n')
        finished.set()
        await connection.client_leaves()

    server.plays(play)
    async with aclosing(provider.stream(REQUEST)) as deltas:
        assert plain(await anext(deltas)) == ("a", "")
        mock_clock.autojump_threshold = 0.01
        start = trio.current_time()
        assert plain([delta async for delta in deltas]) == [("done", "end_turn", [], ("generic", "m", "", {}))]
        assert 2.0 <= trio.current_time() - start < 2.5
        mock_clock.autojump_threshold = float("inf")


async def test_an_answer_that_is_finished_survives_a_cut_of_what_follows(
    server: Any, provider: GenericProvider, plain: Any
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n')
        await connection.close()

    server.plays(play)
    assert (await answered(provider, plain))[:3] == ("a", [], "end_turn")


# --- tool calls -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        ([call(index=0, id="1", name="a"), call("{}", index=0)], [("1", "a", {})]),
        (
            [
                call("{", index=0, id="1", name="a"),
                call('{"x"', index=1, id="2", name="b"),
                call("}", index=0),
                call(":1}", index=1),
            ],
            [("1", "a", {}), ("2", "b", {"x": 1})],
        ),
        (
            [call('{"x":', id="1", name="a"), call("1}"), call("{}", id="2", name="b")],
            [("1", "a", {"x": 1}), ("2", "b", {})],
        ),
        (
            [call("{}", index=0, id="1", name="a"), call("{}", index=0, id="2", name="a")],
            [("1", "a", {}), ("2", "a", {})],
        ),
        ([call('{"x":', index=0, id="1", name="a"), call("1}", index=0, id="1", name="a")], [("1", "a", {"x": 1})]),
        ([call('{"x":', index=0, id="1", name="a"), call("1}", index=0, id="", name="a")], [("1", "a", {"x": 1})]),
        ([call({"x": 1}, index=0, id="1", name="a")], [("1", "a", {"x": 1})]),
        ([call('{"x": "cut', index=0, id="1", name="a")], [("1", "a", {"raw": '{"x": "cut'})]),
    ],
)
async def test_calls_are_put_together_however_a_server_numbers_them(
    parts: list[Any], calls: list[Any], server: Any, provider: GenericProvider, plain: Any
) -> None:
    server.sends_chunks(*[chunk({"tool_calls": [part]}) for part in parts], chunk({}, "tool_calls"))
    assert (await answered(provider, plain))[:3] == ("", calls, "tool_use")


async def test_calls_without_ids_get_different_ones(server: Any, provider: GenericProvider, plain: Any) -> None:
    parts = [call("{}", name="a"), call("{}", name="b"), call("{}", index=7, id="same", name="c")]
    parts.append(call("{}", index=8, id="same", name="d"))
    server.sends_chunks(*[chunk({"tool_calls": [part]}) for part in parts], chunk({}, "stop"))
    _, calls, stop, _, _ = await answered(provider, plain)
    assert ([name for _, name, _ in calls], stop, len({call_id for call_id, _, _ in calls})) == (
        ["a", "b", "c", "d"],
        "tool_use",
        4,
    )


# --- thoughts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        [{"reasoning_content": " a"}, {"reasoning_content": "b "}, {"content": "c"}],
        [{"reasoning": " a", "reasoning_content": None}, {"reasoning": "b"}, {"content": "c", "reasoning": ""}],
        [{"reasoning_details": [{"text": "a"}, {"summary": "b"}]}, {"content": "c"}],
        [{"content": [{"type": "thinking", "thinking": [{"text": "ab"}]}, {"type": "text", "text": "c"}]}],
        [{"content": "<thi"}, {"content": "nk>ab</th"}, {"content": "ink>c"}],
    ],
)
async def test_thoughts_come_from_fields_parts_and_tags(pieces: list[Any], server: Any, plain: Any) -> None:
    server.sends_chunks(*[chunk(piece) for piece in pieces], chunk({}, "stop"))
    provider = provider_at(server.url, supports_reasoning=True)
    text, _, _, thoughts, _ = await answered(provider, plain)
    await provider.aclose()
    assert (text, thoughts) == ("c", [("ab", {"provider": "generic"})])


async def test_tags_are_text_unless_the_model_is_said_to_reason(
    server: Any, provider: GenericProvider, plain: Any
) -> None:
    server.sends_chunks(chunk({"content": "<think>a</think>"}, "stop"))
    assert (await answered(provider, plain))[0] == "<think>a</think>"


async def test_an_opener_that_was_held_back_at_the_end_is_text(server: Any, plain: Any) -> None:
    server.sends_chunks(chunk({"content": "a <thi"}, "stop"))
    provider = provider_at(server.url, supports_reasoning=True)
    assert (await answered(provider, plain))[0] == "a <thi"
    await provider.aclose()


# --- trouble ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_connection_that_ends_in_the_middle_is_a_cut_that_may_be_tried_again(
    chunked: bool, server: Any, provider: GenericProvider
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(chunked=chunked)
        await connection.send(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        await connection.close()

    server.plays(play)
    assembly = Assembly()
    with pytest.raises(AnswerCut) as caught:
        await streamed(provider, assembly)
    assert (assembly.text, caught.value.retryable, caught.value.provider) == ("a", True, "generic")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("events", "kind", "retryable"),
    [
        (b'data: {"error":{"message":"busy","code":503}}\n\n', ProviderUnavailable, True),
        (b'data: {"error":{"message":"slow","type":"rate_limit_error"}}\n\n', ProviderRateLimited, True),
        (b'error: {"message":"odd","code":400}\n\n', ProviderError, False),
        (b'event: error\ndata: {"object":"error","message":"odd","code":400}\n\n', ProviderError, False),
        (b"data: {broken\n\n", BadProviderReply, True),
        (b"data: [1]\n\n", BadProviderReply, False),
        (b'data: {"choices":["odd"]}\n\n', BadProviderReply, False),
        (b"", AnswerCut, True),
        (b"data: hello\n\n", AnswerCut, True),
    ],
)
async def test_what_a_stream_may_hold_instead_of_an_answer(
    events: bytes, kind: type[ProviderError], retryable: bool, server: Any, provider: GenericProvider
) -> None:
    server.sends(events) if events else server.sends([])
    with pytest.raises(ProviderError) as caught:
        await streamed(provider)
    assert (type(caught.value), caught.value.retryable, caught.value.provider) == (kind, retryable, "generic")


async def test_odd_chunks_that_do_no_harm_are_passed_over(server: Any, provider: GenericProvider, plain: Any) -> None:
    server.sends(
        b"data: ping\n\n"
        b'data: {"choices":[]}\n\n'
        b'data: {"choices":null,"error":null}\n\n'
        b'data: {"choices":[{"delta":null}]}\n\n'
        b'data: {"choices":[{"delta":{"content":null,"tool_calls":null}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"a"}}]}\n'
        b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n'
        b"data: [DONE]\n\n"
    )
    assert (await answered(provider, plain))[:3] == ("ab", [], "end_turn")


async def test_an_answer_in_one_piece_is_replayed(server: Any, provider: GenericProvider, plain: Any) -> None:
    server.sends_recorded("chat-plain-nostream.json")
    assert (await answered(provider, plain))[0] == "The capital of France is Paris."


# --- leaving ----------------------------------------------------------------------------------


async def test_leaving_a_stream_closes_its_connection(server: Any, provider: GenericProvider) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        await connection.client_leaves()
        left.set()

    server.plays(play)
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            assert delta.text == "a"
            break
    with trio.fail_after(5):
        await left.wait()


@pytest.mark.parametrize("begins", [True, False])
async def test_cancelling_a_silent_stream_closes_its_connection_at_once(
    begins: bool, server: Any, provider: GenericProvider, nursery: trio.Nursery
) -> None:
    waiting, left, scope = trio.Event(), trio.Event(), trio.CancelScope()

    async def play(connection: Any) -> None:
        if begins:
            await connection.begin()
        waiting.set()
        await connection.client_leaves()
        left.set()

    async def ask() -> None:
        with scope:
            await streamed(provider)

    server.plays(play)
    nursery.start_soon(ask)
    with trio.fail_after(5):
        await waiting.wait()
        scope.cancel()
        await left.wait()


async def test_many_streams_run_side_by_side(server: Any, provider: GenericProvider) -> None:
    server.sends_recorded("chat-plain.sse")
    answers: list[str] = []

    async def ask() -> None:
        answers.append("".join(delta.text for delta in await streamed(provider)))

    async with trio.open_nursery() as asking:
        for _ in range(40):
            asking.start_soon(ask)
    assert answers == ["The capital of France is Paris."] * 40


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a" * 3_000_000},
        {"reasoning_content": "a" * 3_000_000},
        {"tool_calls": [{"index": 0, "function": {"name": "bash", "arguments": "a" * 3_000_000}}]},
    ],
)
async def test_an_answer_without_end_is_given_up_and_its_connection_closed(
    delta: dict[str, Any], server: Any, provider: GenericProvider
) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        event = json.dumps({"choices": [{"delta": delta}]}).encode()
        with suppress(trio.BrokenResourceError):  # it may leave before the last bytes are out
            for _ in range(3):
                await connection.send(b"data: " + event + b"\n\n")
        await connection.client_leaves()
        left.set()

    server.plays(play)
    with pytest.raises(BadProviderReply, match=r"more than 8,000,000 characters"):
        await streamed(provider)
    await left.wait()


async def test_an_answer_of_nothing_but_calls_is_given_up(server: Any, provider: GenericProvider) -> None:
    calls = [{"index": index, "function": {"name": "bash", "arguments": "{}"}} for index in range(1025)]
    server.sends_chunks({"choices": [{"delta": {"tool_calls": calls}}]})
    with pytest.raises(BadProviderReply, match=r"more than 1024 tool calls"):
        await streamed(provider)


async def test_numbers_for_ids_and_names_are_taken_as_text(server: Any, provider: GenericProvider, plain: Any) -> None:
    call = {"index": 0, "id": 7, "function": {"name": 8, "arguments": "{}"}}
    server.sends_chunks({"id": 1, "model": 2, "choices": [{"delta": {"tool_calls": [call]}, "finish_reason": 3}]})
    deltas = await streamed(provider)
    found = [delta.tool_call_delta for delta in deltas if delta.tool_call_delta is not None]
    assert [(call.tool_call_id, call.tool_name) for call in found] == [("7", "8")]
    assert deltas[-1].meta is not None
    assert (deltas[-1].meta.request_id, deltas[-1].meta.model) == ("1", "2")
