"""`aar sessions`: what is stored, without taking any session from whoever uses it."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from aar.display import plain, plain_json
from aar.errors import InvalidMessage, SessionNotFound, StoreUnavailable
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    ReasoningBlock,
    SessionEvent,
    ToolCall,
    ToolResult,
    UserMessage,
)
from aar.runtime import Runtime, open_runtime, session_store
from aar.sharing.places import live_sessions
from aar.transports.cli.listing import heading, line
from aar.transports.program.exits import DONE, complain, run_to_code
from aar.transports.program.flags import LogFlags
from aar.transports.program.home import home_folder
from aar.transports.program.ids import Pages, is_known, whole_id
from aar.transports.program.screen import Screen
from aar.transports.program.sentences import cut, for_people
from aar.transports.program.settings import here, loaded_settings

__all__ = ["delete", "export", "fork", "listing", "rename", "show"]

PAGE = 500


def listing(*, flags: LogFlags) -> int:
    """List the stored sessions, newest first."""

    async def work(store: Any, screen: Screen) -> int:
        cursor, is_empty = "", True
        while is_empty or cursor:
            page, cursor = await store.list(limit=PAGE, cursor=cursor)
            if not page:
                break
            live = live_sessions(home_folder(), [entry.session_id for entry in page])
            lines = [line(entry, screen, is_live=entry.session_id in live) for entry in page]
            await screen.say((heading(screen) if is_empty else "") + "".join(lines))
            is_empty = False
        if is_empty:
            await screen.say("No saved sessions.\n")
        return DONE

    return _with_store(flags, work)


def show(session_id: str, *, flags: LogFlags) -> int:
    """Show a session: its state, its costs, and what was said."""

    async def work(store: Any, screen: Screen) -> int:
        whole, stored = await _loaded(store, session_id)
        await screen.say(_head(whole, stored))
        await screen.say("".join(_told(record.event, limit=500) for record in stored.records))
        return DONE

    return _with_store(flags, work)


def export(session_id: str, *, format: str, to: str | None, flags: LogFlags) -> int:
    """Write a session as text or JSON."""

    async def work(store: Any, screen: Screen) -> int:
        whole, stored = await _loaded(store, session_id)
        text = _document(whole, stored) if format == "json" else _transcript(whole, stored)
        if to is None:
            await screen.say(text)
        else:
            await trio.to_thread.run_sync(_write_new, Path(to), text, abandon_on_cancel=True)
            await screen.tell(f"Written: {to}\n")
        return DONE

    return _with_store(flags, work)


def rename(session_id: str, *, name: str, flags: LogFlags) -> int:
    """Give a session a name, or take it away."""

    async def work(runtime: Runtime, whole: str, screen: Screen) -> int:
        from aar.revising import rename as renamed

        name_now = await renamed(await runtime.sessions.load(whole, cwd=here()), name)
        await screen.say(f"{whole} is named {plain(name_now)}\n" if name_now else f"{whole} has no name\n")
        return DONE

    return _with_session(session_id, flags, work)


def fork(session_id: str, *, at: int | None, flags: LogFlags) -> int:
    """Begin a new session with what was said in another one."""

    async def work(runtime: Runtime, whole: str, screen: Screen) -> int:
        copy = await runtime.sessions.fork(whole, at_message=at)
        await screen.say(f"{copy.session_id}\n")
        return DONE

    return _with_session(session_id, flags, work)


def delete(session_ids: Sequence[str], *, flags: LogFlags) -> int:
    """Delete sessions for good."""

    async def work(store: Any, screen: Screen) -> int:
        missing = []
        for session_id in session_ids:
            try:
                await screen.say(f"Deleted {await _deleted(store, session_id)}\n")
            except SessionNotFound as error:
                missing.append(str(error))
        if missing:
            raise SessionNotFound("\n".join(missing))
        return DONE

    return _with_store(flags, work)


# --- reading ----------------------------------------------------------------------------------


def _with_store(flags: LogFlags, work: Callable[[Any, Screen], Awaitable[int]]) -> int:
    async def main() -> int:
        config = loaded_settings(flags).config
        return await work(session_store(config, home=home_folder(), cwd=here()), Screen())

    return run_to_code(main)


def _with_session(session_id: str, flags: LogFlags, work: Callable[[Runtime, str, Screen], Awaitable[int]]) -> int:
    """Something that is done to a stored session, which nobody else may hold."""

    async def main() -> int:
        config, home = loaded_settings(flags).config, home_folder()
        store = session_store(config, home=home, cwd=here())
        whole, _ = await _loaded(store, session_id)
        async with open_runtime(config, store=store, home=home) as runtime:
            return await work(runtime, whole, Screen())

    return run_to_code(main)


async def _loaded(store: Any, session_id: str) -> tuple[str, Any]:
    """A session and its id, of which the beginning may have been given."""
    try:
        stored = await _checked(store.load, session_id)
    except (SessionNotFound, InvalidMessage) as error:
        await _check_name(session_id, store, error)
        session_id = await whole_id(session_id, _pages(store))
        stored = await _checked(store.load, session_id)
    for warning in stored.warnings:
        complain(warning)
    return session_id, stored


async def _deleted(store: Any, session_id: str) -> str:
    try:
        if await _checked(store.delete, session_id):
            return session_id
    except InvalidMessage as error:
        await _check_name(session_id, store, error)
    session_id = await whole_id(session_id, _pages(store))
    await store.delete(session_id)
    return session_id


async def _check_name(session_id: str, store: Any, error: Exception) -> None:
    """What is no id may be a name. Raises `error` when it is neither."""
    if isinstance(error, InvalidMessage) and not await is_known(session_id, _pages(store)):
        raise error


def _pages(store: Any) -> Pages:
    return lambda cursor: store.list(limit=PAGE, cursor=cursor)


async def _checked(ask: Callable[[str], Awaitable[Any]], session_id: str) -> Any:
    try:
        return await ask(session_id)
    except ValueError as error:
        if isinstance(error, InvalidMessage) or "Invalid session_id" not in str(error):
            raise
        raise InvalidMessage(str(error)) from error


def _write_new(path: Path, text: str) -> None:
    """For its owner only, as the sessions are."""
    try:
        descriptor = os.open(path.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise StoreUnavailable(f"--to: {path}: {error.strerror or error}. Name another file.") from error


# --- writing ----------------------------------------------------------------------------------


def _head(session_id: str, stored: Any) -> str:
    header = stored.header
    lines = [
        f"Session: {session_id}",
        f"Folder:  {plain(str(header.metadata.get('cwd', '')))}",
        f"State:   {header.state}, {header.step_count} steps, {len(stored.records)} events",
        f"Tokens:  {header.total_input_tokens} in / {header.total_output_tokens} out",
    ]
    if header.total_cost:
        lines.append(f"Cost:    ${header.total_cost:.4f}")
    return "\n".join([*lines, ""])


def _transcript(session_id: str, stored: Any) -> str:
    return _head(session_id, stored) + "".join(_told(record.event, limit=None) for record in stored.records)


def _told(event: Event, *, limit: int | None) -> str:
    """One event for people; nothing for what only programs want."""
    from aar.messages.kinds import is_for_people, is_put_in

    match event:
        case UserMessage() if is_for_people(event):
            title, text = str(event.data.get("injector", "User")), event.content
        case Notice() if is_put_in(event):
            title, text = "Notice", event.text
        case AssistantMessage() if event.content:
            title, text = "Assistant", event.content
        case ReasoningBlock() if event.content:
            title, text = "Thinking", event.content
        case ToolCall():
            title, text = f"Tool: {event.tool_name}", json.dumps(event.arguments, ensure_ascii=False, indent=2)
        case ToolResult():
            title, text = f"Result: {event.tool_name}", event.output
        case ErrorEvent():
            title, text = "Error", for_people(event.message)
        case SessionEvent(action="rewound"):
            title, text = "Taken back", f"{event.data.get('dropped', '?')} messages before this count no more."
        case _:
            return ""
    text = plain(text).strip("\n")
    return f"\n## {plain(title)}\n\n{text if limit is None else cut(text, limit, ' … (truncated)')}\n"


def _document(session_id: str, stored: Any) -> str:
    header = stored.header
    document = {
        "session_id": session_id,
        "state": str(header.state),
        "step_count": header.step_count,
        "metadata": header.metadata,
        "total_input_tokens": header.total_input_tokens,
        "total_output_tokens": header.total_output_tokens,
        "total_cost": header.total_cost,
        "events": [{**record.event.dump(), "seq": record.seq, "turn_id": record.turn_id} for record in stored.records],
    }
    return plain_json(json.dumps(document, ensure_ascii=False, indent=2, default=str)) + "\n"
