"""`aar tui`: the conversation of `aar chat` in panels, with a theme."""

from __future__ import annotations

from typing import Any

import trio
from rich.text import Text

from aar.client import SessionHandle
from aar.config.themes import Themes
from aar.display import one_line, plain
from aar.messages.events import ErrorEvent, ProviderMeta, ToolCall, ToolResult
from aar.messages.themes import PanelStyle, Theme
from aar.transports.cli.panels import Panels
from aar.transports.cli.render import AGAIN, Renderer, argument_text, is_path
from aar.transports.cli.signals import open_interrupts
from aar.transports.cli.talk import Talk
from aar.transports.program.exits import DONE, USAGE, complain, run_to_code
from aar.transports.program.flags import Flags
from aar.transports.program.home import home_folder
from aar.transports.program.opening import open_conversation, two_sessions
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import BADGES, cut, told_error
from aar.transports.program.settings import loaded_settings
from aar.transports.terminal.layout import Layout, layout_of
from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import INLINE, Reply, SlashCommands, harmless, totals
from aar.usage import format_tokens, is_over_warning_threshold

__all__ = ["PanelFace", "tui"]

ARGUMENT_LIMIT = 300  # characters of an argument that are shown
RESULT_LIMIT = 1000  # characters of a result that are shown
TITLE = "Aar Agent TUI"
HINTS = """\
Ctrl+C cancels an answer; at the prompt it leaves, like /quit.
Name a file as @path to attach it. Alt+Enter begins another line."""


def tui(*, flags: Flags) -> int:
    """Talk with the agent in panels."""
    if two_sessions(flags):
        return USAGE

    async def work_to_do() -> int:
        loaded = loaded_settings(flags)
        settings = loaded.config.tui
        themes, layout = Themes(home_folder()), layout_of(settings.layout)
        theme, why_another = await trio.to_thread.run_sync(
            themes.get_or_default, settings.theme, abandon_on_cancel=True
        )
        for problem in (*layout.problems, *filter(None, [why_another])):
            complain(problem)
        screen = Screen(out=1, err=1)
        async with open_interrupts() as interrupts, open_conversation(loaded, flags, screen) as conversation:
            commands = SlashCommands(conversation, (*INLINE, *SESSION), themes=themes, theme=theme)
            face = PanelFace(screen, commands, layout, verbose=flags.verbose)
            await Talk(commands, screen, interrupts, face, says_yes=flags.says_yes).run()
        return DONE if interrupts.code is None or interrupts.was_at_rest else interrupts.code

    return run_to_code(work_to_do)


class PanelFace:
    """A panel for each thing that happens, in the styles of the theme that the commands have at that time.

    Counts tool calls from its first to its last session, and tokens of the session that it has entered.
    """

    prompt = "> "
    gap = "\n"
    draws_panels = True

    def __init__(self, screen: Screen, commands: SlashCommands, layout: Layout, *, verbose: bool = False) -> None:
        self._commands = commands
        self._layout = layout
        self._verbose = verbose
        self._panels = Panels(screen)
        self._calls = 0
        self._input = self._output = 0
        self._cost = 0.0
        self.shows_status = layout.shows("status_bar")
        self.shows_answers = layout.shows("assistant")
        self.shows_thoughts = layout.shows("reasoning")
        self.renderer = Renderer(screen, self)

    @property
    def _theme(self) -> Theme:
        return self._commands.theme

    # --- around the turns ---

    async def enter(self, handle: SessionHandle) -> None:
        status = await handle.status()
        self._input, self._output, self._cost = status.input_tokens, status.output_tokens, status.cost

    def styled_prompt(self) -> str:
        return self._panels.styled(self.prompt, self._theme.prompt_style)

    async def welcome(self) -> str:
        if not self._layout.shows("welcome"):
            return ""
        commands = harmless(await self._commands.listing())
        return self._panels.table(commands._replace(title=TITLE), self._theme.welcome, above=HINTS)

    def working(self) -> str:
        return self._panels.styled("  Working...", self._theme.working_style) + "\n" if self.shows_status else ""

    def reply(self, reply: Reply) -> str:
        parts = [self._panels.styled(plain(reply.problem), self._theme.error.title_style) + "\n"] * bool(reply.problem)
        if reply.table is not None:
            parts.append(self._panels.table(harmless(reply.table), self._theme.welcome))
        if reply.text:
            parts.append(f"{plain(reply.text)}\n")
        return "".join(parts)

    def failed(self, text: str) -> str:
        return self._panels.panel("Error", plain(text), self._theme.error)

    def panel(self, name: str, text: str) -> str:
        if not self._layout.shows_panel(name):
            return ""
        style = PanelStyle(title_style=self._theme.dim_text, border_style=self._theme.dim_text)
        return self._panels.panel(one_line(name), plain(text), style)

    # --- what happens in a turn ---

    def thinking(self) -> str:
        return self._panels.styled("▸ Thinking", self._theme.reasoning.title_style) + "\n"

    def thought(self, text: str) -> str:
        return self._panels.styled(text, f"italic {self._theme.reasoning.border_style}")

    def thoughts(self, text: str) -> str:
        if not self.shows_thoughts:
            return ""
        return self._panels.panel("Thinking", text.strip("\n"), self._theme.reasoning, body_style="italic")

    def answer(self, text: str) -> str:
        return self._panels.markdown("Assistant", text, self._theme.assistant) if self.shows_answers else ""

    def called(self, call: ToolCall) -> str:
        self._calls += 1
        if not self._layout.shows("tool_call"):
            return ""
        title = Text(f"Tool: {one_line(call.tool_name)} (step {self._calls})", style=self._theme.tool_call.title_style)
        if self._verbose:
            title = Text.assemble(*self._badges(call), title)
        lines = [self._argument(one_line(str(key)), value) for key, value in call.arguments.items()]
        body = Text("\n").join(lines) if lines else Text("(no arguments)", style=self._theme.dim_text)
        return self._panels.panel(title, body, self._theme.tool_call)

    def _badges(self, call: ToolCall) -> list[tuple[str, str]]:
        effects = [str(effect) for effect in call.data.get("side_effects", [])]
        return [(f"[{BADGES[one]}] ", getattr(self._theme.badges, one)) for one in effects if one in BADGES]

    def _argument(self, name: str, value: Any) -> Text:
        style = self._theme.path_highlight if self._verbose and is_path(value) else ""
        return Text.assemble(f"{name}: ", (cut(argument_text(value), ARGUMENT_LIMIT, "..."), style))

    def result(self, result: ToolResult) -> str:
        if not self._layout.shows("tool_result"):
            return ""
        title = f"Result: {one_line(result.tool_name)}"
        title += f" ({result.duration_ms:.0f} ms)" if self._verbose else ""
        title += " ERROR" if result.is_error else ""
        text = cut(plain(result.output).rstrip("\n"), RESULT_LIMIT, "\n... (truncated)")
        return self._panels.panel(title, text, self._theme.tool_error if result.is_error else self._theme.tool_result)

    def spent(self, meta: ProviderMeta) -> str:
        used, given = meta.usage.get("input_tokens", 0), meta.usage.get("output_tokens", 0)
        self._input += used
        self._output += given
        self._cost += float(meta.data.get("cost", 0.0))
        if not self._layout.shows("token_usage"):
            return ""
        config = self._commands.config
        is_much = is_over_warning_threshold(self._input + self._output, self._cost, config)
        style = self._theme.usage_warning_style if is_much else self._theme.usage_style
        total = totals(self._input, self._output, self._cost)
        return self._panels.right(f"  {format_tokens(used, given)} (total: {total})", style)

    def error(self, error: ErrorEvent) -> str:
        return self._panels.panel("Error", told_error(error, AGAIN), self._theme.error)

    def note(self, text: str) -> str:
        return self._panels.styled(text, self._theme.dim_text) + "\n"
