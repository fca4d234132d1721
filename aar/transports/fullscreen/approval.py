"""The bar that asks whether a tool may run: one question at a time, answered by a key or a button.

Somebody may be typing when a question appears. Keys that follow one another go on into the input; only one that is
struck after a pause is an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import trio
import urwid

from aar.display import one_line
from aar.messages.approvals import ASIDE, DecisionName
from aar.messages.events import ApprovalRequested, ApprovalResolved, Recorded, TurnEnded
from aar.transports.fullscreen.stage import Bar, Stage
from aar.transports.terminal.arguments import described

__all__ = ["PAUSE", "ApprovalBar", "Approvals", "Button"]

PAUSE = 0.7  # seconds without a key before one is an answer
MOST_ROWS = 8  # of arguments that are seen at once; the rest is a scroll away

_EDGE = 2  # columns


class Button(NamedTuple):
    key: str
    label: str
    decision: DecisionName


BUTTONS = (
    Button("y", "Yes (y)", "allow"),
    Button("n", "No (n)", "deny"),
    Button("a", "Always (a)", "allow_always"),
)


class ApprovalBar(Bar):
    """A flow widget for one question. `answer` gets the decision, once."""

    def __init__(self, question: ApprovalRequested, waiting: int, answer: Callable[[DecisionName], None]) -> None:
        self._question = question
        self._answer = answer
        self._buttons = [one for one in BUTTONS if one.decision in question.options]
        self._chosen: int | None = None  # none to begin with: Enter belongs to the input
        self._quiet_since = trio.current_time()
        self._top = 0
        self._most = MOST_ROWS
        self._lines: list[str] = []
        self._width = 0
        self._title = urwid.Text("", wrap="clip")
        self._body = urwid.Text("", wrap="clip")
        self._foot = urwid.Text("", wrap="clip")
        self._waiting = waiting
        super().__init__(urwid.AttrMap(urwid.Pile([self._title, self._body, self._foot]), "modal"))

    def selectable(self) -> bool:
        return True

    def tell_waiting(self, count: int) -> None:
        """So many questions wait behind this one."""
        self._waiting = count
        self._refresh()

    # --- drawing ---

    def render(self, size: Any, focus: bool = False) -> urwid.Canvas:
        self._lay_out(size[0])
        return super().render(size, focus)

    def rows(self, size: Any, focus: bool = False) -> int:
        self._lay_out(size[0])
        return 2 + min(self._most + 1, len(self._lines))

    def fit(self, columns: int, rows: int) -> int:
        self._most = max(1, min(MOST_ROWS, rows - 3))
        self._lay_out(columns)
        self._top = min(self._top, self._last_top)
        self._refresh()
        return self.rows((columns,))

    def _lay_out(self, width: int) -> None:
        if width != self._width:
            self._width = width
            self._lines = self._told(max(20, width - _EDGE))
            self._top = min(self._top, self._last_top)
            self._refresh()

    def _told(self, width: int) -> list[str]:
        lines = described(self._question.arguments, width, whole=True).split("\n")
        if self._question.reason:
            first, *rest = described({"Reason": one_line(self._question.reason)}, width, whole=True).split("\n")
            lines += [first.strip(), *rest]  # no argument stands so far to the left
        return lines

    @property
    def _last_top(self) -> int:
        return max(0, len(self._lines) - self._most) if len(self._lines) > self._most + 1 else 0

    def _refresh(self, said: str = "") -> None:
        more = f"   {self._waiting} more wait" if self._waiting else ""
        name = one_line(self._question.tool_name)
        self._title.set_text([("modal.title", f"Approval required: {name}"), ("dim", more)])
        shown = self._lines[self._top : self._top + self._most] if self._last_top else self._lines
        where = [("dim", f"\n  lines {self._top + 1}-{self._top + self._most} of {len(self._lines)}: Up, Down")]
        self._body.set_text(["\n".join(shown) or " ", *(where if self._last_top else [])])
        foot: list[Any] = []
        for at, button in enumerate(self._buttons):
            foot += [(("button.focus" if at == self._chosen else "button"), f"[ {button.label} ]"), "  "]
        self._foot.set_text([*foot, ("dim", said)])
        self._invalidate()

    # --- keys and the mouse ---

    def keypress(self, size: Any, key: str) -> str | None:
        """Takes answers and what scrolls; gives everything else back."""
        self._lay_out(size[0])
        was_quiet = trio.current_time() - self._quiet_since >= PAUSE
        if key in ("left", "right") and was_quiet:
            self._choose(key)
            return None
        if key in ("up", "down", "page up", "page down") and self._last_top:
            self._scroll(key)
            return None
        button = self._button_of(key)
        if button is not None and was_quiet:
            self._answer(button.decision)
            return None
        self._quiet_since = trio.current_time()
        self._chosen = None
        self._refresh("typed on: press it again" if button is not None else "")
        return key

    def _button_of(self, key: str) -> Button | None:
        if key == "enter":
            return self._buttons[self._chosen] if self._chosen is not None else None
        return next((button for button in self._buttons if button.key == key.lower()), None)

    def _choose(self, key: str) -> None:
        count = len(self._buttons)
        if self._chosen is None:
            self._chosen = 0 if key == "right" else count - 1
        else:
            self._chosen = (self._chosen + (1 if key == "right" else -1)) % count
        self._refresh()

    def _scroll(self, key: str) -> None:
        step = 1 if key in ("up", "down") else self._most
        top = self._top + (step if key.endswith("down") else -step)
        self._top = min(max(0, top), self._last_top)
        self._refresh()

    def mouse_event(self, size: Any, event: str, button: int, col: int, row: int, focus: bool) -> bool | None:
        if event != "mouse press":
            return False
        if button in (4, 5):
            self._scroll("up" if button == 4 else "down")
        elif button == 1 and row == self.rows(size) - 1:
            self._click(col)
        return True

    def _click(self, col: int) -> None:
        left = 0
        for button in self._buttons:
            right = left + len(f"[ {button.label} ]")
            if left <= col < right:
                self._answer(button.decision)
                return
            left = right + 2


class Approvals:
    """The part of the interface that asks. Questions come from the journal and wait for their turn.

    One that is settled elsewhere, or whose turn has ended, is taken back.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._open: dict[str, ApprovalRequested] = {}
        self._asked = ""  # the call that the bar is about
        self._bar: ApprovalBar | None = None
        self._attending = trio.CancelScope()

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {}

    def notice(self, record: Recorded) -> None:
        match record.event:
            case ApprovalRequested() as question:
                self._open[question.tool_call_id] = question
            case ApprovalResolved(tool_call_id=call_id):
                self._open.pop(call_id, None)
            case TurnEnded():
                self._open = {call_id: one for call_id, one in self._open.items() if one.data.get(ASIDE)}
            case _:
                return
        self._show()

    def reset(self) -> None:
        self._open.clear()
        self._show()
        self._attending.cancel()

    async def run(self) -> None:
        """Somebody is here to answer the questions of this session, and of the next one."""
        while True:
            with trio.CancelScope() as self._attending:
                async with self._stage.handle.attend():
                    await trio.sleep_forever()

    def _show(self) -> None:
        """The oldest question that is open, or none."""
        call_id = next(iter(self._open), "")
        if call_id == self._asked and self._bar is not None:
            self._bar.tell_waiting(len(self._open) - 1)
        elif call_id:
            self._asked = call_id
            self._bar = ApprovalBar(self._open[call_id], len(self._open) - 1, self._answered)
            self._stage.show_bar(self._bar)
        elif self._bar is not None:
            self._asked, self._bar = "", None
            self._stage.show_bar(None)
        self._stage.redraw()

    def _answered(self, decision: DecisionName) -> None:
        call_id = self._asked
        self._open.pop(call_id, None)
        self._stage.start(self._stage.handle.decide, call_id, decision)
        self._show()
