"""A conversation at a terminal or over a pipe: prompts are read, answered and shown, commands are run.

How all of that looks is the face's affair: `aar chat` and `aar tui` differ in nothing else.
"""

from __future__ import annotations

from typing import Protocol

import trio

from aar.client import SessionHandle
from aar.display import plain
from aar.errors import AarError, ClientGone, InvalidMessage
from aar.groups import leaves
from aar.messages.events import UserMessage
from aar.transports.cli.approve import Approver
from aar.transports.cli.line_editor import LineEditor
from aar.transports.cli.lines import Lines
from aar.transports.cli.render import Renderer
from aar.transports.cli.signals import Interrupts
from aar.transports.cli.turn import TurnView, take_turn
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import sentence
from aar.transports.terminal.attaching import attached, with_files
from aar.transports.terminal.slash import Effect, Reply, SlashCommands

__all__ = ["Face", "Talk"]

CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # with what was scrolled away


class Face(Protocol):
    """How a conversation looks. Texts to write, each with its newline at the end; an empty one is not written.

    `gap` stands before each `prompt`. `enter` comes before the first turn in a session.
    """

    prompt: str
    gap: str
    shows_status: bool

    @property
    def renderer(self) -> Renderer: ...
    async def enter(self, handle: SessionHandle) -> None: ...
    def styled_prompt(self) -> str: ...
    async def welcome(self) -> str: ...
    def working(self) -> str: ...
    def reply(self, reply: Reply) -> str: ...
    def failed(self, text: str) -> str: ...
    def shows_panel(self, name: str) -> bool: ...
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
        async with approver.attending():
            while handle is self._handle and not self._is_over:
                await self._screen.start_line()
                await self._screen.tell(self._face.gap)
                line = await self._read()
                if line is None:
                    self._has_left = True
                elif line.strip().startswith("/"):
                    await self._command(line.strip())
                elif line.strip():
                    await self._answer(line.strip(), approver)

    def _open_editor(self) -> LineEditor | None:
        """Only for people, on a terminal that can do more than print."""
        if not (self._lines.is_terminal and self._screen.is_live):
            return None
        return LineEditor(self._lines, self._screen, _said(self._handle))

    async def _read(self) -> str | None:
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
        if not self._conversation.is_blank:
            self._screen.tell_nowait(f"Session saved: {self._handle.session_id}\n")

    # --- prompts ---

    async def _answer(self, line: str, approver: Approver) -> None:
        config = self._conversation.config
        try:
            prompt = await with_files(line, config, self._handle.cwd)
        except InvalidMessage as error:
            await self._tell(self._face.failed(str(error)))
            return
        for remark in attached(prompt, config):
            await self._screen.tell(f"{plain(remark)}\n")
        await self._tell(self._face.working())
        label = config.resolve_provider().label
        show = self._face.renderer.show
        view = TurnView(self._screen, approver, self._interrupts, label, show, shows_status=self._face.shows_status)
        try:
            await take_turn(self._handle, prompt, view)
        except* ClientGone:
            raise
        except* AarError as errors:
            await self._tell(self._face.failed("\n".join(sentence(error) for error in leaves(errors))))

    async def _tell(self, text: str) -> None:
        if text:
            await self._screen.start_line()
            await self._screen.tell(text)

    # --- commands ---

    async def _command(self, line: str) -> None:
        """Until it is done or Ctrl+C cancels it."""
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                scope.cancel()

            with self._interrupts.during_turn(cancel):
                await self._show(await self._commands.run(line))
        if scope.cancelled_caught:
            await self._tell(f"{plain(line.partition(' ')[0])} was cancelled.\n")

    async def _show(self, reply: Reply) -> None:
        if reply.effect is Effect.LEAVE:
            self._has_left = True
        elif reply.effect is Effect.CLEAR and self._screen.is_live:
            await self._screen.draw(CLEAR, "")
        await self._screen.tell(self._face.reply(reply))


def _said(handle: SessionHandle) -> list[str]:
    """What was typed in this session before, for the arrow keys."""
    said = [record.event for record in handle.records() if isinstance(record.event, UserMessage)]
    typed = [event for event in said if event.data.get("kind", "prompt") == "prompt" and not event.parts]
    return [str(event.data.get("said", event.content)) for event in typed]
