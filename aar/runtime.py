"""The tree that runs: approvals, sessions, model and MCP servers, and whoever uses them, in one scope.

async with open_runtime(config) as runtime:
    session = await runtime.sessions.open("/path/to/project")
    await session.prompt("What is in this folder?")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from aar.actors.additions import Additions, Observer, add_tools
from aar.actors.approvals import approvals
from aar.actors.errand import Errand
from aar.actors.holding import Shared
from aar.actors.mcp_servers import McpServers
from aar.actors.providers import Providers
from aar.actors.sessions import sessions
from aar.client import Sessions
from aar.config import aar_home
from aar.config.extensions import may_have_extensions
from aar.errors import ConfigError, InvalidSetting, ProviderError
from aar.hooks import Hooks
from aar.journal.journal import Journal, Journals
from aar.journal.state import state_after
from aar.journal.store import Store, checked_id
from aar.kernel import Child, ChildStatistics, Ref, Registry, Restart, Supervisor, open_supervisor
from aar.kernel.alone import errors_alone
from aar.messages.approvals import ApprovalsCommand
from aar.messages.mcp import McpServer
from aar.messages.session import SessionCommand, SessionInfo
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.messages.tools import ToolOutcome
from aar.processes.guard import open_guard
from aar.providers import check_provider_name, open_provider
from aar.providers.base import Provider
from aar.tools import builtin_tools
from aar.tools.registry import ToolRegistry, ToolSpec

if TYPE_CHECKING:
    from aar.mcp.files import FoundServers

if TYPE_CHECKING:
    from aar.extensions.loading import Loader

__all__ = [
    "Brought",
    "Provider",
    "Runtime",
    "Store",
    "ToolRegistry",
    "brought_by_extensions",
    "check_function",
    "check_given",
    "check_provider",
    "checked_id",
    "editor_mcp_servers",
    "mcp_servers_of_file",
    "open_runtime",
    "reading_rule",
    "session_store",
    "state_after",
    "toolbox_for",
]

STOP_GRACE = 20.0  # seconds in which all sessions together close their turns
SHARED_AFTER = 0.5  # seconds a session has been open before others can attach to it
EXTENSION_LOOKS = 4  # looks for extensions at a time; a folder that does not answer keeps its place until it does
NO_TRIO = (
    "Aar runs on Trio, and no trio.run() is around this call. From asyncio: `await asyncio.to_thread(agent.run_sync, "
    "prompt)`. From a program without an event loop: `agent.run_sync(prompt)`, or `trio.run(main)`"
)
TOOL_THREADS = 40  # synchronous tools that may run at once; an abandoned one keeps its place until it ends


class Runtime(NamedTuple):
    """`sessions` is the way in. `supervisor` runs further services next to Aar's own; `registry` finds them."""

    sessions: Sessions
    supervisor: Supervisor
    registry: Registry
    config: AgentConfig

    def statistics(self) -> list[ChildStatistics]:
        """One entry for each top-level service."""
        return self.supervisor.statistics()

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` once beside Aar's own services, until it is done or the runtime ends.

        An error of it is logged and ends nothing else. `name` must not be taken.
        """
        self.supervisor.start(Child(name, lambda _: work(), restart=Restart.TEMPORARY))


def _memory_store() -> Store:
    from aar.journal.memory import MemoryStore  # programs that keep their sessions do without

    return MemoryStore()


@asynccontextmanager
async def open_runtime(
    config: AgentConfig | None = None,
    *,
    provider: Provider | None = None,
    tools: ToolRegistry | None = None,
    store: Store | None = None,
    hooks: Hooks | None = None,
    home: Path | None = None,
    extensions: bool = False,
    share: bool = False,
    build_provider: Callable[[ProviderConfig], Provider] = open_provider,
) -> AsyncIterator[Runtime]:
    """Everything needed to run sessions, until the block is left; nothing outlives it.

    `provider` is used instead of one built from the settings, and stays the caller's to close. `tools` are added to
    the built-in ones that the settings enable. Without a `store` sessions live in memory. `home` is the user's
    folder (`AAR_HOME` or `~/.aar`). With `extensions` sessions get those of installed packages, of the user and, where
    they are trusted, of the project, unless the settings say no. With `share` other processes of this user can attach
    to its sessions. An error of the block's own leaves it as it is; one that no service could contain leaves it in an
    exception group.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(NO_TRIO)
    check_given(config, provider, tools)
    config, home = config or AgentConfig(), home or aar_home()
    async with _open_ground(build_provider) as ground:
        supervisor = ground.supervisor
        with _Extending(home, supervisor) if extensions else nullcontext() as extending:
            desk = supervisor.start(Child("approvals", approvals, restart=Restart.PERMANENT, capacity=1024))
            shared = Shared(
                config=config,
                store=store or _memory_store(),
                journals=Journals(),
                registry=ground.registry,
                providers=ground.providers,
                mcp_servers=ground.mcp_servers,
                tools=lambda settings: toolbox_for(settings, tools),
                approvals=desk,
                hooks=hooks or Hooks(),
                threads=trio.CapacityLimiter(TOOL_THREADS),
                home=home,
                provider=provider,
                extend=extending.extend if extending is not None else None,
                delegate=lambda errand: _done(opened, home, errand),
                share=partial(_shared_later, home, desk) if share and config.attachable else None,
            )
            async with _open_sessions(shared, supervisor) as opened:
                yield Runtime(opened, supervisor, ground.registry, config)


@asynccontextmanager
async def _open_sessions(shared: Shared, supervisor: Supervisor) -> AsyncIterator[Sessions]:
    house = supervisor.start(Child("sessions", sessions(shared), restart=Restart.PERMANENT, capacity=1024))
    try:
        yield Sessions(house, shared.approvals, shared.registry, shared.journals)
    finally:
        with trio.CancelScope(shield=True):
            await supervisor.stop("sessions", grace=STOP_GRACE)  # first: no turn shall lose its provider


async def _done(sessions: Sessions, home: Path, errand: Errand) -> ToolOutcome:
    from aar.delegating import run_errand  # few sessions give errands

    return await run_errand(sessions, home, errand)


def check_given(config: object, provider: object, tools: object) -> None:
    """Raises `TypeError` for settings, a model or tools of a wrong kind, before a session stumbles on them.

    It shows none of them, for there may be keys in them.
    """
    if config is not None and not isinstance(config, AgentConfig):
        raise TypeError(f"config must be an AgentConfig(...), not {_kind(config)}")
    if isinstance(provider, str | dict | ProviderConfig):
        raise TypeError(
            f"provider must be an open provider, not {_kind(provider)}: to choose one by its settings, say "
            'AgentConfig(provider=ProviderConfig(name="anthropic"))'
        )
    if tools is not None and not isinstance(tools, ToolRegistry):
        raise TypeError(f"tools must come in a ToolRegistry, not {_kind(tools)}")


def _kind(given: object) -> str:
    return f"something of type {type(given).__name__}"


def check_function(name: str, given: object) -> None:
    """Raises `TypeError`."""
    if given is not None and not callable(given):
        raise TypeError(f"{name} must be a function, not {given!r}")


class _Ground(NamedTuple):
    """What sessions stand on."""

    supervisor: Supervisor
    registry: Registry
    providers: Providers
    mcp_servers: McpServers


@asynccontextmanager
async def _open_ground(build_provider: Callable[[ProviderConfig], Provider]) -> AsyncIterator[_Ground]:
    registry = Registry()
    with errors_alone():
        async with open_guard(), trio.open_nursery() as nursery, open_supervisor(registry=registry) as supervisor:
            providers = Providers(supervisor, nursery, build_provider)
            mcp_servers = McpServers(supervisor, nursery)
            try:
                yield _Ground(supervisor, registry, providers, mcp_servers)
            finally:
                with trio.CancelScope(shield=True):
                    await mcp_servers.close_all()
                    await providers.close_all()


def _shared_later(
    home: Path, desk: Ref[ApprovalsCommand], info: SessionInfo, journal: Journal, session: Ref[SessionCommand]
) -> Observer:
    """What shares a session, once it has been open for a moment: the first request of a session waits for nothing."""

    async def follow() -> None:
        with trio.move_on_after(SHARED_AFTER):
            await journal.closed.wait()
            return
        from aar.sharing.owner import Shared, share

        await share(home, Shared(info, journal, session, desk))

    return Observer(f"share:{info.session_id}", follow)


class _Extending:
    """What runs extensions is imported with the first one that there may be: most users have none."""

    def __init__(self, home: Path, supervisor: Supervisor) -> None:
        self._home = home
        self._supervisor = supervisor
        self._loader: Loader | None = None
        self._looks = trio.CapacityLimiter(EXTENSION_LOOKS)

    def __enter__(self) -> _Extending:
        return self

    def __exit__(self, *_: object) -> None:
        if self._loader is not None:
            self._loader.close()

    async def extend(self, journal: Journal, config: AgentConfig) -> Additions:
        cwd = str(journal.session.metadata["cwd"])
        if not config.extensions.enabled:
            return Additions()
        look = partial(may_have_extensions, self._home, cwd)
        wanted = config.extensions.builtin
        if not wanted and not await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._looks):
            return Additions()
        from aar.extensions.binding import additions_of
        from aar.extensions.loading import Loader

        if self._loader is None:
            self._loader = Loader(self._home, self._start)
        told = config.extensions
        loaded, problems = await self._loader.load(cwd, builtin=wanted, include=told.include, exclude=told.exclude)
        return additions_of(loaded, journal, config, problems)

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._supervisor.start(Child(name, lambda _: work(), restart=Restart.TEMPORARY))


class Brought(NamedTuple):
    """What extensions add to a session's tools and system prompt, and what people should know of them."""

    tools: tuple[ToolSpec, ...] = ()
    prompt: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def brought_by_extensions(config: AgentConfig, toolbox: ToolRegistry, *, home: Path, cwd: str) -> Brought:
    """What a session in this folder would get from extensions. Those that may run are loaded for it, and let go."""
    if not config.extensions.enabled:
        return Brought()
    wanted = config.extensions.builtin
    if not wanted and not await trio.to_thread.run_sync(may_have_extensions, home, cwd, abandon_on_cancel=True):
        return Brought()
    from aar.extensions.looking import load_extensions

    told = config.extensions
    loaded, problems = await load_extensions(home, cwd, builtin=wanted, include=told.include, exclude=told.exclude)
    found = [one.api for one in loaded if one.api is not None]
    tools = {spec.name: spec for one in found for spec in one.tools}
    refused = add_tools(toolbox, tools.values(), config)
    kept = tuple(spec for spec in tools.values() if toolbox.get(spec.name) is spec)
    return Brought(kept, tuple(text for one in found for text in one.prompt), (*problems, *refused))


def toolbox_for(config: AgentConfig, extra: ToolRegistry | None) -> ToolRegistry:
    """The enabled built-in tools; what the application brought comes on top and is never pruned."""
    toolbox = ToolRegistry()
    if config.tools.definitions:
        from aar.actors.conditional_tools import check_definitions

        check_definitions(config)
    for spec in builtin_tools(config.tools):
        toolbox.add(spec)
    for spec in extra.list_tools() if extra is not None else ():
        toolbox.add(spec)
    return toolbox


# --- what transports need before or without a runtime -----------------------------------------


def session_store(config: AgentConfig, *, home: Path, cwd: str) -> Store:
    """The store of `session_dir`. A relative one starts at `cwd`; the default one is `sessions` in `home`."""
    from aar.journal.jsonl import JsonlStore

    if config.session_dir == AgentConfig().session_dir:
        return JsonlStore(home / "sessions")
    return JsonlStore(Path(cwd, Path(config.session_dir).expanduser()))


def check_provider(config: AgentConfig) -> None:
    """Raises `ConfigError` when the provider cannot work with its settings: before a session is begun with it.

    What may change until the first question, such as a package that is not installed, is no mistake in the settings.
    """
    try:
        fallbacks = config.resolve_fallbacks()
    except ValueError as error:
        raise ConfigError(f"fallback_providers: {error}") from error
    for provider in (config.resolve_provider(), *fallbacks.values()):
        _check_name(provider.name, config)
        with suppress(ProviderError):
            open_provider(provider)


def _check_name(name: str, config: AgentConfig) -> None:
    """A name that no provider has may be meant for a profile, so the profiles are named as well."""
    try:
        check_provider_name(name)
    except InvalidSetting as error:
        profiles = f". Profiles: {', '.join(sorted(config.providers))}" if config.providers else ""
        raise InvalidSetting(f"{error}{profiles}") from error


def mcp_servers_of_file(file: Path | None, *, home: Path) -> FoundServers:
    """The MCP servers of this file, else those of `mcp_servers.json` in `home`, which need not be there.

    Beside them a sentence for each mistake that costs one server or one field. Raises `ConfigError` when nothing in the
    file can be used, and `MissingMcp` when the package is not installed and the file was asked for.
    """
    from aar.mcp.files import FoundServers, default_file, read_servers
    from aar.mcp.package import require_package

    if file is None:
        return read_servers(default_file(home)) if default_file(home).exists() else FoundServers()
    found = read_servers(file)
    if found.servers:
        require_package()
    return found


def editor_mcp_servers(entries: Iterable[Any]) -> tuple[tuple[McpServer, ...], tuple[str, ...]]:
    """MCP servers as an editor names them, and a sentence for each entry that cannot be used.

    An entry is `{name, command, args, env}` or `{type: "http", name, url, headers}`; `env` and `headers` are lists of
    `{name, value}` or objects. Names that come twice get a number.
    """
    from aar.mcp.entries import editor_servers

    return editor_servers(entries)


def reading_rule(config: AgentConfig, cwd: str, *, is_typed: bool = True) -> Callable[[str], str | None]:
    """Why a file may not be read, or `None`: for files that people attach.

    What a person has typed may name any file that `denied_paths` and Aar's own secrets leave; a text that came from
    elsewhere is held to `allowed_paths` too.
    """
    from aar.safety.paths import PathGuard

    guard = PathGuard(cwd, config.safety.model_copy(update={"allowed_paths": []}) if is_typed else config.safety)
    return lambda path: guard.check(path, write=False)
