"""Agents and modes of a session: which there are, which is in force, and switching between them.

Files are read each time, so what was edited holds from the next turn on; a file that is wrong changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import trio

from aar.actors.conditional_tools import check_definitions
from aar.config.agents import Entities, Entity, Facts, Library, Switch, Whole, homes_of, load, switched, whole
from aar.config.agents.homes import SourceFile
from aar.config.agents.loading import Part
from aar.config.agents.narrowing import stricter
from aar.config.agents.templates import render
from aar.errors import ConfigError
from aar.messages.loading import LOAD_TOOL, waits
from aar.messages.settings import AgentConfig, SafetyConfig, ToolConfig
from aar.tools.filtering import left_out
from aar.tools.registry import ToolRegistry, ToolSpec

if TYPE_CHECKING:
    from aar.handle import SessionHandle

__all__ = [
    "NOBODY",
    "Change",
    "Places",
    "Role",
    "Roles",
    "content_of",
    "filled_command",
    "offered_tools",
    "read_library",
    "resolve",
    "roles_of_session",
    "tell_of_skills",
    "trust_role",
    "deferred_tools",
    "why_left_out",
]

Role = Literal["agent", "mode"]
NOBODY = "none"  # what to say to be without an agent or a mode
MOST_FALLBACKS = 8
SKILL_TOOL = "skill"
PARTS: tuple[Part, ...] = ("agents", "modes")


@dataclass(frozen=True)
class Places:
    """Where agents and modes are looked for, and what flags add to them; see `Facts`."""

    home: Path
    cwd: str
    more: Sequence[Path] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    fixed: Collection[str] = ()


class Change(NamedTuple):
    """The settings in force after a switch, and what people should know of it."""

    config: AgentConfig
    remarks: tuple[str, ...] = ()


# --- reading, all of it blocking --------------------------------------------------------------


def read_library(places: Places, parts: Collection[Part]) -> Library:
    """What the homes have of these parts. Raises `ConfigError`."""
    from aar.extensions.trust import TrustFile

    trust = TrustFile(places.home)
    return load(
        parts, homes_of(places.home, places.cwd, places.more), lambda file, digest: trust.covers(_found(file), digest)
    )


def resolve(plain: AgentConfig, places: Places, agent: str, mode: str | None, tools: Sequence[str] = ()) -> Switch:
    """What this agent and mode make of the settings; without a mode, the agent's own. Raises `ConfigError`."""
    return _resolved(read_library(places, PARTS), plain, places, agent, mode, tools)


def _resolved(
    library: Library, plain: AgentConfig, places: Places, agent: str, mode: str | None, tools: Sequence[str]
) -> Switch:
    actor = whole(library.agents, agent) if agent else None
    style = _mode_of(library, actor, mode)

    def offered(config: ToolConfig) -> list[str]:
        return [name for name in tools if left_out(name, config) is None]

    facts = Facts(places.cwd, offered, places.overrides, places.variables, places.fixed)
    fallbacks = []
    if actor is not None and not actor.is_foreign:
        for name in actor.said.get("fallback", ())[:MOST_FALLBACKS]:
            other = whole(library.agents, name)
            fallbacks.append((other.name, switched(plain, other, style, facts)))
    switch = switched(plain, actor, style, facts, fallbacks)
    check_definitions(switch.config)
    return switch._replace(remarks=(*library.remarks, *switch.remarks))


def _mode_of(library: Library, agent: Whole | None, mode: str | None) -> Whole | None:
    """A mode that a project chooses through its agent is held to the same as the agent."""
    if mode is not None:
        return whole(library.modes, mode) if mode else None
    own = agent.said.get("mode") if agent is not None else None
    if not own or agent is None:
        return None
    chosen = whole(library.modes, own)
    return chosen._replace(is_foreign=chosen.is_foreign or agent.is_foreign)


def content_of(entity: Entity) -> tuple[str, str]:
    """The text of a file as it is now, and its SHA-256. Raises `ConfigError`."""
    from hashlib import sha256

    try:
        text = entity.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{entity.path}: cannot be read ({error}).") from error
    return text, sha256(text.encode()).hexdigest()


def trust_role(places: Places, entity: Entity, digest: str) -> None:
    """From now on this file of a project, with this content, counts as the user's own. Raises `ConfigError`."""
    from aar.extensions.trust import TrustFile

    file = SourceFile(entity.name, entity.path, "", Path(places.cwd))
    TrustFile(places.home).add(_found(file), digest)


def _found(file: SourceFile) -> Any:
    from aar.extensions.finding import Found

    return Found(file.name, "project", str(file.path), file.project)


def filled_command(known: Entities, name: str, rest: str, cwd: str) -> str:
    """The text of a command with `{{ arguments }}` filled in; where it does not ask for them they come at the end.

    A file of a project that is not trusted stands as it is. Raises `ConfigError`.
    """
    command = whole(known, name)
    variables = {"arguments": rest, "words": _words(rest), "workspace": cwd}
    texts, is_used = [], False
    for one in command.texts:
        is_used = is_used or (not command.is_foreign and any(key in one.text for key in ("arguments", "words")))
        texts.append(one.text if command.is_foreign else render(one.text, variables, one.source, one.line))
    if rest and not is_used:
        texts.append(rest)
    return "\n\n".join(texts)


def _words(text: str) -> list[str]:
    """As a shell splits them; with quotes that are not closed, at the blanks."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


# --- tools ------------------------------------------------------------------------------------


async def tell_of_skills(config: AgentConfig, toolbox: ToolRegistry, home: Path, cwd: str) -> list[str]:
    """Make the tool `skill` what it is in a session of this folder. Gives what people should know of skills."""
    if SKILL_TOOL not in toolbox:
        return []
    from aar.actors.skills import find_skills

    return await find_skills(toolbox, home, cwd, config.safety)


def offered_tools(config: AgentConfig, toolbox: ToolRegistry) -> list[ToolSpec]:
    """Those of the tools that these settings leave to a model."""
    return [spec for spec in toolbox.list_tools() if why_left_out(config, spec.name) is None]


def why_left_out(config: AgentConfig, tool_name: str) -> str | None:
    """Which filter keeps a tool from the model, and why; `None` when it gets it."""
    return left_out(tool_name, config.tools) or _why_deferred(config, tool_name)


def deferred_tools(config: AgentConfig, toolbox: ToolRegistry) -> list[str]:
    """The names of those that a model may load."""
    names = (name for name in sorted(toolbox.names()) if left_out(name, config.tools) is None)
    return [name for name in names if _why_deferred(config, name) is not None]


def _why_deferred(config: AgentConfig, tool_name: str) -> str | None:
    can_load = left_out(LOAD_TOOL, config.tools) is None
    return "deferred: load_tools loads it" if can_load and waits(tool_name, config.tools.deferred, ()) else None


# --- one session ------------------------------------------------------------------------------


class Roles:
    """The agent and mode of one session. `plain` are the settings that it was opened with, without either."""

    def __init__(self, plain: AgentConfig, places: Places) -> None:
        self.plain = plain
        self.places = places
        self._sent: Mapping[str, Any] | None = None  # the change that holds now, if it is one of ours
        self._fingerprint = ""

    async def library(self) -> Library:
        """All agents and modes there are. Raises `ConfigError`."""
        return await trio.to_thread.run_sync(read_library, self.places, PARTS, abandon_on_cancel=True)

    @staticmethod
    def in_force(handle: SessionHandle) -> tuple[str, str]:
        """The names of agent and mode; empty where there is none."""
        told = handle.metadata
        return str(told.get("agent", "")), str(told.get("mode", ""))

    async def begin(self, handle: SessionHandle, agent: str, mode: str | None = None) -> Change:
        """Put an agent and a mode in force; without a mode, the agent's own.

        Raises `ConfigError`; then nothing changed.
        """
        return await self._switch(handle, agent, mode, is_whole=True)

    async def switch(self, handle: SessionHandle, role: Role, name: str) -> Change:
        """Another agent, with all that it brings, or another mode alone; see `begin`. `none` is without one.

        What was changed in the session by other means, such as its model, stays when the mode changes.
        """
        agent, mode = self.in_force(handle)
        name = "" if name.casefold() == NOBODY else name
        if role == "mode":
            return await self._switch(handle, agent, name)
        library = await self.library()
        own = whole(library.agents, name).said.get("mode") if name else None
        return await self._switch(handle, name, None if own else mode, is_whole=True)

    async def refresh(self, handle: SessionHandle) -> Change | None:
        """Let what was edited hold. Gives `None` when nothing was. Raises `ConfigError`; then all is as it was."""
        agent, mode = self.in_force(handle)
        if not agent and not mode:
            return None
        library = await self.library()
        if library.fingerprint == self._fingerprint:
            return None
        self._fingerprint = library.fingerprint  # what is wrong is said once
        return await self._switch(handle, agent, mode)

    async def _switch(self, handle: SessionHandle, agent: str, mode: str | None, *, is_whole: bool = False) -> Change:
        """With `is_whole` everything is set anew; else only what is not as it was said before."""
        tools = [tool.name for tool in await handle.tools(everything=True)]
        library, before = await self.library(), self.in_force(handle)

        def work() -> tuple[Switch, Mapping[str, Any]]:
            switch = _resolved(library, self.plain, self.places, agent, mode, tools)
            return switch, {} if is_whole else self._said_before(library, before, tools)

        switch, said = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        patch = {key: value for key, value in switch.patch.items() if is_whole or key not in said or value != said[key]}
        if not is_whole and "safety" in patch and _is_foreign(library, switch.config):
            patch["safety"] = self._no_looser(handle, switch.config.safety)
        config = await handle.configure({**patch, "agent": switch.config.agent, "mode": switch.config.mode})
        self._sent, self._fingerprint = switch.patch, library.fingerprint
        return Change(config, switch.remarks)

    def _no_looser(self, handle: SessionHandle, wanted: SafetyConfig) -> dict[str, Any]:
        """The rules of a project's file under those in force, some of which may have been set in the session."""
        now = self.plain.patched(handle.snapshot().patch).safety
        try:
            return stricter(now, wanted, handle.cwd).model_dump(mode="json")
        except ConfigError:  # its paths are others
            return now.model_dump(mode="json")

    def _said_before(self, library: Library, names: tuple[str, str], tools: Sequence[str]) -> Mapping[str, Any]:
        """The change that holds now: what we have sent, or what would have been for an agent that came otherwise."""
        sent = self._sent
        if sent is not None and (sent.get("agent") or "", sent.get("mode") or "") == names:
            return sent
        try:
            return _resolved(library, self.plain, self.places, *names, tools).patch
        except ConfigError:
            return {}


def _is_foreign(library: Library, config: AgentConfig) -> bool:
    """Whether agent or mode come from a project that is not trusted."""
    agent = bool(config.agent) and whole(library.agents, config.agent).is_foreign
    return agent or (bool(config.mode) and whole(library.modes, config.mode).is_foreign)


async def roles_of_session(roles: Roles, handle: SessionHandle, role: Role) -> tuple[tuple[str, str, str], ...]:
    """A star for the one in force, its name, what it is for: of all that are not hidden. Raises `ConfigError`.

    Behind them come those that cannot be used, with the reason in place of what they are for.
    """
    library = await roles.library()
    found = library.agents if role == "agent" else library.modes
    usable, problems = await trio.to_thread.run_sync(found.usable, abandon_on_cancel=True)
    agent, mode = roles.in_force(handle)
    current = (agent if role == "agent" else mode).casefold()
    rows = [("*" if one.name.casefold() == current else " ", one.name, one.description) for one in usable]
    return (*rows, *(("!", "", problem) for problem in problems))
