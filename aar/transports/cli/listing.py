"""`aar sessions`: one line for each stored session, as wide as the terminal, or whole for other programs."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Protocol

from aar.display import plain
from aar.messages.events import AgentState
from aar.transports.program.screen import Screen

__all__ = ["Entry", "heading", "line"]

SHORT = 8  # characters of an id that a terminal shows
_MADE_HERE = 16  # hexadecimal digits of an id that nobody chose
_FOLDER = 24
_QUIET = (AgentState.COMPLETED, AgentState.IDLE)


class Entry(Protocol):
    """What a store's listing tells of a session."""

    @property
    def session_id(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def updated_at(self) -> float: ...
    @property
    def state(self) -> AgentState: ...
    @property
    def step_count(self) -> int: ...


def heading(screen: Screen) -> str:
    """Names of the columns, for people only."""
    if not screen.out_is_terminal:
        return ""
    return f"  {'ID':{SHORT}}  {'LAST USED':16}  STEPS  {'FOLDER':{_folder_width(screen)}}  TITLE\n"


def line(entry: Entry, screen: Screen, *, is_live: bool = False) -> str:
    """The id first, so that `aar sessions | awk '{print $1}'` gives the ids.

    `is_live`: a process has it open that can be attached to, which counts more than how it was left.
    """
    state = "live" if is_live else str(entry.state)
    when = f"{datetime.fromtimestamp(entry.updated_at):%Y-%m-%d %H:%M}"
    title, folder = _title(entry), _home_as_tilde(" ".join(plain(entry.cwd).split()))
    if not screen.out_is_terminal:
        return f"  {entry.session_id}  {when}  {state:<15}  {entry.step_count:5}  {folder}  {title}\n"
    if state not in _QUIET:
        title = f"[{state}] {title}"
    wide = _folder_width(screen)
    begun = f"  {_short(entry.session_id):{SHORT}}  {when}  {entry.step_count:5}  {_end_of(folder, wide):{wide}}  "
    room = max(screen.width - len(begun) - 1, 20)
    return begun + (title if len(title) <= room else title[: room - 1] + "…") + "\n"


def _title(entry: Entry) -> str:
    """A session without a title of its own has its id for one."""
    if entry.title and entry.title != entry.session_id[:12]:
        return " ".join(plain(entry.title).split())
    return "(no answer yet)" if entry.cwd else "(damaged: `aar sessions show` says more)"


def _short(session_id: str) -> str:
    return session_id[:SHORT] if len(session_id) == _MADE_HERE else session_id


def _home_as_tilde(folder: str) -> str:
    home = os.path.expanduser("~")
    if folder == home or (len(home) > 1 and folder.startswith(home + os.sep)):
        return "~" + folder[len(home) :]
    return folder


def _folder_width(screen: Screen) -> int:
    return min(_FOLDER, max(screen.width // 4, len("FOLDER")))


def _end_of(folder: str, wide: int) -> str:
    return folder if len(folder) <= wide else "…" + folder[1 - wide :]
