"""`aar attach`: a session that another process of this user has open, seen and driven from here."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import trio
from pydantic import ValidationError

from aar.client import SessionHandle, Sessions
from aar.errors import InvalidMessage, SessionError, SessionNotFound
from aar.logs import configure_logging
from aar.messages.events import SessionEvent
from aar.messages.settings import AgentConfig
from aar.sharing.attaching import Attached, attached
from aar.sharing.places import live_sessions
from aar.transports.cli.chat import LineFace
from aar.transports.cli.signals import open_interrupts
from aar.transports.cli.talk import Talk
from aar.transports.program.exits import DONE, run_to_code
from aar.transports.program.flags import LogFlags
from aar.transports.program.home import home_folder
from aar.transports.program.opening import Conversation
from aar.transports.program.screen import Screen
from aar.transports.program.settings import loaded_settings
from aar.transports.terminal.slash import CHAT, FULL_SCREEN, Reply, SlashCommand, SlashCommands

__all__ = ["attach"]

BANNER = """\
Attached to a session of process {pid}, in {cwd}.
What is said here and there is seen in both. /cancel ends the turn that runs; /quit and Ctrl+C leave, and it goes on."""

NONE_OPEN = "No session of this user is open in another process. `aar chat` begins one."
MOST_SHOWN = 10

_HERE = ("model", "status", "tools", "policy", "queue", "help", "quit")


def attach(begun: str | None, *, verbose: bool, flags: LogFlags) -> int:
    """Use the session whose id begins so; without it the only one there is."""

    async def work_to_do() -> int:
        config = loaded_settings(flags).config
        configure_logging(config.log_level, config.log_file)
        home, screen = home_folder(), Screen()
        session_id = await _chosen(home, begun)
        async with open_interrupts() as interrupts, attached(home, session_id) as found:
            guest = _Guest(found)
            face = LineFace(screen, verbose=verbose, banner=guest.banner)
            await Talk(SlashCommands(guest, _commands()), screen, interrupts, face).run()
        return DONE if interrupts.code is None or interrupts.was_at_rest else interrupts.code

    return run_to_code(work_to_do)


async def _chosen(home: Path, begun: str | None) -> str:
    found = sorted(await trio.to_thread.run_sync(live_sessions, home, [begun] if begun else []))
    if begun in found:
        return begun
    fitting = [one for one in found if one.startswith(begun or "")]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise SessionNotFound(f"Session {begun} is not open in another process." if found else NONE_OPEN)
    shown = ", ".join(fitting[:MOST_SHOWN]) + (", ..." if len(fitting) > MOST_SHOWN else "")
    raise InvalidMessage(
        f"{len(fitting)} sessions are open: name one of them. {shown} (`aar sessions` says what they are about)"
    )


class _Guest(Conversation):
    """A session that is somebody else's."""

    def __init__(self, found: Attached) -> None:
        nobodys = cast("Sessions", None)  # no session is opened or closed from here
        super().__init__(nobodys, found.handle, _settings_of(found.handle))
        self._found = found

    @property
    def owns(self) -> bool:
        return False

    @property
    def is_blank(self) -> bool:
        return False

    @property
    def banner(self) -> str:
        return BANNER.format(pid=self._found.pid or "?", cwd=self.handle.cwd)

    @property
    def goodbye(self) -> str:
        return self._found.farewell or f"Left session {self.handle.session_id}, which goes on."

    async def start_over(self) -> str:
        raise SessionError("Only its owner can begin a new session in the place of this one.")


def _settings_of(handle: SessionHandle) -> AgentConfig:
    """What its owner has opened it with, without keys, and what was changed since; as far as this Aar knows it."""
    config, fold = AgentConfig(), handle.snapshot()
    for event in reversed(fold.events):
        if isinstance(event, SessionEvent) and event.data.get("config"):
            try:
                return AgentConfig.model_validate(event.data["config"]).patched(fold.patch)
            except (ValidationError, ValueError):
                return config
    return config


async def _cancel(here: SlashCommands, _: str) -> Reply:
    turn_id = (await here.handle.status()).turn_id
    if not turn_id:
        return Reply(text="No turn runs.")
    await here.handle.cancel(turn_id)
    return Reply(text="Cancelled.")


def _commands() -> tuple[SlashCommand, ...]:
    known = {command.names[0]: command for command in (*FULL_SCREEN, *CHAT)}
    cancel = SlashCommand(("cancel",), "", "Cancel the turn that runs, whoever has begun it.", _cancel)
    return (cancel, *(known[name] for name in _HERE))
