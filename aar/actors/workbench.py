"""What one session works with: handed to its actor once, and by it to the turn and the workers of the turn."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from aar.actors.additions import Commands
from aar.actors.budget import Budget
from aar.actors.errand import Delegate
from aar.errors import ExtensionError
from aar.hooks import Hooks
from aar.journal.journal import Journal
from aar.kernel import Ref
from aar.messages.approvals import ApprovalsCommand
from aar.messages.events import Notice, ToolResult, UserMessage
from aar.messages.session import ToolInfo
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.prompt import layers, system_prompt
from aar.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from aar.actors.between import Between
    from aar.actors.injecting import Injecting
    from aar.actors.mcp_tools import SessionServers
    from aar.actors.reading_first import SeenFiles
    from aar.messages.settings import ToolConfig
    from aar.safety.paths import PathGuard
    from aar.safety.sandbox import Sandbox
    from aar.snapshots import Snapshots
    from aar.tools.filtering import Filtered

__all__ = ["Progress", "Workbench", "guarded", "heard"]

A = TypeVar("A")
T = TypeVar("T")

_USUAL_SESSIONS = AgentConfig.model_fields["session_dir"].default  # within Aar's own folder, which is guarded

logger = logging.getLogger(__name__)


@dataclass
class Progress:
    """How far a step has come beyond what is recorded: what a cancel or an error would otherwise lose."""

    text: str = ""
    thoughts: str = ""
    is_streaming: bool = False
    said: dict[str, str] = field(default_factory=dict)  # live output of running tools, by call id
    done: dict[str, ToolResult] = field(default_factory=dict)  # results that wait for those of earlier calls
    is_last: bool = False  # a tool has asked for the end of the turn

    def restart(self) -> None:
        self.text = ""
        self.thoughts = ""
        self.is_streaming = False
        self.said = {}
        self.done = {}
        self.is_last = False


@dataclass(frozen=True)
class Workbench:
    """`base` are the settings the session was opened with; `config` is what is in force at this moment.

    `threads` limits the worker threads of synchronous tools over the whole runtime. `commands` and `prompt_parts` are
    what extensions brought. `delegate` has work done in sessions of their own.
    """

    session_id: str
    cwd: str
    journal: Journal
    base: AgentConfig
    toolbox: ToolRegistry
    approvals: Ref[ApprovalsCommand]
    hooks: Hooks
    threads: trio.CapacityLimiter
    home: Path
    servers: SessionServers
    commands: Commands = field(default_factory=Commands)
    prompt_parts: tuple[str, ...] = ()
    delegate: Delegate | None = None
    between: Between | None = None
    injecting: Injecting | None = None
    _kept: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> AgentConfig:
        """Base settings and everything that was changed since: asked for at each step and each tool call."""
        patch = self.journal.session.patch
        if not patch:
            return self.base
        if self._kept.get("patch") is not patch:
            self._kept["config"] = self.base.patched(patch)
            self._kept["patch"] = patch
        config: AgentConfig = self._kept["config"]
        return config

    @property
    def offered(self) -> ToolRegistry:
        """The tools that the settings in force leave of the toolbox: what the model gets, and may call."""
        tools = self.config.tools
        if not (tools.filters or tools.opt_in or tools.definitions or tools.deferred):
            return self.toolbox
        return self._filtered(tools).offered

    @property
    def deferred(self) -> tuple[str, ...]:
        """The names of tools that the model may load."""
        tools = self.config.tools
        return self._filtered(tools).deferred if tools.deferred else ()

    def _filtered(self, tools: ToolConfig) -> Filtered:
        absent = self._absent() if tools.definitions else None
        key = (tools, self.toolbox.changes, absent, self._loaded() if tools.deferred else ())
        if self._kept.get("filtered_of") != key:
            from aar.tools.filtering import split  # most sessions offer all that they have

            self._kept["filtered"], self._kept["filtered_of"] = split(self.toolbox, tools, absent or (), key[3]), key
        found: Filtered = self._kept["filtered"]
        return found

    def _loaded(self) -> tuple[str, ...]:
        """Patterns of tools that the model has loaded. Of a session that grows, only what is new is looked at."""
        events = self.journal.session.events
        known, patterns = self._kept.get("loaded", (0, ()))
        if len(events) != known:
            from aar.messages.loading import loaded_by

            patterns = (*patterns, *loaded_by(events, known))
            self._kept["loaded"] = (len(events), patterns)
        loaded: tuple[str, ...] = patterns
        return loaded

    def _absent(self) -> frozenset[str]:
        """Tools whose condition does not hold: asked once a turn, and when the settings change."""
        config, turn_id = self.config, self.journal.session.turn_id
        kept = self._kept.get("absent_of")
        if kept is None or kept[0] is not config or kept[1] != turn_id:
            from aar.actors.conditional_tools import absent_tools

            self._kept["absent"], self._kept["absent_of"] = (
                absent_tools(self.journal.session, config),
                (config, turn_id),
            )
        absent: frozenset[str] = self._kept["absent"]
        return absent

    @property
    def budget(self) -> Budget:
        """One for all calls of the session, whoever makes them."""
        if "budget" not in self._kept:
            self._kept["budget"] = Budget(self.journal)
        budget: Budget = self._kept["budget"]
        return budget

    @property
    def sandbox(self) -> Sandbox:
        """Where this session's shell commands run. Raises `ConfigError` for one that cannot be had."""
        config = self.config
        if self._kept.get("sandbox_of") is not config:
            from aar.safety.sandbox import sandbox_for  # with the first call: most of a start is imports

            self._kept["sandbox"] = sandbox_for(config, self.cwd, home=str(self.home))
            self._kept["sandbox_of"] = config
        sandbox: Sandbox = self._kept["sandbox"]
        return sandbox

    @property
    def paths(self) -> PathGuard:
        """What tools may read and write: compiled once per settings, asked at every call."""
        safety = self.config.safety
        if self._kept.get("paths_of") is not safety:
            self._kept["paths"] = self._guard(safety)
            self._kept["paths_of"] = safety
        guard: PathGuard = self._kept["paths"]
        return guard

    def _guard(self, safety: SafetyConfig) -> PathGuard:
        from aar.safety.paths import PathGuard  # with the first call, as above

        return PathGuard(self.cwd, safety, state_dir=str(self.home), private_dir=self._elsewhere)

    @property
    def _elsewhere(self) -> str | None:
        """Where sessions are kept when that is not within Aar's own folder."""
        return self.base.session_dir if self.base.session_dir != _USUAL_SESSIONS else None

    @property
    def seen(self) -> SeenFiles:
        """What the model has read and written, for `safety.read_before_write`."""
        if "seen" not in self._kept:
            from aar.actors.reading_first import SeenFiles  # few settings ask for it

            self._kept["seen"] = SeenFiles(self.journal.session.events)
        seen: SeenFiles = self._kept["seen"]
        return seen

    @property
    def snapshots(self) -> Snapshots:
        """Where the files of the session's folder are kept before its turns."""
        if "snapshots" not in self._kept:
            from aar.snapshots import Snapshots  # few settings ask for it

            self._kept["snapshots"] = Snapshots(self.home, self.cwd, private=self._elsewhere or "")
        snapshots: Snapshots = self._kept["snapshots"]
        return snapshots

    def tools(self, *, everything: bool = False) -> tuple[ToolInfo, ...]:
        """What the model can use now, sorted by name; or all that there is."""
        tools = self.toolbox if everything else self.offered
        return tuple(
            ToolInfo(
                name=tool.name,
                description=tool.description,
                side_effects=tuple(str(effect) for effect in tool.side_effects),
            )
            for tool in sorted(tools.list_tools(), key=lambda tool: tool.name)
        )

    async def system_prompt(self) -> str:
        """The same text for the whole session, unless tools or the settings it is made of change."""
        config = self.config
        key = (
            config.system_prompt,
            config.project_rules_dir,
            config.safety,
            config.prompts,
            config.agents_md,
            tuple(
                (tool.name, tool.prompt_snippet, tuple(tool.prompt_guidelines)) for tool in self.offered.list_tools()
            ),
            self.deferred,
        )
        if self._kept.get("prompt_of") != key:
            text = await trio.to_thread.run_sync(self._read_prompt, config, abandon_on_cancel=True)
            self._kept["prompt"], self._kept["prompt_of"] = text, key
        prompt: str = self._kept["prompt"]
        return prompt

    def _read_prompt(self, config: AgentConfig) -> str:
        def may_read(path: str) -> str | None:
            safety = config.safety.model_copy(update={"allowed_paths": []})  # the user may keep rules elsewhere
            return self._guard(safety).check(path, write=False)

        tools, parts, waiting = self.offered.list_tools(), self.prompt_parts, self.deferred
        found = layers(config, self.cwd, self.home, tools, deferred=waiting, additions=parts, may_read=may_read)
        return system_prompt(found)


async def guarded(bench: Workbench, point: str, hook: Callable[[A], Awaitable[T | None]], subject: A) -> T | None:
    """Run a hook that must not harm the turn: one that fails or takes too long becomes a notice."""
    try:
        with trio.fail_after(bench.hooks.time_limit):
            return await hook(subject)
    except Exception as error:  # hooks are other people's code; they are skipped, not obeyed to the end
        which = f"{'An' if point[0] in 'aeiou' else 'A'} {point} hook"
        logger.warning("%s failed: %r", which, error, exc_info=error)
        what = str(error) if isinstance(error, ExtensionError) else repr(error)
        await bench.journal.append(Notice(kind="hook_failed", text=f"{which} failed: {what}"))
        return None


async def heard(bench: Workbench, said: UserMessage) -> UserMessage:
    """What people say, as hooks let it through. What was really said stays in `data.said`."""
    original = said.content
    for hook in bench.hooks.before_user_message:
        said = await guarded(bench, "before_user_message", hook, said) or said
    if said.content == original:
        return said
    return said.model_copy(update={"data": {**said.data, "said": original}})
