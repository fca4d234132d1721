"""Files are read before they are changed, where the settings say so.

What the model has seen of a file is its version at that moment. It stands in the results of calls, so it is known again
when a session is resumed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import trio

from aar.errors import ToolError
from aar.messages.events import Event, ToolCall, ToolResult
from aar.messages.tools import SideEffect, ToolOutcome
from aar.safety.arguments import paths_of
from aar.safety.paths import PathGuard
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread

__all__ = ["SEEN", "SeenFiles", "require_seen", "run_seeing"]

SEEN = "seen"
"""The key in the `data` of a result: versions by absolute path, `None` for a file that is gone."""

READING_TOOL = "read_file"
MAX_HASHED_BYTES = 32 * 1024 * 1024  # of a larger file size and time have to do


class _Version(NamedTuple):
    mtime_ns: int
    size: int
    digest: str = ""


class SeenFiles:
    """The files that the model has read or written."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._changing = trio.Lock()
        self._changer = ""  # the call that holds it
        self._versions: dict[str, _Version | None] = {}
        self._new: dict[str, dict[str, _Version | None]] = {}
        for event in events:
            if isinstance(event, ToolResult) and isinstance(versions := event.data.get(SEEN), dict):
                self._versions.update({path: _read_back(one) for path, one in versions.items()})

    @asynccontextmanager
    async def alone(self, call_id: str, outer_id: str) -> AsyncIterator[None]:
        """Inside this block nobody else changes files, but for calls inside of this one, which waits for them."""
        if outer_id and outer_id == self._changer:
            yield
            return
        async with self._changing:
            self._changer = call_id
            try:
                yield
            finally:
                self._changer = ""

    def note(self, call_id: str, versions: Mapping[str, _Version | None]) -> None:
        self._versions.update(versions)
        self._new.setdefault(call_id, {}).update(versions)

    def taken(self, call_id: str) -> dict[str, Any]:
        """What belongs into the `data` of this call's result; asked once."""
        found = self._new.pop(call_id, None)
        return {SEEN: {path: one and list(one) for path, one in found.items()}} if found else {}

    def require(self, guard: PathGuard, paths: Iterable[str]) -> None:
        """Raise `ToolError` when one of the files is there and was not read, or is not what it was. Reads the disk."""
        for path in paths:
            name = guard.resolve(path)
            now = _status(name)
            known = self._versions.get(name)
            if now is None:
                continue
            if known is None:
                raise ToolError("blocked", f"{name} was not read in this session: read it before you change it")
            if now != known[:2] and not (known.digest and _version(guard, path)[1:] == known[1:]):
                raise ToolError("blocked", f"{name} has changed since it was read: read it again before you change it")


def _read_back(said: Any) -> _Version | None:
    """Read with care: it may come from a file that somebody has edited. What makes no sense was never seen."""
    match said:
        case [int(mtime_ns), int(size), str(digest)]:
            return _Version(mtime_ns, size, digest)
    return None


def _status(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _version(guard: PathGuard, path: str) -> _Version:
    """Reads the file. Raises what opening it raises."""
    with guard.open_read(path) as file:
        status = os.fstat(file.fileno())
        data = file.read() if status.st_size <= MAX_HASHED_BYTES else None
    digest = "" if data is None else hashlib.sha256(data).hexdigest()
    return _Version(status.st_mtime_ns, status.st_size, digest)


def _versions(guard: PathGuard, paths: Iterable[str]) -> dict[str, _Version | None]:
    found: dict[str, _Version | None] = {}
    for path in paths:
        try:
            found[guard.resolve(path)] = _version(guard, path)
        except (OSError, ToolError):
            found[guard.resolve(path)] = None
    return found


async def require_seen(seen: SeenFiles, spec: ToolSpec, call: ToolCall, outer_id: str, guard: PathGuard) -> None:
    """Raise `ToolError` when a call would change files that the model has not seen as they are.

    `outer_id` names the call that it is inside of, if it is.
    """
    if SideEffect.WRITE in spec.side_effects and (paths := paths_of(call.arguments)):
        async with seen.alone(call.tool_call_id, outer_id):
            await in_thread(lambda: seen.require(guard, paths))


async def run_seeing(
    seen: SeenFiles,
    spec: ToolSpec,
    call: ToolCall,
    context: ToolContext,
    run: Callable[[], Awaitable[Any]],
) -> Any:
    """Run a tool and note what it lets the model see. Raises `ToolError` instead when it would change unseen files."""
    paths, guard = paths_of(call.arguments), context.paths
    if spec.name == READING_TOOL:
        versions = await in_thread(lambda: _versions(guard, paths))  # before: a change meanwhile is one since then
        given = await run()
        _note(seen, context, given, versions)
        return given
    if SideEffect.WRITE not in spec.side_effects or not paths:
        return await run()
    outer_id = context.tool_call_id if context.tool_call_id != call.tool_call_id else ""
    async with seen.alone(call.tool_call_id, outer_id):  # until what was changed is known: it is nobody else's change
        await in_thread(lambda: seen.require(guard, paths))
        given = await run()
        _note(seen, context, given, await in_thread(lambda: _versions(guard, paths)))
        return given


def _note(seen: SeenFiles, context: ToolContext, given: Any, versions: Mapping[str, _Version | None]) -> None:
    if not (isinstance(given, ToolOutcome) and given.is_error):
        seen.note(context.tool_call_id, versions)
