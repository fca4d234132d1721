from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ProviderMeta,
    ReasoningBlock,
    Recorded,
    StepRestarted,
    StreamChunk,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserMessage,
)
from aar.messages.kinds import bookmark, metadata
from aar.transports.cli.look import ColourLook
from aar.transports.cli.render import LineDrawing, Renderer
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import cut


@pytest.fixture
def shown(tmp_path: Path) -> Any:
    """`await shown(events)`: what stands on standard output, and on standard error."""

    async def show(*events: Event, verbose: bool = False) -> tuple[str, str]:
        out, err = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("out", "err"))
        screen = Screen(out=out, err=err)
        renderer = Renderer(screen, LineDrawing(screen, verbose=verbose))
        for event in events:
            await renderer.show(Recorded(0, "t", event))
        os.close(out)
        os.close(err)
        return (tmp_path / "out").read_text(), (tmp_path / "err").read_text()

    return show


def test_a_text_that_would_take_seconds_to_lay_out_is_printed_plainly() -> None:
    look, text = ColourLook(Screen()), "- **a**\n" * 5_000
    assert look.markdown(text) == text + "\n"
    assert look.panel("Title", text, "red", subtitle="below") == f"Title\n{text}\nbelow\n"
    assert "**" not in look.markdown("- **a**\n")


def call(**arguments: Any) -> ToolCall:
    return ToolCall(tool_name="edit", arguments=arguments, data={"side_effects": ["read", "write", "execute"]})


@pytest.mark.covers("CLI-12")
async def test_streamed_text_is_shown_once(shown):
    out, _ = await shown(
        StreamChunk(text="Hello "),
        StreamChunk(text="there.", finished=True),
        AssistantMessage(content="Hello there."),
    )
    assert out == "Hello there.\n"


@pytest.mark.covers("CLI-12")
@pytest.mark.parametrize(
    "chunks",
    [
        [],
        ["Hello "],
        ["Hello ", "there."],
        [" Hello "],
        ["Hello there.\n"],
        ["Hello there. "],
    ],
)
async def test_what_the_hints_did_not_bring_the_fact_does(shown, chunks):
    out, _ = await shown(*(StreamChunk(text=chunk) for chunk in chunks), AssistantMessage(content="Hello there."))
    assert out.strip() == "Hello there."
    assert out.endswith("\n")


async def test_a_step_that_starts_again_is_shown_anew_on_a_line_of_its_own(shown):
    out, err = await shown(
        StreamChunk(text="Hello th"),
        StepRestarted(),
        StreamChunk(text="Hello there.", finished=True),
        AssistantMessage(content="Hello there."),
    )
    assert out == "Hello th\nHello there.\n"
    assert err == "The connection broke; the answer begins anew:\n"


async def test_text_that_differs_from_what_was_streamed_is_shown_whole(shown):
    out, _ = await shown(StreamChunk(text="<think>x"), AssistantMessage(content="Yes."))
    assert out == "<think>x\nYes.\n"


async def test_thoughts_are_shown_once_and_before_the_answer(shown):
    events = [StreamChunk(reasoning_text="Let me "), StreamChunk(reasoning_text="see."), StreamChunk(text="Yes.")]
    streamed = await shown(*events, ReasoningBlock(content="Let me see."), AssistantMessage(content="Yes."))
    whole = await shown(ReasoningBlock(content="Let me see."), AssistantMessage(content="Yes."))
    assert streamed == whole == ("Yes.\n", "▸ thinking\nLet me see.\n")


async def test_calls_and_tokens_are_shown_after_the_text_that_led_to_them(shown):
    out, err = await shown(
        ProviderMeta(usage={"input_tokens": 12, "output_tokens": 3}),
        call(path="a.txt", lines=[1, 2], deep={"ä": None}),
        AssistantMessage(content=""),
        ProviderMeta(usage={}),
    )
    assert out == ""
    assert err == '(12in / 3out)\nTool: edit\n  path: a.txt\n  lines: [1, 2]\n  deep: {"ä": null}\n'


@pytest.mark.covers("CLI-11")
async def test_long_arguments_and_results_are_cut(shown):
    _, err = await shown(
        call(text="a" * 201, short="b" * 200),
        AssistantMessage(),
        ToolResult(tool_name="edit", output="c" * 501),
        ToolResult(tool_name="edit", output="d" * 500),
    )
    assert err == (
        f"Tool: edit\n  text: {'a' * 200}...\n  short: {'b' * 200}\n"
        f"Result: edit\n{'c' * 500}\n... (truncated)\n"
        f"Result: edit\n{'d' * 500}\n"
    )


@pytest.mark.covers("CLI-13")
async def test_verbose_shows_effects_and_times(shown):
    _, err = await shown(
        call(path="a"), AssistantMessage(), ToolResult(tool_name="edit", output="ok", duration_ms=12.4), verbose=True
    )
    assert err == "[read][write][exec] edit\n  path: a\nResult: edit (12 ms)\nok\n"


@pytest.mark.covers("LOOP-30")
async def test_internal_messages_are_not_shown(shown):
    events = [
        UserMessage(content="please continue", data={"kind": "internal", "internal": True, "reason": "max_tokens"}),
        AssistantMessage(content="more"),
    ]
    assert await shown(*events) == ("more\n", "")


async def test_errors_say_whether_to_try_again(shown):
    _, err = await shown(
        ErrorEvent(message="busy", recoverable=True), ErrorEvent(message="wrong key", recoverable=False), TurnEnded()
    )
    assert err == "Error\nbusy\nYou can type your message again to retry.\nError\nwrong key\n"


async def test_that_the_budget_comes_to_an_end_is_no_error_yet(shown):
    warning = ErrorEvent(message="Approaching budget limit", recoverable=True, data={"near_budget": True})
    assert await shown(warning) == ("", "Approaching budget limit\n")


async def test_people_read_errors_without_names_of_classes(shown):
    told = [
        ErrorEvent(
            message="Provider error (ProviderError): No server.", recoverable=False, data={"detail": "No server."}
        ),
        ErrorEvent(message="Provider returned an unexpected response (ReadError). Once more.", recoverable=False),
    ]
    _, err = await shown(*told, TurnEnded())
    assert err == "Error\nNo server.\nError\nProvider returned an unexpected response. Once more.\n"


async def test_what_a_detail_repeats_is_told_once(shown):
    detail = "There is no such API: check provider.base_url. (HTTP 404)"
    event = ErrorEvent(
        message="There is no such API: check provider.base_url.", recoverable=False, data={"detail": detail}
    )
    _, err = await shown(event, TurnEnded())
    assert err == f"Error\n{detail}\n"


async def test_notices_are_one_line(shown):
    assert await shown(Notice(kind="retry", text="Trying again in 2 s.")) == ("", "Trying again in 2 s.\n")


async def test_what_injectors_say_and_take_back_is_shown_and_what_is_for_programs_is_not(shown):
    out, err = await shown(
        UserMessage(content="Are you sure?", data={"kind": "injected", "injector": "one"}),
        bookmark("Chapter 2"),
        metadata(fired="one"),
        StreamChunk(text="bad"),
        StepRestarted(data={"why": "An injector changed this answer:"}),
        AssistantMessage(content="good"),
        TurnEnded(),
    )
    assert out == "bad\ngood\n"
    assert err == "Are you sure?\n──── Chapter 2 ────\nAn injector changed this answer:\n"


async def test_nothing_that_a_model_or_tool_says_reaches_the_terminal_as_a_control(shown):
    bad = "a\x1b[2Jb\x1b]0;t\x07c\rd\x9be\u202ef"
    out, err = await shown(
        StreamChunk(text=bad, reasoning_text=bad),
        call(**{bad: bad}),
        ToolCall(tool_name=bad),
        AssistantMessage(content=bad + "more"),
        ToolResult(tool_name=bad, output=bad),
        ErrorEvent(message=bad),
        Notice(text=bad),
        verbose=True,
    )
    assert set("\x1b\x9b\r\u202e\x07").isdisjoint(out + err)


def test_cutting_marks_what_was_cut():
    assert (cut("abc", 3, "…"), cut("abcd", 3, "…")) == ("abc", "abc…")


async def test_a_name_that_a_model_made_up_stays_on_its_line(shown):
    _, err = await shown(
        ToolCall(tool_call_id="c", tool_name="edit\nResult: fine", arguments={"a\rTool: b": "c"}),
        AssistantMessage(),
        ToolResult(tool_name="edit\nResult: fine", output="done"),
    )
    assert err == "Tool: edit\\nResult: fine\n  a\\rTool: b: c\nResult: edit\\nResult: fine\ndone\n"
