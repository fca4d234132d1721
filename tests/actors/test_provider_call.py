"""One model call: streamed or whole, its retries, its limits on silence, and what readers see of it."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.lowlevel

from aar.errors import (
    AnswerCut,
    ContextTooLong,
    ProviderError,
    ProviderRateLimited,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Notice,
    ProviderMeta,
    ReasoningBlock,
    StepRestarted,
    StreamChunk,
    TurnEnded,
)
from aar.messages.provider import ProviderResponse, StreamDelta
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers.base import Provider
from aar.testing import ScriptedAnswer, ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry


def settings(**fields) -> AgentConfig:
    return AgentConfig(**{"tools": {"enabled_builtins": []}, "streaming": True, **fields})


def of_type(kind, events) -> list:
    return [event for event in events if isinstance(event, kind)]


# --- streams ----------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-18", "EV-16")
async def test_chunks_of_a_stream_make_the_answer_and_one_of_them_is_the_last(live, watched, autojump_clock) -> None:
    text = "the quick brown fox jumps over the lazy dog"
    async with live(ScriptedProvider().text(text, chunks=9, delay=0.2), settings()) as session:
        events = await watched(session, "go")
    chunks = of_type(StreamChunk, events)
    assert "".join(chunk.text for chunk in chunks) == text
    assert [chunk.finished for chunk in chunks] == [False] * 9 + [True]
    (answer,) = of_type(AssistantMessage, events)
    assert answer.content == text
    assert events.index(chunks[-1]) < events.index(of_type(ProviderMeta, events)[0])


@pytest.mark.covers("LOOP-19")
async def test_without_streaming_there_are_no_chunks(live, watched) -> None:
    class Whole(ScriptedProvider):
        async def complete(self, request):
            self.completed = True
            return await super().complete(request)

    provider = Whole().text("hello", chunks=3)
    async with live(provider, settings(streaming=False)) as session:
        events = await watched(session, "go")
    assert of_type(StreamChunk, events) == []
    assert of_type(AssistantMessage, events)[0].content == "hello"
    assert provider.completed


@pytest.mark.covers("LOOP-20")
async def test_a_provider_that_cannot_stream_is_asked_for_the_whole_answer(live, watched) -> None:
    class Plain(Provider):
        name = "plain"
        supports_streaming = False

        async def complete(self, request):
            return ProviderResponse(content="hello")

        async def stream(self, request):
            raise AssertionError("it cannot")
            yield

    async with live(Plain(ProviderConfig(name="plain")), settings()) as session:
        events = await watched(session, "go")
    assert of_type(StreamChunk, events) == []
    assert of_type(AssistantMessage, events)[0].content == "hello"


@pytest.mark.covers("LOOP-21")
async def test_calls_that_come_in_a_stream_are_run(live, story) -> None:
    tools = ToolRegistry()
    tools.register("add")(lambda a, b: a + b)
    provider = ScriptedProvider().calls(("add", {"a": "1", "b": "2"}), ("add", {"a": "3", "b": "4"})).text("done")
    async with live(provider, settings(), tools=tools) as session:
        await session.prompt("go")
        assert [line for line in story(session) if line.startswith("tool_result")] == [
            "tool_result call_1 ok: 12",
            "tool_result call_2 ok: 34",
        ]


@pytest.mark.covers("LOOP-22")
async def test_thoughts_of_a_stream_become_one_reasoning_fact(live, watched) -> None:
    class Thinker(ScriptedProvider):
        async def stream(self, request):
            for piece in ("I ", "think ", "so"):
                yield StreamDelta(reasoning_delta=piece)
            yield StreamDelta(text="yes")
            yield StreamDelta(done=True, stop_reason="end_turn")

    async with live(Thinker(), settings()) as session:
        events = await watched(session, "go")
    assert [event.content for event in of_type(ReasoningBlock, events)] == ["I think so"]
    assert "".join(chunk.reasoning_text for chunk in of_type(StreamChunk, events)) == "I think so"


@pytest.mark.covers("LOOP-23", "EV-16")
async def test_a_stream_that_breaks_is_finished_once_and_its_text_is_kept(live, watched, story) -> None:
    provider = ScriptedProvider().error(ProviderError("broken", provider="scripted"), after="half an ans")
    async with live(provider, settings()) as session:
        events = await watched(session, "go")
        assert story(session)[2:] == [
            "assistant error: half an ans (partial)",
            "error Provider error (ProviderError): broken",
            "turn_ended error",
        ]
    assert [chunk.finished for chunk in of_type(StreamChunk, events)].count(True) == 1


@pytest.mark.covers("EV-16")
async def test_every_attempt_of_a_stream_is_finished_once(live, watched, autojump_clock) -> None:
    provider = ScriptedProvider().cut("one").cut("two").text("three")
    async with live(provider, settings()) as session:
        events = await watched(session, "go")
    hints = [event.type if event.type != "stream_chunk" or event.finished else event.text for event in events]
    assert [hint for hint in hints if hint in ("one", "two", "three", "stream_chunk", "step_restarted")] == [
        "one",
        "stream_chunk",
        "step_restarted",
        "two",
        "stream_chunk",
        "step_restarted",
        "three",
        "stream_chunk",
    ]
    answers = of_type(AssistantMessage, events)
    assert [(answer.content, answer.data) for answer in answers] == [("three", {})]  # what was cut is forgotten


@pytest.mark.covers("LOOP-24")
async def test_a_stream_without_a_proper_end_is_warned_of_and_counts(live, caplog) -> None:
    class Abrupt(ScriptedProvider):
        async def stream(self, request):
            yield StreamDelta(text="that is all")

    with caplog.at_level(logging.WARNING, logger="aar"):
        async with live(Abrupt(), settings()) as session:
            assert (await session.prompt("go")).stop == "end_turn"
            assert session.snapshot().last_text() == "that is all"
    assert [record.getMessage() for record in caplog.records] == ["The stream ended without a terminal delta"]


async def test_what_comes_after_the_end_of_a_stream_is_not_read(live) -> None:
    class Chatty(ScriptedProvider):
        async def stream(self, request):
            yield StreamDelta(text="x")
            yield StreamDelta(done=True, stop_reason="end_turn")
            raise AssertionError("read on")

    async with live(Chatty(), settings()) as session:
        assert (await session.prompt("go")).stop == "end_turn"


@pytest.mark.covers("LOOP-25")
async def test_tokens_are_counted_alike_with_and_without_streaming(live) -> None:
    seen = []
    for streaming in (True, False):
        provider = ScriptedProvider().text("x").usage(12, 34, cache_read_tokens=5)
        async with live(provider, settings(streaming=streaming)) as session:
            await session.prompt("go")
            seen.append((of_type(ProviderMeta, facts_of(session))[0].usage, (await session.status()).input_tokens))
    assert seen == [({"input_tokens": 12, "output_tokens": 34, "cache_read_tokens": 5}, 12)] * 2


async def test_a_fast_model_costs_its_readers_a_few_chunks_and_no_text(live, watched, autojump_clock) -> None:
    text = "x" * 400
    async with live(ScriptedProvider().text(text, chunks=400, delay=0.005), settings()) as session:
        events = await watched(session, "go")
    chunks = of_type(StreamChunk, events)
    assert "".join(chunk.text for chunk in chunks) == text
    assert 50 < len(chunks) < 100  # two seconds at 30 ms each, not two thousand


async def test_a_paced_reader_that_stops_reading_stops_the_server_as_well(live, until, autojump_clock) -> None:
    class Flood(ScriptedProvider):
        sent = 0

        async def stream(self, request):
            while True:
                self.sent += 1
                yield StreamDelta(text="x" * 1024)
                await trio.lowlevel.checkpoint()

    provider = Flood()
    async with live(provider, settings()) as session, trio.open_nursery() as nursery:
        with session.follow(pace=4):
            nursery.start_soon(session.prompt, "go")
            await trio.sleep(1)
            assert provider.sent < 200
            await session.cancel()  # and the reader that does not read cannot hold the cancel up
            with trio.fail_after(1):
                await until(session, TurnEnded)


# --- retries ----------------------------------------------------------------------------------


@pytest.mark.covers("LOOP-13")
@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no route"),
        ProviderUnavailable("down"),
        ProviderRateLimited("slow down"),
        AnswerCut("cut"),
        trio.TooSlowError("silence"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_may_pass_is_tried_again(live, story, autojump_clock, error) -> None:
    provider = ScriptedProvider().error(error).text("there you are")
    async with live(provider, settings()) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        assert story(session)[2:] == [
            "notice retry",
            "provider_meta",
            "assistant end_turn: there you are",
            "turn_ended end_turn",
        ]
        assert (await session.status()).step_count == 1
    assert len(provider.requests) == 2


@pytest.mark.covers("LOOP-14")
@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_server_that_stays_down_is_given_up_after_so_many_attempts(
    live, autojump_clock, caplog, attempts
) -> None:
    caplog.set_level("INFO")  # people are told by an event; the log need not repeat it
    provider = ScriptedProvider().error(ProviderUnavailable("down")).forever()
    async with live(provider, settings(max_retries=attempts)) as session:
        assert (await session.prompt("go")).stop == "error"
        (error,) = of_type(ErrorEvent, facts_of(session))
        assert error.recoverable
        assert error.data["kind"] == "ProviderUnavailable"
    assert len(provider.requests) == attempts
    assert [record.levelname for record in caplog.records if "giving up" in record.getMessage()] == ["INFO"]


@pytest.mark.covers("LOOP-15", "AURA-53")
async def test_waits_between_attempts_double_with_a_jitter(live, autojump_clock) -> None:
    provider = ScriptedProvider().error(ProviderUnavailable("down")).forever()
    async with live(provider, settings(max_retries=6)) as session:
        for _ in range(8):
            await session.prompt("go")
        delays = [event.data["delay"] for event in of_type(Notice, facts_of(session))]
    assert len(delays) == 40
    for number, delay in enumerate(delays):
        assert 0.5 <= delay / 2 ** (number % 5) <= 1.5
    assert len(set(delays)) > 20


async def test_a_retry_takes_as_long_as_it_says(live, autojump_clock) -> None:
    provider = ScriptedProvider().error(ProviderUnavailable("down")).text("x")
    async with live(provider, settings()) as session:
        started = trio.current_time()
        await session.prompt("go")
        (notice,) = of_type(Notice, facts_of(session))
        assert notice.data["attempt"] == 1
        assert trio.current_time() - started == pytest.approx(notice.data["delay"], abs=0.1)


@pytest.mark.parametrize(("asked", "waited"), [(30.0, 30.0), (60.0, 60.0)])
async def test_a_server_that_says_when_to_come_back_is_obeyed(live, autojump_clock, asked, waited) -> None:
    provider = ScriptedProvider().error(ProviderRateLimited("wait", retry_after=asked)).text("x")
    async with live(provider, settings()) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "end_turn"
        assert waited <= trio.current_time() - started < waited + 1


async def test_a_server_that_wants_more_than_a_minute_is_given_up_at_once(live, autojump_clock) -> None:
    provider = ScriptedProvider().error(ProviderRateLimited("wait", retry_after=61))
    async with live(provider, settings()) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "error"
        assert trio.current_time() - started < 0.5
    assert len(provider.requests) == 1


@pytest.mark.covers("LOOP-16")
@pytest.mark.parametrize(
    "error",
    [ProviderUnauthorized("no"), ContextTooLong("too long"), ProviderError("no"), ValueError("bug"), KeyError("bug")],
    ids=lambda error: type(error).__name__,
)
async def test_what_cannot_pass_is_tried_once(live, error) -> None:
    provider = ScriptedProvider().error(error).forever()
    async with live(provider, settings()) as session:
        assert (await session.prompt("go")).stop == "error"
        assert [event.recoverable for event in of_type(ErrorEvent, facts_of(session))] == [False]
    assert len(provider.requests) == 1


class ConnectError(Exception):
    """Named as the vendors' clients name theirs."""


class RateLimitError(Exception):
    pass


class AuthenticationError(Exception):
    pass


class RemoteProtocolError(Exception):
    pass


class ReadTimeout(Exception):
    pass


class APIStatusError(Exception):
    status_code = 503


@pytest.mark.covers("LOOP-17")
@pytest.mark.parametrize(
    ("error", "text", "recoverable"),
    [
        (
            ReadTimeout("x"),
            "Request timed out — the provider took too long to respond. You can try again.",
            True,
        ),
        (
            ConnectError("x"),
            "Could not connect to the provider — check that the server URL is correct and the service is running.",
            True,
        ),
        (
            RemoteProtocolError("x"),
            "Provider returned an unexpected response (RemoteProtocolError). You can try again.",
            True,
        ),
        (AuthenticationError("x"), "Authentication failed — check your API key.", False),
        (RateLimitError("x"), "Rate limit exceeded — wait a moment, then try again.", True),
        (APIStatusError("the server is full"), "Provider returned an error: the server is full", True),
        (ZeroDivisionError("x"), "Provider error (ZeroDivisionError): x", False),
        (ZeroDivisionError(), "Provider error (ZeroDivisionError): ZeroDivisionError", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_people_are_told_what_went_wrong(live, error, text, recoverable) -> None:
    async with live(ScriptedProvider().error(error), settings(max_retries=1)) as session:
        await session.prompt("go")
        (told,) = of_type(ErrorEvent, facts_of(session))
        assert (told.message, told.recoverable) == (text, recoverable)


async def test_an_error_inside_a_group_is_understood_as_well(live) -> None:
    group = ExceptionGroup("tasks", [ExceptionGroup("more", [ConnectError("x")])])
    async with live(ScriptedProvider().error(group), settings(max_retries=1)) as session:
        await session.prompt("go")
        assert of_type(ErrorEvent, facts_of(session))[0].data["kind"] == "ProviderUnavailable"


# --- silence ----------------------------------------------------------------------------------


def limited(**extra) -> ScriptedProvider:
    return ScriptedProvider(ProviderConfig(name="scripted", model="scripted", extra=extra))


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_server_that_never_speaks_is_given_up(live, autojump_clock, streaming) -> None:
    provider = limited(first_byte_timeout=10, idle_timeout=2).hang()
    async with live(provider, settings(streaming=streaming, max_retries=1)) as session:
        started = trio.current_time()
        await session.prompt("go")
        assert 10 <= trio.current_time() - started < 10.5
        (error,) = of_type(ErrorEvent, facts_of(session))
        said = "sent nothing" if streaming else "gave no answer"
        assert error.data["detail"] == f"scripted {said} within 10 s"
    assert provider.streaming_now == 0


async def test_a_stream_that_falls_silent_is_given_up_and_tried_again(live, story, autojump_clock) -> None:
    provider = limited(first_byte_timeout=10, idle_timeout=2).hang("so far").text("whole")
    async with live(provider, settings()) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "end_turn"
        (notice,) = of_type(Notice, facts_of(session))
        assert trio.current_time() - started - notice.data["delay"] == pytest.approx(2, abs=0.2)
        assert "assistant end_turn: whole" in story(session)
    assert provider.streaming_now == 0


@pytest.mark.covers("AURA-55")
async def test_a_sign_of_life_is_enough(live, autojump_clock) -> None:
    class Alive(ScriptedProvider):
        async def stream(self, request):
            for _ in range(10):
                await trio.sleep(1.9)
                yield StreamDelta()
            yield StreamDelta(text="x")
            yield StreamDelta(done=True, stop_reason="end_turn")

    provider = Alive(ProviderConfig(name="scripted", extra={"first_byte_timeout": 2, "idle_timeout": 2}))
    async with live(provider, settings(max_retries=1)) as session:
        assert (await session.prompt("go")).stop == "end_turn"


async def test_silence_after_a_first_sign_of_life_is_measured_from_that(live, autojump_clock) -> None:
    class Begun(ScriptedProvider):
        async def stream(self, request):
            yield StreamDelta()
            await trio.sleep_forever()

    provider = Begun(ProviderConfig(name="scripted", extra={"first_byte_timeout": 100, "idle_timeout": 2}))
    async with live(provider, settings(max_retries=1)) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "error"
        assert trio.current_time() - started < 2.5


async def test_a_slow_reader_is_not_taken_for_a_silent_server(live, autojump_clock) -> None:
    provider = limited(first_byte_timeout=10, idle_timeout=2).text("word " * 40, chunks=40, delay=0.1)
    async with live(provider, settings(max_retries=1)) as session, trio.open_nursery() as nursery:
        with session.follow(after=1, pace=1) as records:
            nursery.start_soon(session.prompt, "go")
            async for record in records:
                await trio.sleep(5)
                if record.event.type == "turn_ended":
                    break
        assert record.event.stop == "end_turn"
        assert session.snapshot().last_text() == "word " * 40


@pytest.mark.covers("LOOP-06")
async def test_without_limits_a_model_may_take_all_day(live, autojump_clock) -> None:
    provider = limited(first_byte_timeout=0, idle_timeout=0).text("at last", delay=86_400)
    async with live(provider, settings(timeout=0)) as session:
        assert (await session.prompt("go")).stop == "end_turn"


# --- the turn's own deadline ------------------------------------------------------------------


@pytest.mark.covers("LOOP-05", "LOOP-07")
@pytest.mark.parametrize("streaming", [True, False])
async def test_the_turns_deadline_cuts_a_hanging_request(live, story, autojump_clock, streaming) -> None:
    async with live(ScriptedProvider().hang("so far"), settings(timeout=0.05, streaming=streaming)) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "timed_out"
        assert trio.current_time() - started < 0.2
        told = ["assistant timeout: so far (partial)"] if streaming else []
        assert story(session)[2:] == [*told, "error Agent timed out after 0.05s", "turn_ended timed_out"]
        assert facts_of(session)[-2].recoverable is False


async def test_the_deadline_holds_over_all_steps_and_retries(live, autojump_clock) -> None:
    provider = ScriptedProvider().error(ProviderUnavailable("down")).forever()
    async with live(provider, settings(timeout=20, max_retries=100)) as session:
        started = trio.current_time()
        assert (await session.prompt("go")).stop == "timed_out"
        assert 20 <= trio.current_time() - started < 20.5


async def test_a_restart_of_the_step_tells_readers_to_forget_its_text(live, autojump_clock) -> None:
    provider = ScriptedProvider().cut("wrong").reply(ScriptedAnswer(text="right", chunks=2, delay=0.1))
    async with live(provider, settings()) as session, trio.open_nursery() as nursery:
        shown = ""
        with session.follow(after=1) as records:
            nursery.start_soon(session.prompt, "go")
            async for _, _, event in records:
                if isinstance(event, StepRestarted):
                    shown = ""
                elif isinstance(event, StreamChunk):
                    shown += event.text
                elif isinstance(event, AssistantMessage):
                    assert event.content == "right"
                    assert event.content.startswith(shown)
                    break
