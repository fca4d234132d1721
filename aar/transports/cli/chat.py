"""`aar chat`: a conversation, line by line."""

from __future__ import annotations

import trio

from aar.client import SessionHandle
from aar.config.switching import model_patch
from aar.display import plain
from aar.errors import AarError, ClientGone, ConfigError, InvalidMessage
from aar.groups import leaves
from aar.messages.events import UserMessage
from aar.messages.settings import AgentConfig
from aar.transports.cli.approve import Approver
from aar.transports.cli.line_editor import LineEditor
from aar.transports.cli.lines import Lines
from aar.transports.cli.look import look_for
from aar.transports.cli.models import model_listing
from aar.transports.cli.opening import Conversation, open_conversation, two_sessions
from aar.transports.cli.render import Renderer
from aar.transports.cli.run import tell_attached, with_files
from aar.transports.cli.signals import Interrupts, open_interrupts
from aar.transports.cli.turn import TurnView, take_turn
from aar.transports.program.exits import DONE, USAGE, run_to_code
from aar.transports.program.flags import Flags
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import sentence
from aar.transports.program.settings import loaded_settings

__all__ = ["chat"]

BANNER = """\
Ready. Ctrl+C cancels an answer; at the prompt it leaves, like /quit.
Name a file as @path to attach it. /model shows or changes the model."""
PROMPT = "> "
COMMANDS = """\
/model  Show the model; /model NAME changes it.
/help   Show these commands.
/quit   Leave, as /exit, /q and Ctrl+D do.
"""


def chat(*, flags: Flags) -> int:
    """Talk with the agent, line by line."""
    if two_sessions(flags):
        return USAGE

    async def work_to_do() -> int:
        loaded = loaded_settings(flags)
        screen = Screen()
        async with open_interrupts() as interrupts, open_conversation(loaded, flags, screen) as conversation:
            await _Chat(conversation, screen, interrupts, flags).run()
        return DONE if interrupts.code is None or interrupts.was_at_rest else interrupts.code

    return run_to_code(work_to_do)


def _said(handle: SessionHandle) -> list[str]:
    """What was typed in this session before, for the arrow keys."""
    said = [record.event for record in handle.records() if isinstance(record.event, UserMessage)]
    typed = [event for event in said if event.data.get("kind", "prompt") == "prompt" and not event.parts]
    return [str(event.data.get("said", event.content)) for event in typed]


class _Chat:
    def __init__(self, conversation: Conversation, screen: Screen, interrupts: Interrupts, flags: Flags) -> None:
        self._conversation = conversation
        self._handle: SessionHandle = conversation.handle
        self._config: AgentConfig = conversation.config
        self._screen = screen
        self._interrupts = interrupts
        self._lines = Lines()
        self._editor = self._open_editor()
        self._look = look_for(screen, is_terminal=screen.err_is_terminal)
        self._approver = Approver(self._handle, screen, self._lines, says_yes=flags.says_yes)
        self._renderer = Renderer(screen, verbose=flags.verbose)

    async def run(self) -> None:
        """Until the user leaves. The session is on disk after each turn."""
        await self._greet()
        try:
            async with self._approver.attending():
                while self._interrupts.code is None:
                    await self._screen.start_line()
                    line = await self._read()
                    if line is None or line.strip() in ("/quit", "/exit", "/q"):
                        break
                    if line.strip():
                        await self._answer(line.strip())
        finally:
            self._say_goodbye()

    async def _greet(self) -> None:
        await self._screen.tell(self._look.panel("Aar", BANNER, "blue"))
        if self._conversation.remark:
            await self._screen.tell(f"{self._conversation.remark}\n")

    def _open_editor(self) -> LineEditor | None:
        """Only for people, on a terminal that can do more than print."""
        if not (self._lines.is_terminal and self._screen.is_live):
            return None
        return LineEditor(self._lines, self._screen, _said(self._handle))

    async def _read(self) -> str | None:
        if self._editor is not None:
            line = await self._editor.read(PROMPT)
        else:
            if self._lines.is_terminal:
                await self._screen.tell(PROMPT)
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

    async def _answer(self, line: str) -> None:
        if line.startswith("/"):
            await self._command(line)
            return
        try:
            prompt = await with_files(line, self._config, self._handle.cwd)
        except InvalidMessage as error:
            await self._show_errors(str(error))
            return
        await tell_attached(self._screen, prompt, self._config)
        label = self._config.resolve_provider().label
        view = TurnView(self._screen, self._approver, self._interrupts, label, self._renderer.show)
        try:
            await take_turn(self._handle, prompt, view)
        except* ClientGone:
            raise
        except* AarError as errors:
            await self._show_errors("\n".join(sentence(error) for error in leaves(errors)))

    async def _show_errors(self, text: str) -> None:
        await self._screen.start_line()
        await self._screen.tell(self._look.panel("Error", plain(text), "red"))

    # --- slash commands ---

    async def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        if name == "/model":
            await self._model(rest.strip())
        elif name == "/help":
            await self._help()
        elif name[1:].lower() in {command.name for command in await self._handle.commands()}:
            await self._run_command(name[1:], rest)
        else:
            await self._screen.tell(f"Unknown command: {plain(line)}\n{COMMANDS}")

    async def _help(self) -> None:
        lines = [f"/{one.name}  {plain(one.description)}\n" for one in await self._handle.commands()]
        await self._screen.tell(COMMANDS + "".join(lines))

    async def _run_command(self, name: str, arguments: str) -> None:
        """One of an extension, until it is done or Ctrl+C cancels it."""
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                scope.cancel()

            with self._interrupts.during_turn(cancel):
                try:
                    reply = await self._handle.run_command(name, arguments)
                except AarError as error:
                    await self._show_errors(sentence(error))
                else:
                    if reply is not None:
                        await self._screen.tell(f"{plain(reply)}\n")
        if scope.cancelled_caught:
            await self._screen.start_line()
            await self._screen.tell(f"/{plain(name)} was cancelled.\n")

    async def _model(self, name: str) -> None:
        if not name:
            await self._screen.tell(plain(model_listing(self._config)))
            return
        try:
            self._config = await self._handle.configure(model_patch(self._config, name))
        except ConfigError as error:
            await self._screen.tell(self._look.styled(plain(sentence(error)), "red") + "\n")
            return
        await self._screen.tell(f"Switched to {plain(self._config.resolve_provider().label)}\n")
