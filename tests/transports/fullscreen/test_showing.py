"""What is shown beside the chat and hidden from it: the footer, the pager, the layout, panels of extensions."""

from __future__ import annotations

import time

import pytest
import trio
from urwid.testing import press, render_text

from aar.messages.settings import AgentConfig, ProviderConfig
from aar.testing import ScriptedProvider
from aar.tools.registry import tool
from aar.transports.fullscreen.bars import Footer
from aar.transports.fullscreen.key_names import label_of
from aar.transports.fullscreen.keys import ACTIONS, KEYMAPS, Keys
from aar.transports.fullscreen.pager import Pager
from aar.transports.fullscreen.view import View
from aar.transports.terminal.layout import Layout, layout_of
from tests.transports.fullscreen.whole import open_whole

MODEL = ProviderConfig(name="scripted", model="scripted")
WIDE = (200, 34)


@tool
async def count(to: int) -> str:
    """Count."""
    return "\n".join(str(n) for n in range(to))


# --- the footer -------------------------------------------------------------------------------


@pytest.mark.covers("AURA-37")
async def test_each_field_of_the_footer_and_the_header_changes_with_what_happens(tmp_path, autojump_clock) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().call("count", to=1).usage(100, 20).text("one").after(gate).usage(200, 50)
    config = AgentConfig(streaming=True, provider=MODEL, context_window=1000, max_steps=7)
    async with open_whole(tmp_path, provider, config, size=WIDE, verbose=True, tools=(count,)) as whole:
        assert whole.lines[-1].startswith("step: 0 | theme: contrast | verbose | Ctrl+S")
        whole.send("go")
        await whole.until("step: 1 (turn 2/7) | theme: contrast | context: 120/1000 (12%) | verbose | Ctrl+S")
        gate.set()
        await whole.until("step: 2 | theme: contrast | context: 250/1000 (25%) |")
        changes = {"safety": {"sandbox": {"mode": "linux"}}, "file_snapshots": True}
        await whole.handle.configure(changes)
        await whole.until("context: 250/1000 (25%) | sandbox: linux | undo | verbose |")
        await whole.handle.configure({"provider": {"extra": {"reasoning_effort": "high"}}})
        await whole.until("theme: contrast | thinking: high | context: ")
        whole.send("/theme sleek")
        await whole.until("theme: sleek | ")
        await whole.handle.configure({"provider": {"name": "scripted", "model": "another"}})
        await whole.until("scripted / another | tokens: ")


@pytest.mark.covers("AURA-37")
def test_an_agent_and_a_mode_are_named_and_what_the_user_has_allowed_beforehand() -> None:
    footer = Footer(Keys())
    theme = AgentConfig().tui
    from aar.messages.themes import Theme

    footer.show(View(), AgentConfig(), Theme(name=theme.theme), agent="coder", mode="plan", marks=["auto"])
    text = " ".join(render_text(footer, (60, 4), strip=True))
    assert text.startswith("step: 0 | theme: default | agent: coder | mode: plan | auto | Ctrl+S send")
    assert footer.rows_at(60) == 3


def test_no_line_of_the_footer_begins_with_a_blank() -> None:
    from aar.messages.themes import Theme

    footer = Footer(Keys())
    footer.show(View(), AgentConfig(), Theme(name="mine"))
    for columns in range(10, 200):
        lines = render_text(footer, (columns, 20), strip=True)
        assert not [line for line in lines if line.startswith(" ")], f"{columns} columns: {lines}"
        assert " ".join(" ".join(lines).split()).endswith("Ctrl+L clear Ctrl+Q exit")


# --- the pager --------------------------------------------------------------------------------


@pytest.mark.covers("AURA-38")
async def test_all_of_what_the_last_tool_gave_opens_page_by_page(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().call("count", to=1000).text("Done.")
    config = AgentConfig(streaming=True, provider=MODEL)
    async with open_whole(tmp_path, provider, config, size=(110, 30), tools=(count,)) as whole:
        whole.press("ctrl o")
        await whole.until("No tool has run yet.")
        whole.send("go")
        await whole.until("... (truncated)", "Done.", "completed")
        whole.press("ctrl o")
        await whole.until("count: 1000 lines")
        whole.press("end")
        await whole.until("│999 ")
        whole.press("page up", "up", "up")
        await whole.until("count: 1000 lines", gone="│999 ")
        whole.press("esc")
        await whole.until("Done.", gone="count: 1000 lines")


@pytest.mark.covers("AURA-38")
def test_ten_thousand_lines_open_in_a_tenth_of_a_second() -> None:
    text = "\n".join(f"line {n}" for n in range(10_000))

    def opened() -> float:
        began = time.process_time()
        Pager("bash", text).render((100, 40), focus=True)
        return time.process_time() - began

    assert min(opened() for _ in range(3)) < 0.1


def test_the_pager_begins_at_the_first_line_and_moves() -> None:
    pager = Pager("bash", "\n".join(f"line {n}" for n in range(100)))
    size = (80, 6)
    lines = [line.rstrip(" █") for line in render_text(pager, size)]
    assert lines[1:3] == ["line 0", "line 1"]
    for keys, first in ((("down",), 1), (("page down",), 5), (("up", "k"), 3), (("G",), 95), (("home", " "), 4)):
        assert press(pager, size, *keys) == []
        assert render_text(pager, size)[1].rstrip(" █") == f"line {first}"
    assert press(pager, size, "esc", "x") == ["esc", "x"]


# --- what the settings hide -------------------------------------------------------------------


async def test_the_layout_hides_sections(tmp_path, autojump_clock) -> None:
    hidden = ("welcome", "reasoning", "tool_call", "token_usage")
    layout = layout_of({name: {"visible": False} for name in hidden})
    provider = ScriptedProvider().call("count", to=3).text("Done.").reasoning("hmm").usage(5, 5)
    config = AgentConfig(streaming=True, provider=MODEL)
    async with open_whole(tmp_path, provider, config, layout=layout, tools=(count,)) as whole:
        assert "/help lists" not in whole.text
        whole.send("go")
        await whole.until("Done.", "completed", "think:off")
        assert not any(text in whole.text for text in ("Tool: count", "hmm", "(total: "))


async def test_the_result_of_a_tool_can_be_hidden_alone(tmp_path, autojump_clock) -> None:
    layout = Layout(hidden=frozenset(["tool_result"]))
    provider = ScriptedProvider().call("count", to=3).text("Done.")
    async with open_whole(tmp_path, provider, layout=layout, tools=(count,)) as whole:
        whole.send("go")
        await whole.until("Tool: count", "✓ complete", "Done.")
        assert "Result:" not in whole.text


async def test_panels_of_extensions_are_drawn_after_a_turn(tmp_path, autojump_clock, monkeypatch) -> None:
    async def panels(_: object) -> dict[str, str]:
        return {"todo": "1 thing\x1b[31m", "notes": "hidden"}

    monkeypatch.setattr("aar.handle.SessionHandle.panels", panels)
    layout = Layout(hidden_panels=frozenset(["notes"]))
    async with open_whole(tmp_path, ScriptedProvider().text("Done."), layout=layout) as whole:
        whole.send("go")
        await whole.until("─ todo ──", "1 thing", "Done.")
        assert "hidden" not in whole.text


# --- the page for people ----------------------------------------------------------------------


def test_every_key_stands_in_the_documentation() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "terminal.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| action | ")
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in f"| action | {table}".split("\n\n")[0].split("\n")
    ]
    expected = [["action", "`default`", "`enter`", ""], ["---"] * 4]
    for action in ACTIONS:
        keys = [label_of(keymap[action]) if action in keymap else "" for keymap in KEYMAPS.values()]
        expected.append([f"`{action}`", *keys, ""])
    assert [[*row[:3], ""] for row in rows] == [[*row[:3], ""] for row in expected]
    for key in KEYMAPS["default"].values():
        assert label_of(key) in page.partition("| action | ")[0], f"{key} is not explained"


# --- messages of other kinds ------------------------------------------------------------------


async def test_dividers_and_notices_are_shown_and_what_is_for_programs_is_not(tmp_path, autojump_clock) -> None:
    from aar.messages.events import UserMessage
    from aar.messages.kinds import bookmark, display_only, metadata

    internal = UserMessage(content="go on, said Aar", data={"kind": "internal"})
    injected = UserMessage(content="mind the tests", data={"injector": "reminder"})
    async with open_whole(tmp_path) as whole:
        await whole.handle.adopt([bookmark("here"), metadata(a=1), display_only("for people"), internal, injected])
        await whole.until("──── here ────", "for people", "mind the tests")
        assert "go on, said Aar" not in whole.text
