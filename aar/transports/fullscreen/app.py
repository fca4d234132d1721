"""The full-screen interface as a whole: an actor that follows a session, draws, and hands on what is typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
import urwid

from aar.display import one_line
from aar.errors import AarError
from aar.groups import leaves
from aar.handle import SessionHandle
from aar.messages.events import ApprovalRequested, ConfigChanged, Recorded, TurnEnded, UserMessage
from aar.messages.settings import AgentConfig
from aar.messages.themes import Theme
from aar.transports.fullscreen.bars import Footer, Header
from aar.transports.fullscreen.blocks import Block, Lines
from aar.transports.fullscreen.composing import Composing
from aar.transports.fullscreen.frames import Frames
from aar.transports.fullscreen.highlight import load
from aar.transports.fullscreen.input import Input
from aar.transports.fullscreen.keys import Keys
from aar.transports.fullscreen.leaving import Leaving
from aar.transports.fullscreen.pager import Pager
from aar.transports.fullscreen.parts import make_parts
from aar.transports.fullscreen.printed import keep_printed
from aar.transports.fullscreen.prompts import Prompts
from aar.transports.fullscreen.replies import reply_blocks
from aar.transports.fullscreen.screen import Board
from aar.transports.fullscreen.slash import Slash
from aar.transports.fullscreen.stage import Bar, Part
from aar.transports.fullscreen.styles import palette
from aar.transports.fullscreen.terminal import Surface
from aar.transports.fullscreen.thinking import Thinking
from aar.transports.fullscreen.transcript import Transcript
from aar.transports.fullscreen.view import View
from aar.transports.program.sentences import sentence
from aar.transports.terminal.history_file import HistoryFile
from aar.transports.terminal.layout import Layout
from aar.transports.terminal.slash import Effect, Reply, SlashCommands

__all__ = ["FullScreen"]

PANELS_TIMEOUT = 2.0  # seconds for all panels of extensions
SHOWS_ALL = Layout()


class FullScreen:
    """One person's conversation on the whole screen, until they leave. It is the `Stage` of its parts."""

    def __init__(
        self,
        commands: SlashCommands,
        surface: Surface,
        leaving: Leaving,
        *,
        verbose: bool = False,
        says_yes: bool = False,
        layout: Layout = SHOWS_ALL,
        typed: HistoryFile | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._keys = keys = keys or Keys()
        self._commands = commands
        self._surface = surface
        self._leaving = leaving
        self._says_yes = says_yes
        self._layout = layout
        self._marks = [name for name, is_so in (("verbose", verbose), ("auto", says_yes)) if is_so]
        self._roles = ("", "")  # agent and mode
        self._shown_config = commands.config
        self._view = View()
        self.header = Header()
        self.footer = Footer(keys)
        self.thinking = Thinking()
        self.chat = Transcript(self._view, commands.theme, clicked=self._clicked, verbose=verbose, layout=layout)
        self.input = Input(surface.pastes, lambda: self.act("files"), keys.hint())
        self._board = Board(self, commands.theme, self.act, keys)
        if not layout.shows("reasoning"):
            self._board.show_thinking(False)
        self._composing = Composing(self, self.input, typed)
        self._prompts = Prompts(commands.conversation, self.tell)
        self._slash = Slash(commands, self._prompts, self, self._show_reply)
        self._frames = Frames(surface.send)
        self._following = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._parts: list[Part] = make_parts(self)
        self._actions = self._all_actions()

    def _all_actions(self) -> dict[str, Callable[[], None]]:
        return {
            **{name: act for part in self._parts for name, act in part.actions.items()},
            **self._composing.actions,
            **self._slash.actions,
            "send": self._send,
            "cancel": self.cancel,
            "think": self._toggle_thinking,
            "quit": self._leaving.leave,
            "pager": self._open_pager,
            "page_up": lambda: self.chat.port.page(-1),
            "page_down": lambda: self.chat.port.page(1),
        }

    def act(self, action: str) -> None:
        """Do what a key stands for."""
        found = self._actions.get(action)
        if found is not None:
            found()
        self.redraw()

    # --- living ---

    async def run(self) -> None:
        """Until the user or a signal wants it to end. The terminal is given back before the last turn has ended."""
        self._leaving.interrupted = self._interrupted
        self._leaving.last = self._surface.restore
        loop = urwid.MainLoop(self._board, screen=self._surface.screen, event_loop=self._frames, handle_mouse=True)
        self._surface.screen.register_palette(palette(self.theme))
        self._frames.enter_idle(self._update)
        self._greet()
        async with trio.open_nursery() as working:
            working.start_soon(self._prompts.run)
            try:
                with keep_printed(), loop.start():
                    self._frames.enter_idle(self._draw_on)
                    await self._show(loop)
            finally:
                self._surface.restore()
            working.cancel_scope.cancel()

    async def _show(self, loop: urwid.MainLoop) -> None:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._frames.run_async)
            self._nursery.start_soon(self._surface.watch, loop, self.redraw)
            self._nursery.start_soon(self._follow_sessions)
            self._nursery.start_soon(partial(trio.to_thread.run_sync, load, abandon_on_cancel=True))
            for part in self._parts:
                self._nursery.start_soon(part.run)
            self._nursery.start_soon(self._composing.look_further_back)
            await self._leaving.asked.wait()
            self._nursery.cancel_scope.cancel()

    def _greet(self) -> None:
        remark = self._commands.conversation.remark
        told = self._keys.how_to("{send} sends", "{newline} begins a new line")
        welcome = ", ".join([*told, "@ picks a file", "/help lists the commands."]) * self._layout.shows("welcome")
        if text := f"{welcome}\n{remark}".strip():
            self.chat.add(Lines(text, "dim", kind="welcome", title="Aar"))
        for problem in self._keys.problems:
            self.tell(problem, "error.text")

    async def _follow_sessions(self) -> None:
        """Read the journal of the session, and of those that take its place."""
        while True:
            with trio.CancelScope() as self._following:
                await self._follow(self.handle)
                await trio.sleep_forever()  # it was closed; another one may come

    async def _follow(self, handle: SessionHandle) -> None:
        past, is_past = handle.seq, True
        with handle.follow() as records:
            async for record in records:
                if is_past and (record.seq > past or not record.seq):
                    is_past = False
                self._notice(record, is_past=is_past)
                if record.seq == past:
                    self._view.start_from(await handle.status())
                    self._look_at_roles(handle)

    def _notice(self, record: Recorded, *, is_past: bool) -> None:
        self._view.notice(record)
        self.thinking.notice(record)
        self.chat.notice(record)
        event = record.event
        if is_past:
            self._remember(record)
        elif isinstance(event, ApprovalRequested) and self._says_yes:
            self.start(self.handle.decide, event.tool_call_id, "allow")
        else:
            for part in self._parts:
                part.notice(record)
        if isinstance(event, TurnEnded) and not is_past:
            self.start(self._draw_panels)
        if isinstance(event, ConfigChanged) and not is_past:
            self._shown_config = self._shown_config.patched(event.patch)
            self._look_at_roles(self.handle)
        self.redraw()

    def _look_at_roles(self, handle: SessionHandle) -> None:
        told = handle.metadata
        self._roles = str(told.get("agent", "")), str(told.get("mode", ""))

    async def _draw_panels(self) -> None:
        """What extensions want drawn below a turn. They run code for it, and nobody waits long for that."""
        with trio.move_on_after(PANELS_TIMEOUT):
            for name, text in (await self.handle.panels()).items():
                if self._layout.shows_panel(name):
                    self.chat.add(Lines(text, kind="reasoning", title=one_line(name)))
                    self.redraw()

    def _remember(self, record: Recorded) -> None:
        event = record.event
        if isinstance(event, UserMessage) and event.data.get("kind", "prompt") == "prompt" and not event.parts:
            self._composing.remember(str(event.data.get("said", event.content)))

    def _renew(self) -> None:
        """Another session, or the same one with nothing said in it, from the beginning."""
        self._view.clear()
        self._shown_config = self.config
        self.chat.clear()
        self.thinking.clear()
        for part in self._parts:
            part.reset()
        self._following.cancel()

    # --- drawing ---

    def _update(self) -> None:
        """Before each frame."""
        shown = self._board.is_thinking_shown
        self.header.show(self._view, self._shown_config, self.handle.session_id, shows_thoughts=shown)
        agent, mode = self._roles
        self.footer.show(self._view, self._shown_config, self.theme, agent=agent, mode=mode, marks=self._marks)

    def _draw_on(self) -> None:
        """After each frame: what is still to be laid out comes with the next ones."""
        if self.chat.port.has_more:
            self.chat.port.changed()
            self.redraw()

    def footer_rows(self, columns: int) -> int:
        return self.footer.rows_at(columns)

    # --- what is typed ---

    def _send(self) -> None:
        text = self._composing.take()
        if not text:
            return
        self.chat.port.to_end()
        if text.startswith("/") and "\n" not in text:
            self.tell(f"  > {text}", "prompt")
            self._slash.run(text)
        elif not self._prompts.send(text):
            self.tell("Too many messages wait to be sent: this one was not taken.", "error.text")
            self.input.set_text(text)

    def cancel(self) -> None:
        """End the turn that runs, the prompts that wait and the commands beside them."""
        self._prompts.forget()
        self._slash.cancel()
        self.start(self._cancel_turn, self.handle, self._view.turn_id)

    async def _cancel_turn(self, handle: SessionHandle, turn_id: str) -> None:
        await handle.clear_queue()
        await handle.cancel(turn_id or None)

    def _interrupted(self) -> bool:
        """Ctrl+C. Where there is nothing to do for it says how to leave. Whether the next one leaves."""
        done = next(filter(self._interrupt, self._keys.interrupts), "")
        self.redraw()
        if not done:
            self.tell(", or ".join(["Press Ctrl+C again to leave", *filter(None, [self._keys.label("quit")])]) + ".")
        return done in ("", "cancel")

    def _interrupt(self, what: str) -> bool:
        """Do this if there is anything to do it with."""
        if what == "copy" and self.chat.port.selected is not None:
            self.act("copy")
            self.chat.port.select(None)
            return True
        if what == "cancel" and (self._view.is_busy or self._view.queued or self._slash.is_running):
            self.cancel()
            return True
        return what == "clear" and self._composing.clear()

    def _open_pager(self) -> None:
        tool = self.chat.last_tool
        if tool is None:
            self.tell("No tool has run yet.")
        elif isinstance(self.modal, Pager):
            self.close_modal()
        else:
            pager = Pager(tool.name, tool.output)
            self.open_modal(pager, width=92, height=82)
            self.start(pager.colour, tool.call, tool.output, self.redraw)

    def _toggle_thinking(self) -> None:
        self._board.show_thinking(not self._board.is_thinking_shown)

    def _clicked(self, block: Block | None, button: int) -> None:
        self.chat.port.select(block)
        if button == 3 and block is not None:
            self.act("copy")
        self.redraw()

    # --- slash commands ---

    def _show_reply(self, reply: Reply, is_told: bool) -> None:
        match reply.effect:
            case Effect.LEAVE:
                self._leaving.leave()
            case Effect.CLEAR:
                self._renew()
            case Effect.THINK:
                self._toggle_thinking()
            case Effect.RESTYLE:
                self._surface.screen.register_palette(palette(self.theme))
                self._board.use_theme(self.theme)
                self.chat.use(self.theme)
        for block in reply_blocks(reply) if is_told or reply.problem else []:
            self.chat.add(block)
        if reply.codes:
            self.send_codes(reply.codes)
        self.redraw()

    # --- the stage of its parts ---

    @property
    def handle(self) -> SessionHandle:
        return self._commands.handle

    @property
    def config(self) -> AgentConfig:
        return self._commands.config

    @property
    def theme(self) -> Theme:
        return self._commands.theme

    def redraw(self) -> None:
        self._frames.ask()

    def start(self, work: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._beside, work, arguments)

    async def _beside(self, work: Callable[..., Awaitable[object]], arguments: tuple[Any, ...]) -> None:
        try:
            await work(*arguments)
        except* AarError as errors:
            self.tell("\n".join(filter(None, (sentence(error) for error in leaves(errors)))), "error.text")

    def tell(self, text: str, style: str = "dim") -> None:
        self.chat.tell(text, style)
        self.redraw()

    def insert(self, text: str) -> None:
        self.input.insert(text)
        self.redraw()

    def open_modal(self, widget: urwid.Widget, *, width: int = 80, height: int = 70) -> None:
        self._board.open_modal(widget, width=width, height=height)
        self.redraw()

    def close_modal(self) -> None:
        self._board.close_modal()
        self.redraw()

    @property
    def modal(self) -> urwid.Widget | None:
        return self._board.modal

    def show_bar(self, widget: Bar | None) -> None:
        self._board.show_bar(widget)
        self.redraw()

    def show_companion(self, markup: Any) -> None:
        self.header.companion = markup
        self.redraw()

    def selected_text(self) -> str:
        block = self.chat.port.selected
        return block.text if block is not None else ""

    def send_codes(self, codes: str) -> None:
        self._surface.send_codes(codes)
        self.redraw()
