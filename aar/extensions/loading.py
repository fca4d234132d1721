"""Loading extensions: each content once in a runtime, within a time, and never at the cost of another."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import trio

from aar.config.extensions import GROUP, is_wanted
from aar.errors import AarError, ExtensionError
from aar.extensions.api import API_VERSION, Contributions, ExtensionAPI
from aar.extensions.bus import EventBus
from aar.extensions.calling import call_within
from aar.extensions.finding import BUILTIN, Found, find_extensions, in_force
from aar.extensions.importing import SourceModules
from aar.extensions.sources import Source, read_source
from aar.extensions.trust import TrustFile

__all__ = ["Loaded", "Loader", "Trusted"]

LOAD_TIMEOUT = 10.0  # seconds for importing, and once more for `register`
LOOKS = 4  # folders that are read at a time
THREADS = 8  # synchronous functions of one extension that run at once

logger = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """An extension after its `register`. `error` says why there is none of what it would have brought."""

    found: Found
    api: Contributions | None
    error: str
    bus: EventBus
    logger: logging.Logger
    limiter: trio.CapacityLimiter


class Trusted(NamedTuple):
    """What may be loaded, with the files that were looked at, and sentences about what may not."""

    extensions: list[tuple[Found, Source | None]]
    problems: list[str]


class Loader:
    """The extensions of one runtime. `start` runs something beside it, under a name, until the runtime ends."""

    def __init__(self, home: Path, start: Callable[[str, Callable[[], Awaitable[None]]], None]) -> None:
        self._home = home
        self._start = start
        self._loaded: dict[tuple[str, str, str], Loaded] = {}
        self._locks: dict[tuple[str, str, str], trio.Lock] = {}
        self._numbers = count(1)
        self._looks = trio.CapacityLimiter(LOOKS)
        self._modules: list[SourceModules] = []

    def close(self) -> None:
        """Forget all modules."""
        for modules in self._modules:
            modules.close()

    async def load(
        self, cwd: str, *, builtin: Sequence[str] = (), include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
    ) -> tuple[list[Loaded], list[str]]:
        """Those that are in force in this folder, in the order of their tiers, and what people should be told.

        `builtin` are names of shipped extensions that are wanted, `include` and `exclude` patterns of names.
        """
        look = partial(self._trusted, cwd, builtin, include, exclude)
        trusted = await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._looks)
        loaded: dict[int, Loaded] = {}

        async def load(place: int, found: Found, source: Source | None) -> None:
            loaded[place] = await self.load_one(found, source)

        async with trio.open_nursery() as nursery:
            for place, (found, source) in enumerate(trusted.extensions):
                nursery.start_soon(load, place, found, source)
        done = [loaded[place] for place in sorted(loaded)]
        failed = [f"Extension {one.found.name!r} could not be loaded: {one.error}" for one in done if one.error]
        return [one for one in done if one.api is not None], [*trusted.problems, *failed]

    def _trusted(self, cwd: str, builtin: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> Trusted:
        """An extension that may not run takes nobody's place: a project must not switch off what its user has."""
        sources: dict[Found, Source | None] = {}
        untrusted: list[str] = []
        problems = [_no_such(name) for name in builtin if name not in BUILTIN]
        for found in find_extensions(self._home, cwd, builtin=builtin):
            if not is_wanted(found.name, include, exclude):
                continue
            try:
                source = _source_of(found)
                if source is not None and not TrustFile(self._home).covers(found, source.digest):
                    untrusted.append(found.name)
                else:
                    sources[found] = source
            except AarError as error:
                problems.append(f"Extension {found.name!r} was not loaded: {error}")
        if untrusted:
            problems.insert(0, _untrusted(untrusted))
        return Trusted([(found, sources[found]) for found in in_force(sources)], problems)

    async def load_one(self, found: Found, source: Source | None) -> Loaded:
        """Import it and call its `register`, unless that was done before."""
        key = (found.name, found.path, source.digest if source is not None else "")
        async with self._locks.setdefault(key, trio.Lock()):
            if key not in self._loaded:
                self._loaded[key] = await self._load(found, source)
            return self._loaded[key]

    async def _load(self, found: Found, source: Source | None) -> Loaded:
        own = logging.getLogger(f"aar.ext.{found.name}")
        limiter = trio.CapacityLimiter(THREADS)
        bus = EventBus(found.name, own, limiter)
        api = ExtensionAPI(found.name, own, bus)
        loaded = Loaded(found, None, "", bus, own, limiter)
        try:
            find = partial(self._register_of, found, source)
            register = await call_within(LOAD_TIMEOUT, "its module", find, limiter=limiter)
            await call_within(LOAD_TIMEOUT, "register(api)", register, api, limiter=limiter)
        except ExtensionError as error:
            api.close()
            logger.info(
                "extension %s could not be loaded: %s", found.name, error, exc_info=error.__cause__
            )  # it is told, too
            return loaded._replace(error=str(error))
        self._start(f"extension:{next(self._numbers)}:{found.name}", bus.run)
        return loaded._replace(api=api.close())

    def _register_of(self, found: Found, source: Source | None) -> Callable[..., Any]:
        """In a thread."""
        if source is None:
            register = EntryPoint(found.name, found.path, GROUP).load()
            module: Any = sys.modules.get(getattr(register, "__module__", ""))
        else:
            modules = SourceModules(found.name, source)
            self._modules.append(modules)
            module = modules.load()
            register = getattr(module, "register", None)
        if not callable(register):
            raise ExtensionError("there is no function register(api) in it")
        _check_version(getattr(module, "AAR_API", API_VERSION))
        found_one: Callable[..., Any] = register
        return found_one


def _check_version(version: object) -> None:
    if version != API_VERSION:
        raise ExtensionError(
            f"it is written for version {version!r} of the API for extensions, and this Aar has version {API_VERSION}. "
            "Update the one that is older"
        )


def _source_of(found: Found) -> Source | None:
    return None if found.is_installed else read_source(Path(found.path), project=found.project)


def _no_such(name: str) -> str:
    return f"`extensions.builtin` names {name!r}, which does not come with Aar. There is: {', '.join(sorted(BUILTIN))}."


def _untrusted(names: Sequence[str]) -> str:
    listed = ", ".join(names)
    if len(names) == 1:
        return (
            f"The extension {listed} of this project was not loaded: it is code, and nobody has trusted it yet. "
            f"Read it, then run `aar extensions trust {listed}` here."
        )
    return (
        f"{len(names)} extensions of this project were not loaded: they are code, and nobody has trusted them yet. "
        f"Read them ({listed}), then run `aar extensions trust NAME` here."
    )
