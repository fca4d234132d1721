"""A conversation at a terminal or over a pipe: prompts are read, answered and shown, commands are run.

How all of that looks is the face's affair: `aar chat` and `aar tui` differ in nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Protocol

import trio

from aar.client import PromptContent, SessionHandle
from aar.display import plain
from aar.errors import AarError, ClientGone
from aar.groups import leaves
from aar.messages.events import Recorded, UserMessage
from aar.runtime import reading_rule
from aar.transports.cli.approve import Approver
from aar.transports.cli.beside import Others, said_by_others
from aar.transports.cli.line_editor import LineEditor
from aar.transports.cli.lines import Lines
from aar.transports.cli.render import Renderer
from aar.transports.cli.signals import Interrupts
from aar.transports.cli.turn import TurnView, questions_shown, take_turn
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import sentence
from aar.transports.terminal.attaching import with_files
from aar.transports.terminal.completing import Completion, complete, names_in
from aar.transports.terminal.expanding import has_directives, typed_prompt, words_about
from aar.transports.terminal.history_file import history_file
from aar.transports.terminal.slash import Effect, Inputs, Reply, SlashCommands

__all__ = ["Face", "Talk"]

PANELS_TIMEOUT = 2.0  # seconds for all panels of extensions
CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # with what was scrolled away


class Face(Protocol):
    """How a conversation looks. Texts to write, each with its newline at the end; an empty one is not written.

    `gap` stands before each `prompt`. `enter` comes before the first turn in a session. With `draws_panels`, `panel` is
    asked about each panel of an extension after a turn.
    """

    prompt: str
    gap: str
    shows_status: bool
    draws_panels: bool

    @property
    def renderer(self) -> Renderer: ...
    async def enter(self, handle: SessionHandle) -> None: ...
    def styled_prompt(self) -> str: ...
    async def welcome(self) -> str: ...
    def working(self) -> str: ...
    def reply(self, reply: Reply) -> str: ...
    def failed(self, text: str) -> str: ...
    def panel(self, name: str, text: str) -> str: ...


class Talk:
    """One person's conversation, from the greeting until they leave; it may go through several sessions."""

    def __init__(
        self, commands: SlashCommands, screen: Screen, interrupts: Interrupts, face: Face, *, says_yes: bool = False
    ) -> None:
        self._commands = commands
        self._conversation = commands.conversation
        self._screen = screen
        self._interrupts = interrupts
        self._face = face
        self._says_yes = says_yes
        self._lines = Lines()
        self._typed = history_file(commands.config)
        self._editor = self._open_editor()
        self._has_left = False

    @property
    def _handle(self) -> SessionHandle:
        return self._conversation.handle

    async def run(self) -> None:
        """Until the user leaves. A session is on disk after each turn."""
        await self._screen.tell(await self._face.welcome())
        if self._conversation.remark:
            await self._screen.tell(f"{self._conversation.remark}\n")
        try:
            while not self._is_over:
                await self._in_session(self._handle)
        finally:
            self._say_goodbye()

    @property
    def _is_over(self) -> bool:
        return self._has_left or self._interrupts.code is not None

    async def _in_session(self, handle: SessionHandle) -> None:
        """Until another session takes the place of this one, or the user leaves."""
        await self._face.enter(handle)
        approver = Approver(handle, self._screen, self._lines, says_yes=self._says_yes)
        owns = self._conversation.owns
        self._others = Others(handle, from_running=not owns, cancels=owns)
        async with approver.attending():
            while handle is self._handle and not self._is_over:
                line = await self._next_line(approver)
                if line is not None and self._editor is not None and self._typed is not None:
                    await self._typed.add(line)
                if line is None:
                    self._has_left = True
                elif line.strip().startswith("/"):
                    await self._command(line.strip(), approver)
                elif line.strip():
                    await self._answer(line.strip(), approver)

    async def _next_line(self, approver: Approver) -> str | None:
        """At a terminal, turns that others begin are shown while nothing is typed."""
        if not self._lines.is_terminal:
            return await self._read()
        return await self._others.read(self._read, lambda: self._view(approver, self._show_others))

    async def _show_others(self, record: Recorded) -> None:
        if said := said_by_others(record):
            await self._tell(f"{self._face.styled_prompt()}{plain(said)}\n")
        await self._face.renderer.show(record)

    def _open_editor(self) -> LineEditor | None:
        """Only for people, on a terminal that can do more than print."""
        if not (self._lines.is_terminal and self._screen.is_live):
            return None
        older = self._typed.read if self._typed is not None else None
        return LineEditor(self._lines, self._screen, _said(self._handle), self._completion, older)

    async def _completion(self, before: str) -> Completion | None:
        rule = reading_rule(self._conversation.config, self._handle.cwd)
        names = names_in(self._handle.cwd, rule)
        return await trio.to_thread.run_sync(complete, before, names, abandon_on_cancel=True)

    async def _read(self) -> str | None:
        await self._screen.start_line()
        await self._screen.tell(self._face.gap)
        prompt, styled = self._face.prompt, self._face.styled_prompt()
        if self._editor is not None:
            line = await self._editor.read(prompt, styled=styled)
        else:
            if self._lines.is_terminal:
                await self._screen.tell(styled)
            line = await self._lines.read()
        if line is None and self._lines.is_terminal:
            await self._screen.tell("\n")
        self._screen.typed_newline()
        return line

    def _say_goodbye(self) -> None:
        """Also when everything is cancelled: without waiting."""
        if self._interrupts.code is not None:
            self._screen.tell_nowait("Goodbye.\n")
        if goodbye := self._conversation.goodbye:
            self._screen.tell_nowait(f"{goodbye}\n")

    # --- prompts ---

    async def _answer(self, line: str, approver: Approver, *, is_typed: bool = True) -> bool:
        """Whether a turn was taken that was neither cancelled nor failed."""
        for remark in await self._conversation.reread():
            await self._screen.tell(f"{plain(remark)}\n")
        config = self._conversation.config
        prompt = await self._prompt(line, approver, is_typed=is_typed)
        if prompt is None:
            return False
        for remark in words_about(prompt, config):
            await self._screen.tell(f"{plain(remark)}\n")
        await self._tell(self._face.working())
        stop = "error"
        try:
            end = await take_turn(self._handle, prompt, self._view(approver, self._face.renderer.show))
            stop = end.stop
            self._others.note_end(end)
        except* ClientGone:
            raise
        except* AarError as errors:
            self._others.note_end()
            await self._tell(self._face.failed("\n".join(sentence(error) for error in leaves(errors))))
        if self._face.draws_panels:
            await self._draw_panels()
        return stop in ("end_turn", "max_tokens")

    def _view(self, approver: Approver, show: Callable[[Recorded], Awaitable[None]]) -> TurnView:
        label, shows_status = self._conversation.config.resolve_provider().label, self._face.shows_status
        return TurnView(self._screen, approver, self._interrupts, label, show, shows_status=shows_status)

    async def _prompt(self, line: str, approver: Approver, *, is_typed: bool) -> PromptContent | None:
        """With what `@file` words bring, and directives, if a person has typed them at a terminal.

        `None` when something cannot be had, or Ctrl+C came.
        """
        config, handle = self._conversation.config, self._handle
        prompt: PromptContent | None = None
        try:
            if not (is_typed and self._lines.is_terminal and has_directives(line)):
                return await with_files(line, config, handle.cwd, is_typed=is_typed)
            with self._cancellable() as scope:
                async with questions_shown(handle, approver):
                    prompt = await typed_prompt(line, config, handle)
            if scope.cancelled_caught:
                await self._tell("Nothing was sent.\n")
        except* AarError as errors:
            await self._tell(self._face.failed("\n".join(sentence(error) for error in leaves(errors))))
        return prompt

    @contextmanager
    def _cancellable(self) -> Iterator[trio.CancelScope]:
        """Ctrl+C ends the block, and nothing else."""
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                self._screen.echoed_interrupt()
                scope.cancel()

            with self._interrupts.during_turn(cancel):
                yield scope

    async def _draw_panels(self) -> None:
        """What extensions want drawn below a turn. They run code for it, and nobody waits long for that."""
        with trio.move_on_after(PANELS_TIMEOUT), suppress(AarError):
            for name, text in (await self._handle.panels()).items():
                await self._tell(self._face.panel(name, text))

    async def _tell(self, text: str) -> None:
        if text:
            await self._screen.start_line()
            await self._screen.tell(text)

    # --- commands ---

    async def _command(self, line: str, approver: Approver, *, may_repeat: bool = True) -> bool:
        """Until it is done or Ctrl+C cancels it. Whether all went well."""
        with self._cancellable() as scope:
            async with questions_shown(self._handle, approver):
                reply = await self._commands.run(line)
        if scope.cancelled_caught:
            await self._tell(f"{plain(line.partition(' ')[0])} was cancelled.\n")
            return False
        await self._show(reply)
        if reply.inputs is not None:
            if not may_repeat:
                await self._tell(self._face.failed("A list of inputs cannot begin another one."))
                return False
            await self._take_inputs(reply.inputs, approver)
        return not reply.problem

    async def _take_inputs(self, inputs: Inputs, approver: Approver) -> None:
        """One after the other, until one does not end well, the user leaves, or another session begins."""
        handle, goes_on = self._handle, True
        async with aclosing(inputs.lines) as lines:
            while goes_on and handle is self._handle and not self._is_over:
                line = await self._next(lines, approver)
                if line is None:
                    return
                await self._screen.start_line()
                await self._screen.tell(f"{self._face.styled_prompt()}{plain(line)}\n")
                if line.startswith("/"):
                    goes_on = await self._command(line, approver, may_repeat=False)
                else:
                    goes_on = await self._answer(line, approver, is_typed=inputs.are_typed)

    async def _next(self, lines: AsyncGenerator[str, None], approver: Approver) -> str | None:
        line: str | None = None
        try:
            with self._cancellable():
                async with questions_shown(self._handle, approver):
                    line = await anext(lines, None)
        except* AarError as errors:
            await self._tell(self._face.failed("\n".join(sentence(error) for error in leaves(errors))))
        return line

    async def _show(self, reply: Reply) -> None:
        if reply.effect is Effect.LEAVE:
            self._has_left = True
        elif reply.effect is Effect.CLEAR and self._screen.is_live:
            await self._screen.draw(CLEAR, "")
        await self._screen.tell(self._face.reply(reply))
        if reply.codes and self._screen.is_live:
            await self._screen.draw(reply.codes, "")


def _said(handle: SessionHandle) -> list[str]:
    """What was typed in this session before, for the arrow keys."""
    said = [record.event for record in handle.records() if isinstance(record.event, UserMessage)]
    typed = [event for event in said if event.data.get("kind", "prompt") == "prompt" and not event.parts]
    return [str(event.data.get("said", event.content)) for event in typed]
