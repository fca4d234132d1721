"""How the openai adapter reads answers of the responses API: recorded, documented, odd and broken ones."""

from __future__ import annotations

import json
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
    ContentRefused,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderUnavailable,
)
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly
from aar.providers.openai import OpenAIProvider
from aar.providers.openai_responses_stream import ResponseStream
from aar.providers.sse import SseParser
from tests.providers.streaming import REQUEST, answered, streamed

SMOL, GEMMA = "smollm2-135m", "gemma-3-270m-q4_k_m"


def provider_at(url: str, **extra: Any) -> OpenAIProvider:
    config = ProviderConfig(name="openai", model="gpt-5", base_url=url, api_key="sk-test-key", extra=extra)
    return OpenAIProvider(config, environ={})


@pytest.fixture
async def chat(server: Any) -> AsyncIterator[OpenAIProvider]:
    found = provider_at(server.url)
    yield found
    await found.aclose()


@pytest.fixture
async def responses(server: Any) -> AsyncIterator[OpenAIProvider]:
    found = provider_at(server.url, api="responses")
    yield found
    await found.aclose()


# --- recorded ---------------------------------------------------------------------------------


def usage_of(given: int, out: int, cached: int) -> dict[str, int]:
    return {
        "input_tokens": given,
        "output_tokens": out,
        "total_tokens": given + out,
        "cache_read_tokens": cached,
    }


RECORDED: dict[str, Any] = {
    "responses-plain": (
        "The capital of France is Paris.",
        [],
        "end_turn",
        [],
        ("openai", SMOL, "resp_lCxd6BcqACKp2ZqI423mEB5hHxtgim3w", usage_of(16, 8, 15)),
    ),
    "responses-tool-call": (
        "",
        [("call_ravdJbYnSpj2tgumvr1tFe47Madc93W4", "read_file", {"path": "notes.txt"})],
        "tool_use",
        [],
        ("openai", SMOL, "resp_HxmGmkN9U45y0TzcFupIDcDc5W40hcqF", usage_of(937, 33, 936)),
    ),
    "responses-tool-parallel": (
        "",
        [
            ("call_L4I8ZYSuzMl0BTPFHrDNv0DqWLSiB75k", "read_file", {"path": "a.txt"}),
            (
                "call_EmAN5gjyidCVoxtfXAYhNmdZyNXPcWai",
                "write_file",
                {"path": "b.txt", "content": "good morning"},
            ),
            ("call_rPzgKPXD9uujnk8dAzkyQY5JeamPu3w0", "list_directory", {"path": "."}),
        ],
        "tool_use",
        [],
        ("openai", GEMMA, "resp_UyXJbwNZsXCXChozK7G10lrcqfwR1wYR", usage_of(315, 110, 314)),
    ),
    "responses-tool-result": (
        "The secret word is pineapple.",
        [],
        "end_turn",
        [],
        ("openai", SMOL, "resp_Lhx9haTUEacLsqpsFWtqto1dSMOSuG1q", usage_of(998, 7, 969)),
    ),
}


@pytest.mark.covers("AURA-52")
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_stream_gives_its_whole_answer(
    name: str, server: Any, responses: OpenAIProvider, plain: Any
) -> None:
    server.sends_recorded(f"{name}.sse")
    assert await answered(responses, plain) == RECORDED[name]


def test_every_recorded_stream_is_compared(recorded: Path) -> None:
    assert {path.stem for path in recorded.glob("responses-*.sse")} == set(RECORDED)


async def test_a_recorded_answer_in_one_piece_is_read(server: Any, responses: OpenAIProvider, plain: Any) -> None:
    server.sends_recorded("responses-nostream.json")
    whole = plain(await responses.complete(REQUEST))
    assert whole == (
        "The capital of France is Paris.",
        [],
        "end_turn",
        [],
        ("openai", SMOL, "resp_ExWXAaOl8DGgTvQe7hBefpPiW7sLvz8b", usage_of(16, 8, 15)),
    )
    assert await answered(responses, plain) == whole  # a server that cannot stream answers so, too


# --- as documented ----------------------------------------------------------------------------


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def item(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return event(f"output_item.{kind}", output_index=index, item=fields)


def completed(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return event(status, response={"id": "resp_1", "model": "gpt-5-x", "status": status, "output": [], **fields})


def sent(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


THINKING = [
    event("created", response={"id": "resp_1", "model": "gpt-5-x", "status": "in_progress"}),
    event("in_progress", response={"id": "resp_1"}),
    item("added", 0, id="rs_1", type="reasoning", summary=[], encrypted_content="half"),
    event("reasoning_summary_part.added", output_index=0, item_id="rs_1", summary_index=0),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", delta="First "),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", delta="this."),
    event("reasoning_summary_text.done", output_index=0, item_id="rs_1", text="First this."),
    event("reasoning_summary_part.added", output_index=0, item_id="rs_1", summary_index=1),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", delta="Then that."),
    item(
        "done", 0, id="rs_1", type="reasoning", summary=[{"type": "summary_text", "text": "s"}], encrypted_content="A"
    ),
    item("added", 1, id="msg_1", type="message", role="assistant", content=[], phase="commentary"),
    event("content_part.added", output_index=1, item_id="msg_1", part={"type": "output_text", "text": ""}),
    event("output_text.delta", output_index=1, item_id="msg_1", delta="Let me ", obfuscation="xx"),
    event("output_text.delta", output_index=1, item_id="msg_1", delta="look."),
    event("output_text.done", output_index=1, item_id="msg_1", text="Let me look."),
    item("done", 1, id="msg_1", type="message", role="assistant", phase="commentary"),
    item("added", 2, id="fc_1", type="function_call", call_id="call_1", name="ls", arguments=""),
    item("added", 3, id="fc_2", type="function_call", call_id="call_2", name="cat", arguments=""),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta='{"a"'),
    event("function_call_arguments.delta", output_index=3, item_id="fc_2", delta='{"b"'),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta=":1}"),
    event("function_call_arguments.done", output_index=2, item_id="fc_1", arguments='{"a":1}'),
    item("done", 2, id="fc_1", type="function_call", call_id="call_1", name="ls", arguments='{"a":1}'),
    event("function_call_arguments.delta", output_index=3, item_id="fc_2", delta=":2}"),
    item("done", 3, id="fc_2", type="function_call", call_id="call_2", name="cat", arguments='{"b":2}'),
    completed(usage={"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 0}}),
]
PLAN = {
    "provider": "openai",
    "model": "gpt-5",
    "replay": True,
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "A",
        },
        {"type": "message", "id": "msg_1", "size": 12, "phase": "commentary"},
        {"type": "function_call", "id": "fc_1"},
        {"type": "function_call", "id": "fc_2"},
    ],
}


async def test_thoughts_text_and_parallel_calls_come_with_what_must_be_sent_again(
    server: Any, responses: OpenAIProvider, plain: Any
) -> None:
    server.sends(sent(*THINKING))
    assert await answered(responses, plain) == (
        "Let me look.",
        [("call_1", "ls", {"a": 1}), ("call_2", "cat", {"b": 2})],
        "tool_use",
        [("First this.\n\nThen that.", PLAN)],
        ("openai", "gpt-5-x", "resp_1", {"input_tokens": 9, "output_tokens": 4}),
    )


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_chunking_of_a_stream_gives_the_same_answer(data: st.DataObject) -> None:
    recorded = Path(__file__).parent.parent / "data" / "llamacpp"
    streams = [sent(*THINKING), *((recorded / f"{name}.sse").read_bytes() for name in RECORDED)]
    body = data.draw(st.sampled_from(streams))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=20)))

    def answer_in(pieces: list[bytes]) -> Any:
        parser, assembly = SseParser(), Assembly()
        reading = ResponseStream(provider="openai", model="gpt-5")
        for piece in pieces:
            assembly.add(reading.read(parser.feed(piece)))
        for delta in reading.end():
            assembly.add(delta)
        found = assembly.response()
        calls = [(call.tool_call_id, call.tool_name, call.arguments) for call in found.tool_calls]
        return found.content, calls, found.stop_reason, [(b.content, b.data) for b in found.reasoning]

    pieces = [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]
    assert answer_in(pieces) == answer_in([body])


async def test_each_read_is_one_delta_as_soon_as_it_comes(server: Any, responses: OpenAIProvider, plain: Any) -> None:
    go_on = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(sent(*THINKING[:5]))
        await go_on.wait()
        await connection.send(sent(*THINKING[5:]))
        await connection.end()

    server.plays(play)
    seen: list[Any] = []
    with trio.fail_after(10):
        async with aclosing(responses.stream(REQUEST)) as deltas:
            async for delta in deltas:
                seen.append(plain(delta))
                go_on.set()
    assert seen[:2] == [("", "First "), ("Let me look.", "this.\n\nThen that.")]


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        (
            [
                item("added", 0, id="m", type="message"),
                event("refusal.delta", output_index=0, item_id="m", delta="I will not."),
                completed(),
            ],
            ("I will not.", [], "end_turn", []),
        ),
        (
            [item("done", 0, type="message", content=[{"type": "output_text", "text": "whole"}]), completed()],
            ("whole", [], "end_turn", []),
        ),
        (
            [completed(output=[{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}])],
            ("no", [], "end_turn", []),
        ),
        (
            [
                event("reasoning_text.delta", item_id="r", delta="hm"),
                event("output_text.delta", delta="x"),
                completed(),
            ],
            ("x", [], "end_turn", [("hm", {"provider": "openai"})]),
        ),
        (
            [
                item("done", 0, id="m1", type="message", content=[{"text": "one"}]),
                item("done", 1, id="m2", type="message", content=[{"text": "two"}]),
                completed(),
            ],
            ("one\n\ntwo", [], "end_turn", []),
        ),
        (
            [
                event("output_text.delta", delta="x"),
                completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ],
            ("x", [], "max_tokens", []),
        ),
        (
            [
                event("output_text.delta", delta="x"),
                completed("incomplete", incomplete_details={"reason": "content_filter"}),
            ],
            ("x", [], "error", []),
        ),
        (
            [
                item("added", 0, type="function_call", id="f", call_id="c", name="ls"),
                event("function_call_arguments.delta", output_index=0, delta='{"pa'),
                completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ],
            ("", [("c", "ls", {"raw": '{"pa'})], "max_tokens", []),
        ),
        (
            [item("done", 0, type="function_call", id="f", name="ls", arguments=""), completed()],
            ("", [("f", "ls", {})], "tool_use", []),
        ),
        (
            [
                event("output_text.delta", delta="x"),
                event("web_search_call.searching"),
                {"type": "keepalive"},
                completed(),
            ],
            ("x", [], "end_turn", []),
        ),
    ],
)
async def test_what_else_an_answer_may_hold(
    events: list[dict[str, Any]], answer: Any, server: Any, responses: OpenAIProvider, plain: Any
) -> None:
    server.sends(sent(*events))
    assert (await answered(responses, plain))[:4] == answer


async def test_a_filtered_answer_is_warned_of(
    server: Any, responses: OpenAIProvider, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends_json({"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}})
    assert (await responses.complete(REQUEST)).stop_reason == "error"
    assert caplog.messages == ["The server's content filter ended the answer"]


async def test_calls_without_ids_get_different_ones(server: Any, responses: OpenAIProvider) -> None:
    calls = [{"type": "function_call", "name": "ls", "arguments": "{}"}] * 2
    server.sends_json({"output": calls, "status": "completed"})
    answers = [await responses.complete(REQUEST) for _ in range(2)]
    assert len({call.tool_call_id for answer in answers for call in answer.tool_calls}) == 4


# --- broken -----------------------------------------------------------------------------------


def failed(code: str, message: str = "it says so") -> dict[str, Any]:
    return completed("failed", error={"code": code, "message": message})


@pytest.mark.parametrize(
    ("events", "kind", "retryable", "text"),
    [
        (sent(failed("server_error")), ProviderUnavailable, True, "OpenAI reported an error: it says so"),
        (sent(failed("rate_limit_exceeded")), ProviderRateLimited, True, "OpenAI reported an error: it says so"),
        (sent(failed("invalid_prompt")), ProviderError, False, "OpenAI reported an error: it says so"),
        (sent(failed("image_too_large")), ProviderError, False, "OpenAI reported an error: it says so"),
        (sent(failed("bio_policy")), ContentRefused, False, "OpenAI refused to answer: it says so"),
        (sent(failed("context_length_exceeded")), ContextTooLong, False, "OpenAI reported an error: it says so"),
        (sent(completed("failed")), ProviderUnavailable, True, "the server does not say why"),
        (
            b'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}\n\n',
            ProviderRateLimited,
            True,
            "OpenAI reported an error: slow",
        ),
        (
            b'data: {"type":"error","error":{"type":"server_error","code":null,"message":"odd"}}\n\n',
            ProviderUnavailable,
            True,
            "OpenAI reported an error: odd",
        ),
        (b'data: {"error":{"message":"busy","code":503}}\n\n', ProviderUnavailable, True, "busy"),
        (b"data: {broken\n\n", BadProviderReply, True, "An event is damaged"),
        (b"data: [1]\n\n", BadProviderReply, False, "unexpected shape"),
        (b'data: {"type":"response.output_text.delta"}\n\n', BadProviderReply, False, "unexpected shape"),
        (b'data: {"type":"response.output_item.added","item":"odd"}\n\n', BadProviderReply, False, "unexpected shape"),
        (b'data: {"type":"response.completed"}\n\n', BadProviderReply, False, "unexpected shape"),
        (b"", AnswerCut, True, "in the middle of the answer"),
        (b"data: [DONE]\n\n", AnswerCut, True, "in the middle of the answer"),
        (sent(*THINKING[:-1]), AnswerCut, True, "in the middle of the answer"),
    ],
)
async def test_what_a_stream_may_hold_instead_of_an_answer(
    events: bytes, kind: type[ProviderError], retryable: bool, text: str, server: Any, responses: OpenAIProvider
) -> None:
    server.sends(events) if events else server.sends([])
    with pytest.raises(ProviderError, match=text) as caught:
        await streamed(responses)
    assert (type(caught.value), caught.value.retryable, caught.value.provider) == (kind, retryable, "openai")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", BadProviderReply),
        (b"[]", BadProviderReply),
        (b"null", BadProviderReply),
        (b"{}", BadProviderReply),
        (b'{"output":["odd"]}', BadProviderReply),
        (b'{"output":null,"error":{"code":"server_error","message":"m"},"status":"failed"}', ProviderUnavailable),
    ],
)
async def test_json_that_is_no_answer_is_an_error(
    body: bytes, kind: type[ProviderError], server: Any, responses: OpenAIProvider
) -> None:
    server.sends_json(body)
    with pytest.raises(ProviderError) as caught:
        await responses.complete(REQUEST)
    assert (type(caught.value), caught.value.provider) == (kind, "openai")


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_connection_that_ends_in_the_middle_is_a_cut_that_may_be_tried_again(
    chunked: bool, api: str, server: Any
) -> None:
    first = {
        "chat": b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
        "responses": sent(event("output_text.delta", delta="a")),
    }

    async def play(connection: Any) -> None:
        await connection.begin(chunked=chunked)
        await connection.send(first[api])
        await connection.close()

    server.plays(play)
    assembly, provider = Assembly(), provider_at(server.url, api=api)
    with pytest.raises(AnswerCut) as caught:
        await streamed(provider, assembly)
    await provider.aclose()
    assert (assembly.text, caught.value.retryable, caught.value.provider) == ("a", True, "openai")
    assert len(server.requests) == 1


async def test_an_answer_that_is_finished_survives_a_cut_of_what_follows(
    server: Any, responses: OpenAIProvider, plain: Any
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin()
        await connection.send(sent(*THINKING))
        await connection.close()

    server.plays(play)
    assert (await answered(responses, plain))[0] == "Let me look."


@pytest.mark.parametrize(
    "piece",
    [
        sent(event("output_text.delta", delta="a" * 50_000)),
        sent(event("function_call_arguments.delta", output_index=0, delta="a" * 50_000)),
        sent(event("reasoning_text.delta", delta="a" * 50_000)),
    ],
)
async def test_an_answer_without_end_is_given_up_and_its_connection_closed(
    piece: bytes, server: Any, responses: OpenAIProvider
) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin()
        try:
            while True:
                await connection.send(piece)
        except trio.BrokenResourceError:
            left.set()
            raise

    server.plays(play)
    with pytest.raises(BadProviderReply, match="more than 8,000,000 characters"):
        await streamed(responses)
    with trio.fail_after(10):
        await left.wait()


async def test_an_answer_of_nothing_but_items_is_given_up(server: Any, responses: OpenAIProvider) -> None:
    server.sends([sent(item("added", index, type="function_call", name="x")) for index in range(2000)])
    with pytest.raises(BadProviderReply, match="more than 1024 items"):
        await streamed(responses)
