"""`aar chat`: a conversation, line by line."""

from __future__ import annotations

from aar.client import SessionHandle
from aar.display import plain
from aar.transports.cli.look import look_for
from aar.transports.cli.render import LineDrawing, Renderer
from aar.transports.cli.signals import open_interrupts
from aar.transports.cli.talk import Talk
from aar.transports.program.exits import DONE, USAGE, run_to_code
from aar.transports.program.flags import Flags
from aar.transports.program.opening import open_conversation, two_sessions
from aar.transports.program.screen import Screen
from aar.transports.program.settings import loaded_settings
from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import CHAT, Reply, SlashCommands, harmless

__all__ = ["LineFace", "chat"]

BANNER = """\
Ready. Ctrl+C cancels an answer; at the prompt it leaves, like /quit.
Name a file as @path to attach it. /help shows the commands."""


def chat(*, flags: Flags) -> int:
    """Talk with the agent, line by line."""
    if two_sessions(flags):
        return USAGE

    async def work_to_do() -> int:
        loaded = loaded_settings(flags)
        screen = Screen()
        async with open_interrupts() as interrupts, open_conversation(loaded, flags, screen) as conversation:
            face = LineFace(screen, verbose=flags.verbose)
            commands = SlashCommands(conversation, (*CHAT, *SESSION))
            await Talk(commands, screen, interrupts, face, says_yes=flags.says_yes).run()
        return DONE if interrupts.code is None or interrupts.was_at_rest else interrupts.code

    return run_to_code(work_to_do)


class LineFace:
    """Text line by line, with panels around what a tool gave and around errors."""

    prompt = "> "
    gap = ""
    shows_status = True
    draws_panels = False

    def __init__(self, screen: Screen, *, verbose: bool, banner: str = BANNER) -> None:
        self._banner = banner
        self._look = look_for(screen, is_terminal=screen.err_is_terminal)
        self.renderer = Renderer(screen, LineDrawing(screen, verbose=verbose))

    async def enter(self, handle: SessionHandle) -> None:
        """One session looks like another."""

    def styled_prompt(self) -> str:
        return self.prompt

    async def welcome(self) -> str:
        return self._look.panel("Aar", self._banner, "blue")

    def working(self) -> str:
        return ""

    def reply(self, reply: Reply) -> str:
        parts = [self._look.styled(plain(reply.problem), "red") + "\n"] if reply.problem else []
        parts += [self._look.table(harmless(reply.table))] if reply.table is not None else []
        parts += [f"{plain(reply.text)}\n"] if reply.text else []
        return "".join(parts)

    def failed(self, text: str) -> str:
        return self._look.panel("Error", plain(text), "red")

    def panel(self, name: str, text: str) -> str:
        return ""
