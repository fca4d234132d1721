"""How the anthropic adapter reads answers: recorded streams, documented ones, broken ones, and how it is left."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aar.errors import (
    AnswerCut,
    BadProviderReply,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.provider import StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.anthropic import AnthropicProvider
from aar.providers.anthropic_stream import MessageStream, stop_reason
from aar.providers.base import Assembly
from aar.providers.sse import SseParser
from tests.providers.streaming import REQUEST, answered, streamed

DATA = Path(__file__).parent.parent / "data" / "llamacpp"
SMOL, GEMMA = "smollm2-135m", "gemma-3-270m-q4_k_m"


def usage_of(read: int, given: int, out: int) -> dict[str, int]:
    return {"input_tokens": given, "output_tokens": out, "cache_read_tokens": read}


RECORDED: dict[str, Any] = {
    "messages-length": (
        ("In the sleepy town of Rav", [], "max_tokens", []),
        (SMOL, "chatcmpl-cGtnLw5DiHDVLMlhifymVXpNcaE4yry7", usage_of(13, 1, 6)),
    ),
    "messages-plain": (
        ("The capital of France is Paris.", [], "end_turn", []),
        (SMOL, "chatcmpl-2D7pv87BQIlZtCfthPsFYWK3lCnQeWFE", usage_of(15, 1, 8)),
    ),
    "messages-tool-parallel": (
        (
            "",
            [
                ("ldbfvwDhYBvxTa5t1dw7gBeJp8QMVKTT", "read_file", {"path": "a.txt"}),
                ("Apaa3f7V7u6MqGXhm9lFlDlmQqt4W8f5", "write_file", {"path": "b.txt", "content": "good morning"}),
                ("N22MBDao6y3EqBkoCFKQKqjbCj692K0X", "list_directory", {"path": "."}),
            ],
            "max_tokens",
            [],
        ),
        (GEMMA, "chatcmpl-9uwCVnJrPFY06oeyQGfHz3CXQZGgJ6Cy", usage_of(314, 1, 110)),
    ),
    "messages-tool-result": (
        ("The secret word is pineapple.", [], "end_turn", []),
        (SMOL, "chatcmpl-uPL26ElYw988OSQaUb94C6B5D7NPKYYM", usage_of(969, 29, 7)),
    ),
    "messages-tool-use": (
        ("", [("RORbHGGp2mG3ev4oh6wo31Um3m9wMwuL", "read_file", {"path": "notes.txt"})], "tool_use", []),
        (SMOL, "chatcmpl-KGh3dgwentcpovUaOi5nWqvY1eUXbHn4", usage_of(936, 1, 33)),
    ),
}

HEAD = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-1",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 25,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        },
    },
}
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **fields: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def over(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def events(*found: dict[str, Any]) -> list[bytes]:
    return [event(data) for data in found]


SAID = [begin(0, type="text", text=""), piece(0, "text_delta", text="hello"), over(0)]

# As documented: a thought with its signature, a hidden thought, text, a thought in between, two calls.
THOUGHTFUL = [
    HEAD,
    begin(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    piece(0, "thinking_delta", thinking="Let me "),
    piece(0, "thinking_delta", thinking="look. "),
    piece(0, "signature_delta", signature="EqQB"),
    over(0),
    begin(1, type="redacted_thinking", data="EmwK"),
    over(1),
    begin(2, type="text", text=""),
    piece(2, "text_delta", text="I look "),
    piece(2, "text_delta", text="thrice."),
    over(2),
    begin(3, type="thinking", thinking="", signature=""),
    piece(3, "signature_delta", signature="ErUB"),
    over(3),
    begin(4, type="tool_use", id="toolu_1", name="read_file", input={}),
    piece(4, "input_json_delta", partial_json=""),
    piece(4, "input_json_delta", partial_json='{"path": "a'),
    piece(4, "input_json_delta", partial_json='.txt"}'),
    over(4),
    begin(5, type="tool_use", id="toolu_2", name="list_directory", input={}),
    piece(5, "input_json_delta", partial_json=""),
    over(5),
    finish("tool_use", output_tokens=89),
    STOP,
]
SIGNED = {"provider": "anthropic", "replay": True}
THOUGHTFUL_ANSWER = (
    "I look thrice.",
    [("toolu_1", "read_file", {"path": "a.txt"}), ("toolu_2", "list_directory", {})],
    "tool_use",
    [
        ("Let me look. ", SIGNED | {"signature": "EqQB"}),
        ("", SIGNED | {"redacted": "EmwK"}),
        ("", SIGNED | {"signature": "ErUB", "text_before": 14}),
    ],
    ("anthropic", "claude-x-1", "msg_1", {"input_tokens": 25, "output_tokens": 89, "cache_write_tokens": 10}),
)


@pytest.fixture
async def provider(server: Any) -> AsyncIterator[AnthropicProvider]:
    found = AnthropicProvider(ProviderConfig(model="m", base_url=server.url, api_key="sk-key"), environ={})
    yield found
    await found.aclose()


def assembled(deltas: list[StreamDelta]) -> Any:
    assembly = Assembly()
    for delta in deltas:
        assembly.add(delta)
    return assembly.response()


# --- whole streams ----------------------------------------------------------------------------


@pytest.mark.covers("ANT-08", "ANT-09", "AURA-52")
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_stream_gives_its_whole_answer(
    name: str, server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    server.sends_recorded(f"{name}.sse")
    *answer, meta = await answered(provider, plain)
    assert (tuple(answer), meta) == (RECORDED[name][0], ("anthropic", *RECORDED[name][1]))
    assert server.requests[0].json["stream"] is True


def test_every_recorded_stream_is_compared() -> None:
    assert {path.stem for path in DATA.glob("messages-*.sse")} == set(RECORDED)


@pytest.mark.covers("ANT-05", "ANT-06", "ANT-08")
async def test_thoughts_text_and_calls_come_apart_and_are_kept_whole(
    server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    server.sends(events(*THOUGHTFUL))
    deltas = await streamed(provider)
    assert plain(assembled(deltas)) == THOUGHTFUL_ANSWER
    assert "".join(delta.reasoning_delta for delta in deltas) == "Let me look. "
    server.sends(events(*THOUGHTFUL))
    assert plain(await provider.complete(REQUEST)) == THOUGHTFUL_ANSWER


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*sorted(RECORDED), "thoughtful"]), st.data())
def test_any_chunking_of_a_stream_gives_the_same_answer(name: str, data: st.DataObject) -> None:
    stream = b"".join(events(*THOUGHTFUL)) if name == "thoughtful" else (DATA / f"{name}.sse").read_bytes()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    parser, reading = SseParser(), MessageStream(model="m")
    deltas = [reading.read(parser.feed(stream[start:end])) for start, end in pairwise([0, *cuts, len(stream)])]
    answer = assembled([*deltas, *reading.end()])
    calls = [(made.tool_call_id, made.tool_name, made.arguments) for made in answer.tool_calls]
    thoughts = [(block.content, block.data) for block in answer.reasoning]
    expected = THOUGHTFUL_ANSWER[:4] if name == "thoughtful" else RECORDED[name][0]
    assert (answer.content, calls, answer.stop_reason, thoughts) == expected


async def test_each_read_is_one_delta_and_a_ping_is_a_sign_of_life(
    server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    goes_on = [trio.Event() for _ in range(2)]

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(event({"type": "ping"}))
        await goes_on[0].wait()
        await connection.send(b"".join(events(HEAD, *SAID, piece(0, "text_delta", text=" you"))))
        await goes_on[1].wait()
        await connection.send(b"".join(events(finish("end_turn", output_tokens=3), STOP)))
        await connection.end()

    server.plays(play)
    seen: list[StreamDelta] = []
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            seen.append(delta)
            if len(seen) <= 2:
                goes_on[len(seen) - 1].set()
    meta = ("anthropic", "claude-x-1", "msg_1", {"input_tokens": 25, "output_tokens": 3, "cache_write_tokens": 10})
    assert plain(seen) == [("", ""), ("hello you", ""), ("", ""), ("done", "end_turn", [], meta)]


@pytest.mark.covers("ANT-05")
async def test_an_answer_in_one_piece_is_replayed(server: Any, provider: AnthropicProvider, plain: Any) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
    ]
    server.sends_recorded("messages-nostream.json")
    server.sends_json({"type": "message", "content": content, "stop_reason": "tool_use"})
    assert await answered(provider, plain) == (
        "The capital of France is Paris.",
        [],
        "end_turn",
        [],
        ("anthropic", SMOL, "chatcmpl-ukQnQT4skL6GJUG6CKteqdaW26KFaHXx", usage_of(15, 1, 8)),
    )
    assert await answered(provider, plain) == (
        "a",
        [("toolu_1", "bash", {"command": "ls"})],
        "tool_use",
        [("hm", SIGNED | {"signature": "EqQB"})],
        ("anthropic", "m", "", {}),
    )


# --- how it stops -----------------------------------------------------------------------------


@pytest.mark.covers("ANT-07")
@pytest.mark.parametrize(
    ("word", "has_calls", "reason"),
    [
        ("end_turn", False, "end_turn"),
        ("end_turn", True, "tool_use"),
        ("tool_use", True, "tool_use"),
        ("max_tokens", False, "max_tokens"),
        ("max_tokens", True, "max_tokens"),
        ("stop_sequence", False, "end_turn"),
        ("model_context_window_exceeded", False, "max_tokens"),
        ("refusal", False, "refusal"),
        ("pause_turn", False, "pause_turn"),
        ("", False, "end_turn"),
        ("", True, "tool_use"),
    ],
)
def test_stop_reasons(word: str, has_calls: bool, reason: str) -> None:
    assert stop_reason(word, has_calls=has_calls) == reason


async def test_a_refusal_says_why_and_leaves_no_calls_to_run(
    server: Any, provider: AnthropicProvider, plain: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refused = finish("refusal", output_tokens=4)
    refused["delta"]["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    call = begin(1, type="tool_use", id="toolu_1", name="bash", input={})
    server.sends(events(HEAD, *SAID, call, piece(1, "input_json_delta", partial_json="{}"), refused, STOP))
    with caplog.at_level(logging.WARNING):
        assert (await answered(provider, plain))[:3] == ("hello", [], "refusal")
    assert [record.getMessage() for record in caplog.records] == ["The model refused: Not this."]


@pytest.mark.parametrize(
    ("pieces", "reason", "arguments"),
    [
        (['{"path": "cut'], "max_tokens", {"raw": '{"path": "cut'}),
        ([], "max_tokens", {"raw": ""}),
        ([], "tool_use", {}),
        (["[1]"], "tool_use", {"raw": "[1]"}),
    ],
)
async def test_damaged_arguments_are_kept_as_text(
    pieces: list[str], reason: str, arguments: Any, server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    parts = [piece(0, "input_json_delta", partial_json=text) for text in pieces]
    server.sends(events(HEAD, begin(0, type="tool_use", id="t", name="bash"), *parts, finish(reason), STOP))
    assert (await answered(provider, plain))[:2] == ("", [("t", "bash", arguments)])


async def test_calls_without_ids_get_different_ones(server: Any, provider: AnthropicProvider, plain: Any) -> None:
    calls = [begin(index, type="tool_use", name="bash", input={"command": "ls"}) for index in range(2)]
    server.sends(events(HEAD, *calls, finish("tool_use"), STOP))
    _, made, _, _, _ = await answered(provider, plain)
    assert [(name, arguments) for _, name, arguments in made] == [("bash", {"command": "ls"})] * 2
    assert len({call_id for call_id, _, _ in made}) == 2


async def test_a_thought_that_nobody_signed_is_shown_and_not_sent_again(
    server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    thought = [begin(0, type="thinking", thinking="", signature=""), piece(0, "thinking_delta", thinking=" hm ")]
    empty = begin(1, type="thinking", thinking="")
    server.sends(
        events(HEAD, *thought, piece(0, "signature_delta", signature=""), empty, *SAID, finish("end_turn"), STOP)
    )
    assert (await answered(provider, plain))[3] == [("hm", {"provider": "anthropic"})]


async def test_the_newest_counts_are_the_ones_that_count(server: Any, provider: AnthropicProvider, plain: Any) -> None:
    last = finish(
        "end_turn", input_tokens=30, cache_read_input_tokens=7, cache_creation_input_tokens=0, output_tokens=5
    )
    last["usage"]["server_tool_use"] = None
    server.sends(events(HEAD, *SAID, last, STOP))
    meta = (await answered(provider, plain))[4]
    assert meta[3] == {"input_tokens": 30, "output_tokens": 5, "cache_read_tokens": 7}


# --- what goes wrong --------------------------------------------------------------------------


def reported(kind: str, message: str = "odd") -> bytes:
    return event({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("sent", "kind", "status", "retryable"),
    [
        (reported("overloaded_error", "Overloaded"), ProviderUnavailable, 529, True),
        (reported("api_error"), ProviderUnavailable, 500, True),
        (reported("rate_limit_error"), ProviderRateLimited, 429, True),
        (reported("authentication_error"), ProviderUnauthorized, 401, False),
        (reported("invalid_request_error"), ProviderError, 400, False),
        (reported("invalid_request_error", "prompt is too long: 9 > 8"), ContextTooLong, 400, False),
        (reported("request_too_large"), ContextTooLong, 413, False),
        (b'data: {"error":{"code":503,"message":"busy"}}\n\n', ProviderUnavailable, 503, True),
        (b"data: {broken\n\n", BadProviderReply, None, True),
        (b"data: [1]\n\n", BadProviderReply, None, False),
        (event({"type": "message_start"}), BadProviderReply, None, False),
        (event(piece(3, "input_json_delta", partial_json="{")), BadProviderReply, None, False),
        (
            event(piece(0, "text_delta", words="a")),
            BadProviderReply,
            None,
            False,
        ),
        (event(HEAD) + event(SAID[1]), AnswerCut, None, True),
        (b"data: hello\n\n", AnswerCut, None, True),
    ],
)
async def test_what_a_stream_may_hold_instead_of_an_answer(
    sent: bytes,
    kind: type[ProviderError],
    status: int | None,
    retryable: bool,
    server: Any,
    provider: AnthropicProvider,
) -> None:
    server.sends(sent)
    with pytest.raises(ProviderError) as caught:
        await streamed(provider)
    error = caught.value
    assert (type(error), error.status, error.retryable, error.provider) == (kind, status, retryable, "anthropic")


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_connection_that_ends_in_the_middle_is_a_cut_that_may_be_tried_again(
    chunked: bool, server: Any, provider: AnthropicProvider
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(chunked=chunked)
        await connection.send(b"".join(events(HEAD, *SAID)))
        await connection.close()

    server.plays(play)
    assembly = Assembly()

    async def ask() -> None:
        async with aclosing(provider.stream(REQUEST)) as deltas:
            async for delta in deltas:
                assembly.add(delta)

    with pytest.raises(AnswerCut) as caught:
        await ask()
    assert (assembly.text, caught.value.retryable, len(server.requests)) == ("hello", True, 1)


async def test_an_answer_that_is_finished_survives_a_cut_of_what_follows(
    server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"".join(events(HEAD, *SAID, finish("end_turn"), STOP)))
        await connection.close()

    server.plays(play)
    assert (await answered(provider, plain))[:3] == ("hello", [], "end_turn")


async def test_a_stream_may_end_without_its_last_event(server: Any, provider: AnthropicProvider, plain: Any) -> None:
    server.sends(b"".join(events(HEAD, *SAID, finish("end_turn"))).rstrip())
    assert (await answered(provider, plain))[:3] == ("hello", [], "end_turn")


async def test_blocks_and_events_of_a_newer_api_are_passed_over(
    server: Any, provider: AnthropicProvider, plain: Any
) -> None:
    server.sends(
        events(
            HEAD,
            {"type": "news"},
            begin(0, type="server_tool_use", id="s", name="web_search", input={}),
            begin(1, type="text", text=""),
            piece(1, "citations_delta", citation="c"),
            piece(1, "text_delta", text="a"),
            finish("end_turn"),
            STOP,
        )
    )
    assert (await answered(provider, plain))[:4] == ("a", [], "end_turn", [])


@pytest.mark.parametrize(
    "endless",
    [
        piece(0, "text_delta", text="x" * 100_000),
        piece(0, "thinking_delta", thinking="x" * 100_000),
        piece(0, "input_json_delta", partial_json="x" * 100_000),
        begin(1, type="tool_use", id="t", name="bash"),
    ],
)
async def test_an_answer_without_end_is_given_up(endless: Any, server: Any, provider: AnthropicProvider) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(event(begin(0, type="tool_use", id="t", name="bash")))
        try:
            while True:
                await connection.send(event(endless) * 10)
        except trio.BrokenResourceError:
            left.set()
            raise

    server.plays(play)
    with pytest.raises(BadProviderReply, match="The answer has more than"):
        await streamed(provider)
    with trio.fail_after(5):
        await left.wait()


# --- leaving ----------------------------------------------------------------------------------


async def test_leaving_a_stream_closes_its_connection(server: Any, provider: AnthropicProvider) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(b"".join(events(HEAD, *SAID)))
        await connection.client_leaves()
        left.set()

    server.plays(play)
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            assert delta.text == "hello"
            break
    with trio.fail_after(5):
        await left.wait()


@pytest.mark.parametrize("begins", [True, False])
async def test_cancelling_a_silent_stream_closes_its_connection_at_once(
    begins: bool, server: Any, provider: AnthropicProvider, nursery: trio.Nursery, plain: Any
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
    server.sends(events(HEAD, *SAID, finish("end_turn"), STOP))
    nursery.start_soon(ask)
    with trio.fail_after(60):
        await waiting.wait()  # the first request loads the vendor's package
    scope.cancel()
    with trio.fail_after(10):
        await left.wait()
    assert (await answered(provider, plain))[0] == "hello"


async def test_many_streams_run_side_by_side(server: Any, provider: AnthropicProvider) -> None:
    server.sends_recorded("messages-plain.sse")
    answers: list[str] = []

    async def ask() -> None:
        answers.append("".join(delta.text for delta in await streamed(provider)))

    async with trio.open_nursery() as asking:
        for _ in range(40):
            asking.start_soon(ask)
    assert answers == ["The capital of France is Paris."] * 40
