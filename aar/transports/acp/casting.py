"""Agents and modes of the user in the sessions of one client: which may be chosen, and choosing one.

Nothing of them is imported or read for a user who has none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

from aar.client import SessionHandle
from aar.errors import ConfigError

if TYPE_CHECKING:
    from aar.roles import Roles

__all__ = ["NOTHING", "Casting", "Offer", "RolesOf"]

RolesOf = Callable[[str], "Roles"]
"""Gives the agents and modes for a session that works in this folder. Raises `ConfigError`."""

Names = tuple[tuple[str, str], ...]


class Offer(NamedTuple):
    """What a client may choose from: names, each with a sentence about it."""

    agents: Names = ()
    modes: Names = ()


NOTHING = Offer()


class Casting:
    """`agent` and `mode` are those that new sessions begin with; empty: none."""

    def __init__(self, home: Path, roles_of: RolesOf | None, *, agent: str = "", mode: str = "") -> None:
        self._home = home
        self._roles_of = roles_of
        self._agent = agent
        self._mode = mode
        self._roles: dict[str, Roles] = {}
        self._remarks: dict[str, tuple[str, ...]] = {}

    def _of(self, handle: SessionHandle) -> Roles:
        roles = self._roles.get(handle.session_id)
        if roles is None:
            if self._roles_of is None:
                raise ConfigError("There are no agents and modes here.")
            roles = self._roles[handle.session_id] = self._roles_of(handle.cwd)
        return roles

    def forget(self, session_id: str) -> None:
        self._roles.pop(session_id, None)
        self._remarks.pop(session_id, None)

    async def begin(self, handle: SessionHandle) -> None:
        """Put in force what the session had when it was left, or what new ones begin with; see `remarks_on`."""
        told = handle.metadata
        agent, mode = told.get("agent"), told.get("mode")
        if agent is None and mode is None:
            agent, mode = self._agent, self._mode
        if not agent and not mode:
            return
        try:
            change = await self._of(handle).begin(handle, str(agent or ""), str(mode or ""))
            self._remarks[handle.session_id] = change.remarks
        except ConfigError as error:
            await handle.configure({"agent": "", "mode": ""})
            text = f"{error} The session goes on without the agent and the mode that it should have."
            self._remarks[handle.session_id] = (text,)

    def remarks_on(self, handle: SessionHandle) -> tuple[str, ...]:
        """What to tell people of how it began, once."""
        return self._remarks.pop(handle.session_id, ())

    async def offer(self, handle: SessionHandle) -> Offer:
        """Files that are wrong are left out."""
        if not await trio.to_thread.run_sync(self._may_have, handle.cwd, abandon_on_cancel=True):
            return Offer()
        try:
            library = await self._of(handle).library()
        except ConfigError:  # whoever chooses one is told why
            return Offer()
        found = [
            (await trio.to_thread.run_sync(part.usable, abandon_on_cancel=True))[0]
            for part in (library.agents, library.modes)
        ]
        agents, modes = (tuple((one.name, one.description) for one in part) for part in found)
        return Offer(agents, modes)

    def _may_have(self, cwd: str) -> bool:
        """One of the usual folders is there, or flags and settings have named something."""
        if self._roles_of is None:
            return False
        homes = (self._home, Path(cwd, ".aar"))
        is_there = any((home / part).is_dir() for home in homes for part in ("agents", "modes"))
        return is_there or bool(self._agent or self._mode)

    async def choose(self, handle: SessionHandle, role: Literal["agent", "mode"], name: str) -> tuple[str, ...]:
        """Gives remarks. Raises `ConfigError`."""
        return (await self._of(handle).switch(handle, role, name)).remarks

    async def reread(self, handle: SessionHandle) -> tuple[str, ...]:
        """Before a turn: let what was edited hold. Gives what to tell people."""
        roles = self._roles.get(handle.session_id)
        if roles is None:
            return ()
        try:
            change = await roles.refresh(handle)
        except ConfigError as error:
            return (f"{error} The agent and the mode stay as they were.",)
        return change.remarks if change is not None else ()
