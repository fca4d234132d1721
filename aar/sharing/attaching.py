"""The other side: a session of another process, as a `SessionHandle` like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import trio

from aar.errors import AarError, ActorStopped, ProtocolError, SessionNotFound, StoreUnavailable
from aar.handle import SessionHandle
from aar.journal.store import Header
from aar.kernel.alone import errors_alone
from aar.messages.base import Request
from aar.messages.encoding import decode_event
from aar.messages.events import Recorded
from aar.messages.session import SessionInfo
from aar.sharing.frames import MOST_FROM_OWNER, VERSION, Frame, FrameReader, frame
from aar.sharing.places import connected
from aar.sharing.replica import Replica
from aar.sharing.wire import answer_of, error_of

__all__ = ["Attached", "attached"]

WELCOME = 10.0  # seconds until the owner must have answered
LEAVING = 1.0  # seconds for taking a request back

R = TypeVar("R")


class Attached:
    """A session that another process owns. `pid` names that process, 0 when nobody knows."""

    def __init__(self, handle: SessionHandle, pid: int) -> None:
        self.handle = handle
        self.pid = pid
        self.farewell = ""  # why it is over, once it is


@asynccontextmanager
async def attached(home: Path, session_id: str, *, after: int = 0) -> AsyncIterator[Attached]:
    """The session of this id, for as long as the block lasts; leaving it ends nothing at its owner's.

    Inside, all facts after `after` that there were at the beginning are there already, and with an answer those that
    led to it. A reader that asked for a pace holds up everything that comes here, and nothing there. When the owner
    lets the session go, followers come to their end and everything that is asked raises `ActorStopped`.
    Raises `SessionNotFound` when no process shares this session, `ProtocolError`, `StoreUnavailable`.
    """
    found = await trio.to_thread.run_sync(connected, home, session_id)
    if found is None:
        raise SessionNotFound(f"Session {session_id} is not open in another process of this user.")
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(found))
    with errors_alone():
        async with stream, trio.open_nursery() as nursery:
            owner = _Owner(stream)
            with trio.move_on_after(WELCOME) as limit:
                session = await owner.welcome(session_id, after)
            if limit.cancelled_caught:
                raise StoreUnavailable(f"The process that owns session {session_id} does not answer.")
            here = trio.Event()
            nursery.start_soon(owner.read, session, here)
            await here.wait()
            yield session
            nursery.cancel_scope.cancel()


class _Owner:
    """The connection to it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._reader = FrameReader(stream, most_bytes=MOST_FROM_OWNER)
        self._writing = trio.Lock()
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}
        self._lost: str = ""
        self._seq = 0  # the newest fact at the beginning
        self._arrived = trio.Event()  # another fact, or the end

    async def welcome(self, session_id: str, after: int) -> Attached:
        await self._send(frame("hello", version=VERSION, session_id=session_id, after=after))
        found = await self._reader.read()
        if found is None:
            raise ProtocolError(f"The owner of session {session_id} closed the connection.")
        if found.type != "welcome":
            raise ProtocolError(f"Cannot attach to session {session_id}: {found.fields.get('message', found.type)}.")
        try:
            info = SessionInfo.model_validate(found.fields["session"])
            self._header = Header.from_json(found.fields["header"])
            self._seq, pid = int(found.fields["seq"]), int(found.fields.get("pid", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"The owner of session {session_id} does not speak as this Aar does.") from error
        self._replica = Replica(self._header, min(after, self._seq))
        ref = _RemoteRef(f"session:{session_id}", self)
        return Attached(SessionHandle(info, ref, ref, self._replica), pid)

    # --- what comes ---

    async def read(self, session: Attached, here: trio.Event) -> None:
        farewell = "The process that owned the session is gone."
        try:
            while not session.farewell:
                if self._replica.seq >= self._seq and not here.is_set():
                    self._replica.session.continue_totals(self._header)
                    here.set()
                found = await self._reader.read()
                if found is None:
                    break
                farewell = await self._take(found) or farewell
        except trio.BrokenResourceError:
            pass  # it was killed
        except (ProtocolError, KeyError, TypeError, ValueError):  # the last one: messages that are none, too
            farewell = "The process that owns the session speaks as another version of Aar does."
        finally:
            session.farewell = self._lost = farewell
            self._replica.close()
            for asked in self._asked.values():
                asked.settle(error=ActorStopped(farewell))
            self._arrived.set()
            here.set()

    async def _take(self, found: Frame) -> str:
        """Why it is over, if that is what the frame says."""
        fields = found.fields
        match found.type:
            case "record":
                record = Recorded(int(fields["seq"]), str(fields["turn_id"]), decode_event(fields["event"]))
                await self._replica.receive([record])
                self._arrived.set()
                self._arrived = trio.Event()
            case "header":
                self._replica.session.metadata = Header.from_json(fields["header"]).metadata
            case "ended" | "error":
                text = str(fields.get("message", ""))
                return text[:1].upper() + text[1:] + "." if text else ""
            case "taken" | "answer" | "failed":
                asked = self._asked.get(int(fields["id"]))
                if asked is not None:
                    asked.take(found)
        return ""

    # --- what goes ---

    @asynccontextmanager
    async def asking(self, command: Any) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        number = next(self._numbers)
        asked = self._asked[number] = _Asked(command)
        try:
            await self._send(frame("ask", id=number, message=command.dump()))
            await asked.taken.wait()
            if asked.error is not None:
                raise asked.error

            async def answer() -> Any:
                await asked.is_over.wait()
                while self._replica.seq < asked.seq and not self._lost:
                    await self._arrived.wait()
                return asked.result()

            yield answer
        finally:
            del self._asked[number]
            if not asked.is_over.is_set() and not self._lost:
                with trio.move_on_after(LEAVING, shield=True):
                    await self._leave(number)

    async def _leave(self, number: int) -> None:
        try:
            await self._send(frame("leave", id=number))
        except ActorStopped:
            return

    async def _send(self, data: bytes) -> None:
        if self._lost:
            raise ActorStopped(self._lost)
        try:
            async with self._writing:
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ActorStopped(self._lost or "The process that owned the session is gone.") from error


class _Asked:
    """One request on its way."""

    def __init__(self, command: Any) -> None:
        self.taken = trio.Event()  # it stands in the mailbox, or it is over
        self.is_over = trio.Event()
        self.error: AarError | None = None
        self.seq = 0  # the newest fact when it was answered
        self._command = command
        self._value: Any = None

    def take(self, found: Frame) -> None:
        self.seq = int(found.fields.get("seq", 0))
        if found.type == "failed":
            self.settle(error=error_of(found.fields))
        elif found.type == "answer":
            try:
                self.settle(answer_of(self._command, found.fields.get("value")))
            except AarError as error:
                self.settle(error=error)
        self.taken.set()

    def settle(self, value: Any = None, *, error: AarError | None = None) -> None:
        if not self.is_over.is_set():
            self._value, self.error = value, error
            self.is_over.set()
            self.taken.set()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self._value


class _RemoteRef:
    """The address of an actor in the owner's process. `tell` waits until the message has been delivered there."""

    def __init__(self, name: str, owner: _Owner) -> None:
        self.name = name
        self._owner = owner

    async def tell(self, message: Any) -> None:
        await self.ask(message)

    def tell_nowait(self, message: Any) -> None:
        raise NotImplementedError("nobody can tell without waiting whether another process has room")

    async def ask(self, request: Request[R]) -> R:
        async with self.asking(request) as answer:
            return await answer()

    @asynccontextmanager
    async def asking(self, request: Request[R]) -> AsyncIterator[Callable[[], Awaitable[R]]]:
        async with self._owner.asking(request) as answer:
            yield answer
