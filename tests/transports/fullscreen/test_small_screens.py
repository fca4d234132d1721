"""Where there is little room: the question and the chat keep theirs, everything else gives way."""

from __future__ import annotations

import pytest
import trio

from aar.messages.events import TurnEnded
from aar.messages.themes import Theme
from aar.transports.fullscreen.approval import PAUSE
from aar.transports.fullscreen.replies import reply_blocks
from aar.transports.terminal.slash import Reply, Table
from tests.transports.fullscreen.test_parts import Desk
from tests.transports.fullscreen.whole import open_whole

SIZES = [(20, 8), (40, 6), (40, 12), (80, 10), (80, 24), (200, 60)]


@pytest.mark.covers("FTUI-13")
@pytest.mark.parametrize("size", SIZES)
async def test_a_long_question_can_be_read_to_its_end_and_answered(tmp_path, size, autojump_clock) -> None:
    desk, words = Desk(), [f"part{number}" for number in range(30)]
    tools = desk.tools.list_tools()
    async with open_whole(tmp_path, desk.asked_to_pay("\n".join(words)), tools=tools, size=size) as whole:
        whole.send("go")
        await whole.until("Approval required", "[ Yes (y) ]", "  1 ")
        seen = whole.text
        for _ in range(60):
            whole.press("down")
            seen += "\n".join(await whole.frame())
        assert [word for word in words if f"│ {word}\n" not in seen] == []
        await trio.sleep(PAUSE)
        whole.press("y")
        await whole.until("  1 ", gone="Approval required")
        with whole.handle.follow() as records:
            async for record in records:
                if isinstance(record.event, TurnEnded):
                    break
    assert desk.done == ["\n".join(words)]


@pytest.mark.covers("FTUI-13")
async def test_a_theme_that_hides_the_chat_hides_no_question(tmp_path, autojump_clock) -> None:
    desk = Desk()
    theme = Theme.model_validate({"name": "bare", "fixed_layout": {"regions": [{"name": "header"}, {"name": "input"}]}})
    tools = desk.tools.list_tools()
    async with open_whole(tmp_path, desk.asked_to_pay("tea"), tools=tools, theme=theme, size=(80, 20)) as whole:
        whole.send("go")
        await whole.until("Approval required: pay", "what: tea", "[ Yes (y) ]")


@pytest.mark.parametrize(("size", "chat"), [((40, 12), 6), ((80, 24), 13), ((80, 8), 6), ((40, 3), 1)])
async def test_the_chat_keeps_lines_and_all_columns_of_a_small_screen(tmp_path, size, chat, autojump_clock) -> None:
    async with open_whole(tmp_path, size=size) as whole:
        whole.send("/nothing")
        await whole.frame()
        at = next(row for row, line in enumerate(whole.lines) if line.startswith("  1"))
        above = [row for row in range(at) if set(whole.lines[row]) == {"─"}]
        assert above[-1] - (above[0] + 1 if above[1:] else 0) == chat
        assert ("│" in whole.text.replace("\n│", "")) == (size[0] > 40)


@pytest.mark.parametrize("columns", [6, 30, 45, 80])
def test_a_table_stays_readable_whatever_the_width(columns) -> None:
    words = ["Show", "the", "model;", "with", "a", "name,", "use", "another", "one."]
    table = Table("Help", (), (("/model [NAME] of some length", " ".join(words)), ("/q", "Leave.")))
    [block] = reply_blocks(Reply(table=table))
    rows = block.rows(columns)
    lines = [line.decode() for line in block.canvas(columns, 0, rows).text]
    assert len(lines) == rows
    assert rows <= (9 if columns >= 30 else 40)
    assert columns < 30 or "".join(words) in "".join("".join(lines).replace("│", "").split())
