"""How the Ollama adapter reads streams: usual ones, odd ones, broken ones, endless ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import AnswerCut, BadProviderReply, ProviderError, ProviderUnavailable
from aar.messages.provider import StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly
from aar.providers.ollama import OllamaProvider
from aar.providers.ollama_stream import OllamaStream
from aar.providers.sse import LineSplitter
from tests.providers.streaming import REQUEST, answered, streamed

KIND = "application/x-ndjson"
USAGE = {"prompt_eval_count": 26, "eval_count": 282}
LAST = {"done": True, "done_reason": "stop", **USAGE, "total_duration": 4883583458, "load_duration": 1334875}
META = ("ollama", "qwen3", "", {"input_tokens": 26, "output_tokens": 282})
OWN = {"provider": "ollama", "replay": True}


def line(*, done: dict[str, Any] | None = None, **message: Any) -> bytes:
    """A line as the server writes it."""
    chunk = {
        "model": "qwen3",
        "created_at": "2025-08-04T08:52:19.385406455-07:00",
        "message": {"role": "assistant", "content": "", **message},
        **({"done": False} if done is None else done),
    }
    return json.dumps(chunk, ensure_ascii=False).encode() + b"\n"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


STREAM = [
    line(thinking="The user says héllo, "),
    line(thinking="so do I."),
    line(content="Hel"),
    line(content="lo 🙂"),
    line(tool_calls=[{"id": "call_1", **call("ls", path=".")}]),
    line(tool_calls=[{"id": "call_2", **call("cat", path="é")}]),
    line(done=LAST),
]
WHOLE = (
    "Hello 🙂",
    [("call_1", "ls", {"path": "."}), ("call_2", "cat", {"path": "é"})],
    "tool_use",
    [("The user says héllo, so do I.", OWN)],
    META,
)


@pytest.fixture
async def provider(server: Any) -> AsyncIterator[OllamaProvider]:
    config = ProviderConfig(name="ollama", model="m", base_url=server.url, extra={"num_ctx": None})
    found = OllamaProvider(config, environ={})
    yield found
    await found.aclose()


@pytest.mark.covers("OLL-10", "OLL-04", "AURA-52")
async def test_a_stream_is_thoughts_text_calls_and_what_it_cost(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends(STREAM, kind=KIND)
    server.sends(STREAM, kind=KIND)
    text, calls, stop, thoughts, meta = WHOLE
    assert await answered(provider, plain) == WHOLE
    deltas = plain(await streamed(provider))
    assert deltas[-3:] == [*calls, ("done", stop, thoughts, meta)]
    assert "".join(delta[0] for delta in deltas[:-3]) == text
    assert "".join(delta[1] for delta in deltas[:-3]) == thoughts[0][0]
    assert [request.json["stream"] for request in server.requests] == [True, True]


async def test_each_read_is_one_delta_and_an_empty_piece_is_a_sign_of_life(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    goes_on = [trio.Event() for _ in range(3)]

    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        await connection.send(line())
        await goes_on[0].wait()
        await connection.send(line(content="a") + line(content="b")[:40])
        await goes_on[1].wait()
        await connection.send(line(content="b")[40:] + line(content="c", thinking="d"))
        await goes_on[2].wait()
        await connection.send(line(done=LAST))
        await connection.end()

    server.plays(play)
    seen: list[StreamDelta] = []
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            seen.append(delta)
            if len(seen) <= 3:
                goes_on[len(seen) - 1].set()
    last = ("done", "end_turn", [("d", OWN)], META)
    assert plain(seen) == [("", ""), ("a", ""), ("bc", "d"), ("", ""), last]


@given(st.data())
def test_any_chunking_of_a_stream_gives_the_same_answer(data: st.DataObject) -> None:
    tagged = [line(content=piece) for piece in ("<thi", "nk>hm", "</think>", "the <b>", " tag")]
    lines, whole = data.draw(
        st.sampled_from(
            [
                (STREAM, ("Hello 🙂", "The user says héllo, so do I.", 2, "tool_use")),
                ([*tagged, line(done=LAST)], ("the <b> tag", "hm", 0, "end_turn")),
                ([*tagged[:1], *STREAM], ("<thiHello 🙂", "The user says héllo, so do I.", 2, "tool_use")),
                ([*tagged[:2], *STREAM], ("Hello 🙂", "hmThe user says héllo, so do I.", 2, "tool_use")),
            ]
        )
    )
    stream = b"".join(lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    splitter, reading, assembly = LineSplitter(), OllamaStream(model="m"), Assembly()
    for start, end in pairwise([0, *cuts, len(stream)]):
        assembly.add(reading.read(splitter.feed(stream[start:end])))
    for delta in reading.end():
        assembly.add(delta)
    answer = assembly.response()
    thoughts = "".join(block.content for block in answer.reasoning)
    assert (answer.content, thoughts, len(answer.tool_calls), answer.stop_reason) == whole


@pytest.mark.covers("OLL-05")
async def test_tags_in_the_text_are_thoughts_unless_the_server_tells_them_apart(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends([line(content="<think>a</th"), line(content="ink>b"), line(done=LAST)], kind=KIND)
    server.sends([line(thinking="a"), line(content="<think>b"), line(done=LAST)], kind=KIND)
    assert [(await answered(provider, plain))[::3] for _ in range(2)] == [
        ("b", [("a", {"provider": "ollama"})]),
        ("<think>b", [("a", OWN)]),
    ]


async def test_an_unfinished_tag_is_text_after_all(server: Any, provider: OllamaProvider, plain: Any) -> None:
    server.sends([line(content="a <thi"), line(done=LAST)], kind=KIND)
    assert (await answered(provider, plain))[0] == "a <thi"


@pytest.mark.covers("OLL-09")
async def test_calls_of_older_servers_get_ids_that_no_other_call_has(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends([line(tool_calls=[call("a"), call("b")]), line(done=LAST)], kind=KIND)
    calls = [found for _ in range(2) for found in (await answered(provider, plain))[1]]
    assert [name for _, name, _ in calls] == ["a", "b", "a", "b"]
    assert len({call_id for call_id, _, _ in calls}) == 4


@pytest.mark.parametrize(
    ("last", "stop", "usage"),
    [
        ({"done": True, "done_reason": "length", "eval_count": 9}, "max_tokens", {"output_tokens": 9}),
        ({"done": True}, "end_turn", {}),
        ({"done": True, "done_reason": "unload", "prompt_eval_count": None}, "end_turn", {}),
    ],
)
async def test_what_the_end_does_not_tell_is_not_made_up(
    last: dict[str, Any], stop: str, usage: dict[str, int], server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends([line(content="a"), line(done=last)], kind=KIND)
    assert await answered(provider, plain) == ("a", [], stop, [], ("ollama", "qwen3", "", usage))


async def test_a_last_line_without_its_end_counts(server: Any, provider: OllamaProvider, plain: Any) -> None:
    server.sends([line(content="a"), line(done=LAST).rstrip()], kind=KIND)
    assert await answered(provider, plain) == ("a", [], "end_turn", [], META)


async def test_a_server_that_answers_in_one_piece_is_understood(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends(json.dumps(json.loads(line(done=LAST, content="hello")), indent=1).encode(), kind="application/json")
    assert await answered(provider, plain) == ("hello", [], "end_turn", [], META)


async def test_a_server_that_streams_although_it_was_not_asked_to_is_understood(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    server.sends(STREAM, kind=KIND)
    assert plain(await provider.complete(REQUEST)) == WHOLE


async def test_one_connection_serves_one_answer_after_the_other(server: Any, provider: OllamaProvider) -> None:
    server.sends(STREAM, kind=KIND)
    for _ in range(3):
        assert (await streamed(provider))[-1].done
    assert (len(server.requests), server.connections) == (3, 1)


async def test_whatever_follows_the_end_is_of_no_interest(server: Any, provider: OllamaProvider, plain: Any) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        await connection.send(line(content="a") + line(done=LAST) + b"{odd\n")
        await connection.close()

    server.plays(play)
    assert (await answered(provider, plain))[0] == "a"


# --- what goes wrong --------------------------------------------------------------------------


async def test_a_stream_that_ends_early_is_cut(server: Any, provider: OllamaProvider) -> None:
    server.sends([line(content="a")], kind=KIND)
    with pytest.raises(AnswerCut, match="the stream ended in the middle of the answer") as caught:
        await streamed(provider)
    assert caught.value.retryable


async def test_a_connection_that_breaks_is_cut(server: Any, provider: OllamaProvider) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        await connection.send(line(content="a"))
        await connection.close()

    server.plays(play)
    with pytest.raises(AnswerCut) as caught:
        await streamed(provider)
    assert (caught.value.provider, caught.value.retryable) == ("ollama", True)


async def test_an_error_in_the_middle_is_raised(server: Any, provider: OllamaProvider) -> None:
    server.sends([line(content="a"), b'{"error":"an error was encountered while running the model"}\n'], kind=KIND)
    with pytest.raises(ProviderUnavailable) as caught:
        await streamed(provider)
    assert str(caught.value) == "Ollama reported an error: an error was encountered while running the model"


async def test_a_damaged_line_may_be_tried_again_and_a_foreign_one_is_skipped(
    server: Any, provider: OllamaProvider, plain: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.sends([b"\n", b": comment\n", line(content="a"), line(done=LAST)], kind=KIND)
    server.sends([line(content="a"), b'{"message":{"content":"b\n', line(done=LAST)], kind=KIND)
    assert (await answered(provider, plain))[0] == "a"
    assert caplog.messages == ["Skipped a line that is no JSON: : comment"]
    with pytest.raises(BadProviderReply, match=r'^A line is damaged: {"message":{"content":"b$') as caught:
        await streamed(provider)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "odd",
    [
        b'{"message":3}',
        b'{"message":{"content":3}}',
        b'{"message":{"thinking":[]  ,"content":["a"]}}',
        b'{"message":{"tool_calls":3}}',
        b'{"message":{"tool_calls":["a"]}}',
        b'{"message":{"tool_calls":[{"function":"a"}]}}',
    ],
)
async def test_a_piece_of_another_shape_is_a_bad_reply(odd: bytes, server: Any, provider: OllamaProvider) -> None:
    server.sends([odd + b"\n", line(done=LAST)], kind=KIND)
    with pytest.raises(BadProviderReply) as caught:
        await streamed(provider)
    assert "unexpected shape" in str(caught.value)


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        (line(content="x" * 1_000_000), "The answer has more than 8,000,000 characters"),
        (line(thinking="x" * 1_000_000), "The answer has more than 8,000,000 characters"),
        (line(tool_calls=[call("a", x="y" * 1_000_000)]), "The answer has more than 8,000,000 characters"),
        (line(tool_calls=[call("a")] * 200), "The answer has more than 1024 tool calls"),
        (b'{"message":"' + b"x" * 1_000_000, "The answer has a line of more than 16,777,216 bytes"),
    ],
)
async def test_an_answer_that_does_not_end_is_given_up(
    piece: bytes, text: str, server: Any, provider: OllamaProvider
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        while True:
            await connection.send(piece)

    server.plays(play)
    with pytest.raises(ProviderError) as caught:
        await streamed(provider)
    assert str(caught.value) == text


async def test_leaving_a_stream_closes_its_connection(server: Any, provider: OllamaProvider) -> None:
    left = trio.Event()

    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        await connection.send(line(content="a"))
        await connection.client_leaves()
        left.set()

    server.plays(play)
    async with aclosing(provider.stream(REQUEST)) as deltas:
        assert (await anext(deltas)).text == "a"
    await left.wait()


@pytest.mark.parametrize("begun", [True, False])
async def test_cancelling_a_silent_answer_closes_its_connection(
    begun: bool, server: Any, provider: OllamaProvider
) -> None:
    asked, left = trio.Event(), trio.Event()

    async def play(connection: Any) -> None:
        if begun:
            await connection.begin(kind=KIND)
            await connection.send(line(content="a"))
        asked.set()
        await connection.client_leaves()
        left.set()

    server.plays(play)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(streamed, provider)
        await asked.wait()
        nursery.cancel_scope.cancel()
    await left.wait()


async def test_a_server_that_does_not_close_its_answer_is_not_waited_for(
    server: Any, provider: OllamaProvider, plain: Any
) -> None:
    async def play(connection: Any) -> None:
        await connection.begin(kind=KIND)
        await connection.send(line(content="a") + line(done=LAST))
        await connection.client_leaves()

    server.plays(play)
    with trio.fail_after(5):
        assert (await answered(provider, plain))[0] == "a"
