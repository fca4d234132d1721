"""`aar tui`: how each event looks, and a conversation in a real terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.config.themes import Themes
from aar.journal.jsonl import JsonlStore
from aar.messages.events import (
    AgentState,
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ProviderMeta,
    ReasoningBlock,
    Recorded,
    StreamChunk,
    ToolCall,
    ToolResult,
)
from aar.messages.settings import AgentConfig
from aar.messages.themes import PanelStyle
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.cli.panels import Panels
from aar.transports.cli.tui import PanelFace
from aar.transports.program.opening import Conversation
from aar.transports.program.screen import Screen
from aar.transports.terminal.layout import layout_of
from aar.transports.terminal.slash import INLINE, Reply, SlashCommands, Table

CODES = re.compile(r"\x1b\[[0-9;]*m")
Shown = Callable[..., Awaitable[str]]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """`await shown(events, colours=True, ...)`: what the terminal gets, 80 columns wide; without its codes, mostly."""
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")

    async def show(
        *events: Event | Callable[[PanelFace], str],
        theme: str = "contrast",
        layout: dict[str, Any] | None = None,
        verbose: bool = False,
        with_codes: bool = False,
        environ: dict[str, str] | None = None,
        config: AgentConfig | None = None,
    ) -> str:
        file = tmp_path / "screen"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        screen = Screen(out=descriptor, err=descriptor, environ=environ or {"TERM": "xterm"})
        async with open_test_runtime(ScriptedProvider(), home=tmp_path) as runtime:
            conversation = Conversation(runtime.sessions, await runtime.sessions.open("/"), config or AgentConfig())
            themes = Themes(tmp_path)
            commands = SlashCommands(conversation, INLINE, themes=themes, theme=themes.get(theme))
            face = PanelFace(screen, commands, layout_of(layout or {}), verbose=verbose)
            await face.enter(conversation.handle)
            for event in events:
                if isinstance(event, Event):
                    await face.renderer.show(Recorded(0, "t", event))
                else:
                    await screen.tell(event(face))
        os.close(descriptor)
        return file.read_text() if with_codes else CODES.sub("", file.read_text())

    return show


def box(title: str, *lines: str) -> str:
    """A panel of 80 columns."""
    head = f"╭─ {title} " + "─" * (76 - len(title) - 1) + "╮\n"
    return head + "".join(f"│  {line:<74}  │\n" for line in lines) + f"╰{'─' * 78}╯\n"


def call(name: str = "edit", /, **arguments: Any) -> ToolCall:
    return ToolCall(tool_name=name, arguments=arguments, data={"side_effects": ["read", "execute", "other"]})


def meta(used: int, given: int, cost: float = 0.0) -> ProviderMeta:
    return ProviderMeta(usage={"input_tokens": used, "output_tokens": given}, data={"cost": cost})


DONE = AssistantMessage(content="")


@pytest.mark.covers("TUI-02")
async def test_an_answer_that_comes_whole_is_a_panel_of_markdown(shown: Shown) -> None:
    assert await shown(AssistantMessage(content="It is **done**.")) == box("Assistant", "", "It is done.", "")


@pytest.mark.covers("TUI-02")
async def test_a_streamed_answer_is_raw_text_without_a_panel(shown: Shown) -> None:
    events = [StreamChunk(reasoning_text="Let me "), StreamChunk(reasoning_text="see."), StreamChunk(text="It is ")]
    said = AssistantMessage(content="It is **done**.")
    told = await shown(*events, StreamChunk(text="**done**."), ReasoningBlock(content="Let me see."), said)
    assert told == "▸ Thinking\nLet me see.\nIt is **done**.\n"


@pytest.mark.covers("TUI-02")
async def test_calls_are_counted_and_show_their_arguments_one_a_line_and_cut(shown: Shown) -> None:
    told = await shown(call(path="a.txt", text="x" * 400), call("look"), DONE, call("look"), DONE)
    xs = [*["x" * 74] * 4, "x" * 4 + "..."]
    first = box("Tool: edit (step 1)", "path: a.txt", "text: ", *xs)
    assert told == first + "".join(box(f"Tool: look (step {n})", "(no arguments)") for n in (2, 3))


@pytest.mark.covers("TUI-02")
async def test_results_are_cut_and_failures_marked(shown: Shown) -> None:
    ok = ToolResult(tool_name="edit", output="y" * 1001, duration_ms=12.4)
    failed = ToolResult(tool_name="edit", output="no\n", is_error=True)
    ys = [*["y" * 74] * 13, "y" * 38]
    assert await shown(ok, failed) == (box("Result: edit", *ys, "... (truncated)") + box("Result: edit ERROR", "no"))


@pytest.mark.covers("TUI-02")
async def test_verbose_adds_badges_times_and_paths_in_another_style(shown: Shown) -> None:
    events = (call(path="src/a.txt"), DONE, ToolResult(tool_name="edit", output="ok", duration_ms=12.4))
    told = await shown(*events, verbose=True)
    call_box = box("[read] [exec] Tool: edit (step 1)", "path: src/a.txt")
    assert told == call_box + box("Result: edit (12 ms)", "ok")
    codes = await shown(*events, verbose=True, with_codes=True)
    assert "path: \x1b[1;34msrc/a.txt\x1b[0m" in codes  # bold blue: the theme's style for paths
    assert "src/a.txt\x1b[0m" not in await shown(*events, with_codes=True)


@pytest.mark.covers("TUI-02")
async def test_thoughts_errors_and_notices(shown: Shown) -> None:
    broken = ErrorEvent(message="It broke.", recoverable=True)
    told = await shown(ReasoningBlock(content="Hm.\n"), DONE, broken, Notice(kind="retry", text="Again."))
    retry = "You can type your message again to retry."
    assert told == box("Thinking", "Hm.") + box("Error", "It broke.", retry) + "Again.\n"
    assert "\x1b[3mHm." in await shown(ReasoningBlock(content="Hm."), with_codes=True)  # italic


@pytest.mark.covers("TUI-03")
async def test_the_token_line_tells_the_step_and_the_session_and_stands_at_the_right(shown: Shown) -> None:
    told = await shown(meta(150, 80), DONE, meta(10, 5, cost=0.004), DONE, meta(0, 0, cost=1.5), DONE)
    assert told.splitlines() == [
        f"{'  150in / 80out (total: 150in / 80out)':>79}",
        f"{'  10in / 5out (total: 160in / 85out ($0.0040))':>79}",
        f"{'  0in / 0out (total: 160in / 85out ($1.50))':>79}",
    ]


@pytest.mark.covers("TUI-03")
@pytest.mark.parametrize("limit", [{"token_budget": 100}, {"cost_limit": 1.0}])
async def test_the_token_line_changes_its_style_near_a_limit(shown: Shown, limit: dict[str, Any]) -> None:
    config = AgentConfig.model_validate(limit)
    below, above = meta(70, 9, cost=0.79), meta(1, 0, cost=0.01)
    lines = (await shown(below, DONE, above, DONE, config=config, with_codes=True)).splitlines()
    assert [line[: line.index("m") + 1] for line in lines] == ["\x1b[2m", "\x1b[1;31m"]  # dim; bold red


@pytest.mark.covers("TUI-07")
async def test_sections_that_the_layout_hides_are_not_drawn(shown: Shown) -> None:
    events: list[Any] = [
        StreamChunk(reasoning_text="Hm."),
        StreamChunk(text="Yes."),
        AssistantMessage(content="Yes."),
        ReasoningBlock(content="Hm."),
        AssistantMessage(content="No."),
        meta(1, 1),
        call(),
        DONE,
        ToolResult(tool_name="edit", output="ok"),
        lambda face: face.working(),
        lambda face: face.panel("todo", "Milk."),
    ]
    hidden = {name: {"visible": False} for name in ("reasoning", "assistant", "tool_call", "tool_result")}
    hidden |= {name: {"visible": False} for name in ("token_usage", "status_bar")}
    layout = {**hidden, "extensions": {"todo": {"visible": False}}}
    assert await shown(*events, layout=layout) == ""
    for name, mark in {
        "reasoning": "Hm.",
        "assistant": "Yes.",
        "tool_call": "Tool: edit",
        "tool_result": "Result: edit",
        "token_usage": "total:",
        "status_bar": "  Working...\n",
        "extensions": "Milk.",
    }.items():
        assert mark in await shown(*events, layout={key: value for key, value in layout.items() if key != name})


@pytest.mark.covers("TUI-04")
async def test_a_theme_changes_what_is_drawn_from_then_on(shown: Shown) -> None:
    def change(face: PanelFace) -> str:
        face._commands.theme = Themes().get("sleek")
        return ""

    said = AssistantMessage(content="Hi.")
    before, after = (await shown(said, change, said, theme="default", with_codes=True)).split("Hi.")[0::2]
    assert "\x1b[38;2;255;179;15m╭" in before  # #ffb30f
    assert "\x1b[38;2;108;117;125m" in after  # #6c757d
    told = (await shown(said, change, said, theme="default")).splitlines()
    assert [len(told), told[-2]] == [8, f"│ {'Hi.':<76} │"]  # the second one is tight: 5 lines, then 3


async def test_without_colours_the_same_stands_there_in_plain_lines(shown: Shown) -> None:
    events = [call(path="a"), DONE, ToolResult(tool_name="edit", output="no", is_error=True), meta(1, 2), DONE]
    table = Reply(problem="Bad.", table=Table("Status", (), (("steps", "3"), ("cost", "$1"))), text="So.")
    plain = await shown(*events, lambda face: face.reply(table), environ={"TERM": "dumb"}, with_codes=True)
    assert plain == (
        "Tool: edit (step 1)\npath: a\nResult: edit ERROR\nno\n"
        f"{'  1in / 2out (total: 1in / 2out)':>79}\n"
        "Bad.\nStatus\nsteps  3\ncost   $1\nSo.\n"
    )


def test_a_table_has_all_its_columns_also_where_there_is_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "columns", 34)
    panels = Panels(Screen(environ={"TERM": "xterm"}))
    table = Table("Aar", (), (("/until [--max N] CONDITION PROMPT", "Say it again."), ("/help", "Show all.")))
    drawn = CODES.sub("", panels.table(table, PanelStyle()))
    assert all(word in drawn for word in ("/until", "PROMPT", "again.", "/help", "Show"))
    assert {len(line) for line in drawn.splitlines()} == {34}
    assert CODES.sub("", panels.table(Table("None", (), ()), PanelStyle())).startswith("╭─ None ─")


async def test_what_models_and_tools_say_cannot_draw_or_style_anything(shown: Shown) -> None:
    evil = "\x1b[2J[red]a[/red]"
    events = [AssistantMessage(content=evil), ToolResult(tool_name=evil, output=evil), call(evil, **{evil: evil}), DONE]
    told = await shown(*events, verbose=True, with_codes=True)
    assert "\x1b[2J" not in told
    assert told.count("[red]a[/red]") == 6
    reply = Reply(problem=evil, text=evil, table=Table("Tools", (), ((evil, f"{evil}\n{evil}"),)))
    assert "\x1b[2J" not in await shown(lambda face: face.reply(reply), with_codes=True)
    assert "\x1b[2J" not in await shown(lambda face: face.panel(evil, evil) + face.failed(evil), with_codes=True)


# --- in a terminal ----------------------------------------------------------------------------


@pytest.mark.covers("TUI-01")
async def test_a_conversation_begins_with_the_commands_and_ends_with_the_session(terminal, model, flags, place) -> None:
    (place.home / "extensions").mkdir(parents=True)
    (place.home / "extensions" / "hello.py").write_text(
        "def register(api):\n"
        "    api.command('hello', description='Say hello.')(lambda args, ctx: f'Hello, {args}.')\n"
        "    api.panel('steps')(lambda ctx: f'{ctx.session.step_count} so far')\n"
    )
    model.says("Good ", "day.")
    async with terminal("tui", *flags) as screen:
        shown = await screen.until("\r> ")
        assert shown.startswith("╭─ Aar Agent TUI ──")
        for name in ("/model", "/status", "/tools", "/policy", "/theme", "/clear", "/help", "/quit", "/hello"):
            assert f"│  {name}" in shown
        await screen.type("hi\r")
        await screen.until("  Working...\n")
        await screen.until("\nGood day.\n")
        await screen.until("10in / 5out (total: 10in / 5out)\n")
        await screen.until("╭─ steps ─")
        await screen.until("│  1 so far ")
        await screen.until("\r> ")
        await screen.type("/hello you\r")
        await screen.until("Hello, you.\n")
        await screen.type("/theme sleek\r")
        await screen.until("Theme: sleek\n")
        await screen.type("/nosuch\r")
        await screen.until("Unknown command: /nosuch\n")
        await screen.type("/quit\r")
        await screen.until("Session saved: ")
        assert await screen.end() == 0
    [file] = (place.home / "sessions").glob("*.jsonl")
    assert screen.text.endswith(f"Session saved: {file.stem}\n")


@pytest.mark.covers("TUI-05", "TUI-09")
async def test_clear_begins_a_new_session_and_an_old_one_can_be_resumed(terminal, model, flags, place) -> None:
    model.says("One.").says("Two.").says("Three.")
    async with terminal("tui", *flags) as screen:
        for said, answer in (("first", "One."), ("second", "Two.")):
            await screen.until("\r> ")
            await screen.type(f"{said}\r")
            await screen.until(f"\n{answer}\n")
            await screen.until("\r> ")
            await screen.type("/clear\r")
            await screen.until("Session saved: ")
        assert "\x1b[H\x1b[2J\x1b[3J" in screen.raw
        await screen.until("\r> ")
        await screen.type("/status\r")
        await screen.until("No active session.\n")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert [[m["content"] for m in request["messages"] if m["role"] == "user"] for request in model.requests] == [
        ["first"],
        ["second"],
    ]
    sessions = {file.stem for file in (place.home / "sessions").glob("*.jsonl")}
    saved = re.findall("Session saved: (.*)\n", screen.text)
    assert [len(saved), set(saved)] == [2, sessions]
    async with terminal("tui", "--session", saved[0], *flags) as screen:
        await screen.until(f"Resumed session {saved[0]}\n")
        await screen.until("\r> ")
        await screen.type("third\r")
        await screen.until("total: 20in / 10out")
        await screen.type("\x04")
        await screen.until(f"Session saved: {saved[0]}\n")
    assert [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "user"] == ["first", "third"]


@pytest.mark.covers("TUI-08")
async def test_after_an_error_that_may_pass_the_message_can_be_typed_again(terminal, model, flags, place) -> None:
    place.configure(max_retries=1)
    model.says("overloaded", status=503).says("Hello.")
    async with terminal("tui", *flags) as screen:
        await screen.until("\r> ")
        await screen.type("hi\r")
        await screen.until("╭─ Error ─")
        await screen.until("│  You can type your message again to retry. ")
        await screen.until("\r> ")
        await screen.type("\x1b[A\r")
        await screen.until("\nHello.\n")
        await screen.until("\r> ")
        await screen.type("\x04")
        await screen.end()
    [info] = (await _listed(place.home)).sessions
    assert info.state is AgentState.COMPLETED


async def _listed(home: Path) -> Any:
    async with open_test_runtime(store=JsonlStore(home / "sessions"), home=home) as runtime:
        return await runtime.sessions.list()


async def test_ctrl_c_cancels_a_turn_and_at_the_prompt_it_leaves(terminal, model, flags) -> None:
    model.says("One", wait=trio.Event()).says("Two.")
    async with terminal("tui", *flags) as screen:
        await screen.until("\r> ")
        await screen.type("hi\r")
        await screen.until("\nOne")
        await screen.type("\x03")
        await screen.until("ancelled")
        await screen.until("\r> ")
        await screen.type("again\r")
        await screen.until("\nTwo.\n")
        await screen.until("\r> ")
        await screen.type("/status\r")
        await screen.until("│  steps    1 ")
        await screen.until("\r> ")
        await screen.type("\x03")
        await screen.until("Goodbye.\nSession saved: ")
        assert await screen.end() == 0


async def test_questions_are_asked_as_in_a_chat_and_panels_are_as_wide_as_the_window(terminal, model, flags, place):
    model.calls("write_file", path="a.txt", content="x").says("Done.")
    async with terminal("tui", *flags) as screen:
        await screen.until("\r> ")
        screen.resize(columns=60)
        await screen.type("write\r")
        await screen.until(f"╭─ Tool: write_file (step 1) {'─' * 30}╮\n")
        await screen.until("╭─ Approval Required ─")
        await screen.until("Allow? [y]es / [n]o / [a]lways: ")
        await screen.type("y\r")
        await screen.until(f"╭─ Result: write_file {'─' * 37}╮\n")
        await screen.until("Done.")
        await screen.until("\r> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert (place.project / "a.txt").read_text() == "x"


async def test_a_flag_for_the_theme_wins_and_one_that_nobody_knows_is_told(terminal, model, flags, place) -> None:
    place.configure(tui={"theme": "contrast", "layout": {"welcome": {"visible": False}, "nosuch": {}}})
    model.says("ok")
    async with terminal("tui", "--theme", "decker", *flags) as screen:
        await screen.until("aar: tui.layout.nosuch: there is no such section.")
        await screen.until("\r> ")
        await screen.type("/theme\r")
        await screen.until("*   decker")
        await screen.type("\x04")
        await screen.end()
    assert "Aar Agent TUI" not in screen.text
    async with terminal("tui", "-t", "nosuch", *flags) as screen:
        await screen.until("aar: Unknown theme: nosuch.")
        await screen.until("\r> ")
        await screen.type("/theme\r")
        await screen.until("*   default")
        await screen.type("\x04")
        await screen.end()


async def test_without_a_terminal_it_says_what_to_use_instead(here) -> None:
    done = here("tui")
    told = "aar: `aar tui` needs a terminal for input and output. For pipes and files: aar chat, aar run.\n"
    assert (done.code, done.out, done.err) == (2, "", told)


SERVER = """
import json, sys, threading

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask_when_told():
    open(sys.argv[1]).read()
    send(id="ping", method="ping")

for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "ping", "version": "1"}
        send(id=number, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=number, result={"tools": []})
        threading.Thread(target=ask_when_told, daemon=True).start()
    elif number == "ping" and "result" in message:
        open(sys.argv[2], "w").write("pong\\n")
    elif method and number is not None:
        send(id=number, error={"code": -32601, "message": "no such method"})
"""


@pytest.mark.covers("TUI-10")
async def test_an_mcp_server_is_answered_while_the_prompt_waits(terminal, model, flags, place, tmp_path) -> None:
    """The server asks only when it is told to, which is after the prompt was drawn."""
    answered, asked = tmp_path / "answered", tmp_path / "ask"
    os.mkfifo(answered)
    os.mkfifo(asked)
    server = place.write("server.py", SERVER)
    file = place.write(
        "mcp.json",
        json.dumps(
            {
                "servers": [
                    {
                        "name": "ping",
                        "transport": "stdio",
                        "command": sys.executable,
                        "args": [str(server), str(asked), str(answered)],
                    }
                ]
            }
        ),
    )
    async with terminal("tui", "--mcp", str(file), *flags) as screen:
        await screen.until("\r> ")
        await trio.Path(asked).write_text("now\n")
        assert await trio.Path(answered).read_text() == "pong\n"
        await screen.type("\x04")
        await screen.end()


def test_the_full_screen_names_the_package_that_it_needs(here, monkeypatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setitem(sys.modules, "aar.transports.fullscreen.run", None)
    done = here("tui", "--fixed")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.endswith("pip install 'aar-agent[tui]'\n")
