"""The chat area: what is recorded of a session as blocks, and between them what the interface itself has to say."""

from __future__ import annotations

from collections.abc import Callable

import urwid

from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Compacted,
    ErrorEvent,
    Event,
    Notice,
    PromptQueued,
    PromptsCleared,
    ProviderMeta,
    ProviderSwitchEvent,
    Recorded,
    StepRestarted,
    StreamChunk,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEnded,
    UserMessage,
)
from aar.messages.kinds import is_for_people
from aar.messages.themes import Theme
from aar.transports.fullscreen.blocks import Answer, Block, Lines
from aar.transports.fullscreen.tools import ToolBlock
from aar.transports.fullscreen.view import View
from aar.transports.fullscreen.viewport import Viewport
from aar.transports.program.sentences import for_people, told_error
from aar.transports.terminal.layout import Layout
from aar.transports.terminal.slash import totals
from aar.usage import format_tokens

__all__ = ["MAX_BLOCKS", "Transcript"]

MAX_BLOCKS = 2_000
"""Blocks that are kept. Older ones are on record, and out of sight."""

CANCELLED = "Agent cancelled"  # the error of a turn whose end says the same
ALL = Layout()
AGAIN = "Send your message again to retry."


class Transcript(urwid.WidgetWrap[Viewport]):
    """A box widget. `view` has taken in each record before it comes here."""

    def __init__(
        self,
        view: View,
        theme: Theme,
        *,
        clicked: Callable[[Block | None, int], None],
        verbose: bool = False,
        layout: Layout = ALL,
    ) -> None:
        bar = theme.fixed_layout.scrollbar
        self.port = Viewport(scroll=bar.scroll_speed, clicked=clicked, bar_columns=bar.size * bar.enabled)
        self._view = view
        self._theme = theme
        self._verbose = verbose
        self._layout = layout
        self._answer: Answer | None = None
        self._held: list[Event] = []  # recorded with the answer, shown after it
        self._tools: dict[str, ToolBlock] = {}  # those without a result
        self._calls = 0
        self.last_tool: ToolBlock | None = None
        super().__init__(self.port)

    def use(self, theme: Theme) -> None:
        """For what comes from now on."""
        self._theme = theme
        bar = theme.fixed_layout.scrollbar
        self.port.bar_columns = bar.size * bar.enabled
        self.port.changed()

    def clear(self) -> None:
        self.port.clear()
        self._answer = self.last_tool = None
        self._held.clear()
        self._tools.clear()
        self._calls = 0

    def tell(self, text: str, style: str | None = "dim") -> None:
        self.add(Lines(text, style))

    def add(self, block: Block) -> None:
        """Something more at the end."""
        self.port.blocks.append(block)
        if len(self.port.blocks) > MAX_BLOCKS:
            self.port.drop_first(MAX_BLOCKS // 10)
        self.port.changed()

    # --- what is recorded ---

    def notice(self, record: Recorded) -> None:
        event = record.event
        match event:
            case StreamChunk():
                self._hear(event.text)
            case StepRestarted():
                self._restart()
            case ProviderMeta() | ToolCall():
                self._held.append(event)
            case AssistantMessage():
                self._said(event)
                self._release()
            case _:
                self._release()
                self._other(event)
        self.port.changed()

    def _hear(self, text: str) -> None:
        if self._answer is None:
            if not text.strip() or not self._layout.shows("assistant"):
                return
            self._answer = Answer(self._theme.assistant.padding)
            self.add(self._answer)
        self._answer.feed(text)

    def _restart(self) -> None:
        if self._answer is not None:
            self.port.blocks.remove(self._answer)
            self._answer = None
            self.tell("The connection broke; the answer begins anew:")

    def _said(self, message: AssistantMessage) -> None:
        if message.content.strip():
            if self._answer is None:
                self._hear(message.content)
            if self._answer is not None:
                self._answer.finish(message.content)
        self._answer = None

    def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            if isinstance(event, ToolCall):
                self._call(event)
            elif isinstance(event, ProviderMeta):
                self._spent(event)

    def _call(self, call: ToolCall) -> None:
        self._calls += 1
        shows_result = self._layout.shows("tool_result")
        block = ToolBlock(call, self._calls, self._theme, verbose=self._verbose, shows_result=shows_result)
        self._tools[call.tool_call_id] = self.last_tool = block
        if self._layout.shows("tool_call"):
            self.add(block)

    def _spent(self, meta: ProviderMeta) -> None:
        if meta.usage and self._layout.shows("token_usage"):
            now = format_tokens(meta.usage.get("input_tokens", 0), meta.usage.get("output_tokens", 0))
            total = totals(self._view.input_tokens, self._view.output_tokens, self._view.cost)
            self.add(Lines(f"  {now} (total: {total})", "usage", align="right"))

    def _other(self, event: Event) -> None:
        match event:
            case ToolStarted():
                self._enter(event.tool_call_id, "Running")
            case ApprovalRequested():
                self._enter(event.tool_call_id, "Waiting")
            case ApprovalResolved():
                self._enter(event.tool_call_id, "Pending")
            case ToolOutput() if event.tool_call_id in self._tools:
                self._tools[event.tool_call_id].hear(event.text)
            case ToolResult():
                self._finish(event)
            case UserMessage():
                self._prompted(event)
            case _:
                self._told(event)

    def _enter(self, call_id: str, state: str) -> None:
        if call_id in self._tools:
            self._tools[call_id].enter(state)

    def _finish(self, result: ToolResult) -> None:
        block = self._tools.pop(result.tool_call_id, None)
        if block is not None:
            block.finish(result)

    def _prompted(self, message: UserMessage) -> None:
        if not is_for_people(message):
            return
        if "injector" in message.data:
            self.tell(message.content)
            return
        said = str(message.data.get("said", message.content))
        lines = "\n    ".join(said.split("\n"))
        self.add(Lines(f"  > {lines}", "prompt"))

    def _told(self, event: Event) -> None:
        match event:
            case ErrorEvent() if event.data.get("near_budget"):
                self.tell(event.message, "usage.warning")
            case ErrorEvent() if event.message != CANCELLED:
                self._failed(event)
            case Notice() if event.text:
                self.tell(for_people(event.text))
            case ProviderSwitchEvent():
                self.tell(f"Switched to {event.to_provider}/{event.to_model}")
            case Compacted():
                self.tell("What was said so far was summarised.")
            case PromptQueued():
                self.tell(f"  Queued ({len(self._view.queued)} pending)")
            case PromptsCleared():
                self.tell(f"Cleared {event.count} queued prompt(s)")
            case TurnEnded():
                self._ended(event)

    def _failed(self, error: ErrorEvent) -> None:
        self.add(
            Lines(
                told_error(error, AGAIN), "error.text", kind="error", title="Error", padding=self._theme.error.padding
            )
        )

    def _ended(self, end: TurnEnded) -> None:
        self._answer = None
        if end.stop == "cancelled":
            self.tell("Cancelled", "usage.warning")
        elif end.stop == "interrupted":
            self.tell("This turn was interrupted.", "usage.warning")
