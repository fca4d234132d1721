"""The owner's side: a session is shared with other processes of its user for as long as it lives.

Each connection has tasks of its own and reads the journal at its own pace. Whatever a client does, floods, sends
garbage, does not read, dies: it is its own connection that waits or ends.
"""

from __future__ import annotations

import json
import logging
import os
from bisect import bisect_right
from functools import partial
from pathlib import Path
from typing import Any

import trio

from aar.errors import AarError, ClientGone, MailboxFull, ProtocolError, SessionInUse, StoreUnavailable
from aar.groups import leaves
from aar.journal.journal import Journal
from aar.kernel import Ref
from aar.messages.approvals import ApprovalsCommand, Attend, Decide
from aar.messages.base import Request
from aar.messages.encoding import json_of
from aar.messages.events import Recorded, TurnEnded
from aar.messages.session import SessionCommand, SessionInfo
from aar.processes.ancestry import is_command_of
from aar.sharing.frames import MOST_VALUES, VERSION, Frame, FrameError, FrameReader, frame
from aar.sharing.places import Listening, peer_of
from aar.sharing.wire import Shareable, answer_data, command_of, error_data

__all__ = ["Shared", "share"]

MOST_CLIENTS = 16
MOST_OPEN = 32  # requests of one client that wait for their answers
MOST_MISTAKES = 20  # frames of one client that cannot be understood
MOST_FRAME = 16 * 1024 * 1024  # bytes of a frame of a client
A_SECOND = 100  # frames of one client that are read within a second; the rest waits
GREETING = 5.0  # seconds for the first frame
STALLED = 30.0  # seconds in which a client must take what it is sent
CLOSING = 15.0  # seconds that a session takes at most to write its last fact
GOODBYE = 1.0  # seconds for clients to take it
BACKLOG_PIECE = 100  # facts of the past that are sent in one go

logger = logging.getLogger(__name__)


class Shared:
    """A session that is ours to share."""

    def __init__(
        self,
        info: SessionInfo,
        journal: Journal,
        session: Ref[SessionCommand],
        approvals: Ref[ApprovalsCommand],
    ) -> None:
        self.info = info
        self.journal = journal
        self.session = session
        self.approvals = approvals

    def ref_for(self, command: Any) -> Ref[Any]:
        return self.approvals if isinstance(command, Attend | Decide) else self.session


async def share(home: Path, shared: Shared) -> None:
    """Until the session is closed. Where no socket can be had the log says so, and the session is not shared."""
    try:
        listening = await trio.to_thread.run_sync(Listening, home, shared.info.session_id)
    except (SessionInUse, StoreUnavailable) as error:
        logger.warning("%s", error)
        return
    listener, scope = (
        trio.SocketListener(trio.socket.from_stdlib_socket(listening.socket)),
        trio.CancelScope(shield=True),
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve, listener, shared, scope)
            try:
                await shared.journal.closed.wait()
            finally:  # also when all are told to end: the session has some last facts then, which clients shall have
                with trio.move_on_after(CLOSING, shield=True):
                    await shared.journal.closed.wait()
                scope.deadline = trio.current_time() + GOODBYE
    finally:
        listening.close()


async def _serve(listener: trio.SocketListener, shared: Shared, scope: trio.CancelScope) -> None:
    serve = partial(_serve_client, shared, _Room())
    with scope:
        async with trio.open_nursery() as clients, trio.open_nursery() as door:
            door.start_soon(partial(trio.serve_listeners, serve, [listener], handler_nursery=clients))
            await shared.journal.closed.wait()
            door.cancel_scope.cancel()


class _Room:
    """How many are there."""

    def __init__(self) -> None:
        self.taken = 0


async def _serve_client(shared: Shared, room: _Room, stream: trio.SocketStream) -> None:
    session_id = shared.info.session_id
    room.taken += 1
    try:
        async with stream:
            await _Client(stream, shared).serve(has_room=room.taken <= MOST_CLIENTS)
    except* (ClientGone, trio.BrokenResourceError, trio.ClosedResourceError) as gone:
        logger.info("a client of session %s is gone: %s", session_id, next(iter(leaves(gone))))
    except* Exception as error:  # a wall: a client must not be able to end the others, whatever it sends
        logger.error("a client of session %s failed", session_id, exc_info=error)
    finally:
        room.taken -= 1


class _Client:
    def __init__(self, stream: trio.SocketStream, shared: Shared) -> None:
        self._stream = stream
        self._shared = shared
        self._reader = FrameReader(stream, most_bytes=MOST_FRAME, most_values=MOST_VALUES)
        self._writing = trio.Lock()
        self._open: dict[int, trio.CancelScope] = {}
        self._mistakes = 0
        self._read = 0  # frames since `_since`
        self._since = float("-inf")

    async def serve(self, *, has_room: bool) -> None:
        """Until one of the two sides leaves. Raises `ClientGone` and the like."""
        try:
            await self._check_peer(has_room=has_room)
            after = await self._greeted()
        except ProtocolError as error:
            await self._send(frame("error", message=str(error)))
            return
        logger.info("a client is attached to session %s", self._shared.info.session_id)
        self._shared.journal.guests += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_all, after, nursery.cancel_scope)
                await self._obey(nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._shared.journal.guests -= 1

    async def _check_peer(self, *, has_room: bool) -> None:
        peer = peer_of(self._stream.socket)
        if peer.uid != os.geteuid():
            raise ProtocolError("this session belongs to another user")
        if peer.pid and await trio.to_thread.run_sync(is_command_of, peer.pid, os.getpid(), abandon_on_cancel=True):
            raise ProtocolError("a command that Aar runs cannot attach to a session: it would answer its own questions")
        if not has_room:
            raise ProtocolError(f"{MOST_CLIENTS} clients are attached already")

    async def _greeted(self) -> int:
        """The fact that the client knows already."""
        found = None
        with trio.move_on_after(GREETING):
            found = await self._reader.read()
        if found is None:
            raise ClientGone("it said nothing")
        after = found.fields.get("after", 0)
        if found.type != "hello":
            raise ProtocolError('the first frame must be "hello"')
        if found.fields.get("version") != VERSION:
            raise ProtocolError(f"the owner of this session speaks version {VERSION}: attach with the same Aar")
        if found.fields.get("session_id") != self._shared.info.session_id:
            raise ProtocolError(f"this is session {self._shared.info.session_id}")
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise ProtocolError('"after" must be the number of a fact, or 0')
        return after

    # --- what it is told ---

    async def _tell_all(self, after: int, scope: trio.CancelScope) -> None:
        """The past in pieces, then whatever happens; at last that it is over."""
        shared, journal = self._shared, self._shared.journal
        header = json.loads(journal.session.header().to_json())
        info = shared.info.dump()
        await self._send(
            frame("welcome", version=VERSION, pid=os.getpid(), session=info, header=header, seq=journal.seq)
        )
        at = bisect_right(journal.records, after, key=lambda record: record.seq)
        while piece := journal.records[at : at + BACKLOG_PIECE]:
            await self._send(b"".join(map(_told, piece)))
            at, after = at + len(piece), piece[-1].seq
        with journal.follow(after=after) as records:
            async for record in records:
                if isinstance(record.event, TurnEnded):  # what is kept beside the facts has changed with it
                    await self._send(frame("header", header=self._header()))
                await self._send(_told(record))
        await self._send(frame("ended", message="the session was closed by the process that owned it"))
        scope.cancel()

    def _header(self) -> Any:
        return json.loads(self._shared.journal.session.header().to_json())

    async def _send(self, data: bytes) -> None:
        """Raises `ClientGone` for one that does not read."""
        async with self._writing:
            with trio.move_on_after(STALLED) as limit:
                await self._stream.send_all(data)
        if limit.cancelled_caught:
            raise ClientGone(f"it took nothing for {STALLED:g} s")

    # --- what it says ---

    async def _obey(self, nursery: trio.Nursery) -> None:
        while True:
            await self._keep_pace()
            try:
                found = await self._reader.read()
                if found is None:
                    return
                await self._take(found, nursery)
            except FrameError as error:
                await self._complain(str(error))
                if error.is_fatal:
                    raise ClientGone(str(error)) from error
            except ProtocolError as error:
                await self._complain(str(error))

    async def _complain(self, text: str) -> None:
        self._mistakes += 1
        await self._send(frame("error", message=text))
        if self._mistakes >= MOST_MISTAKES:
            raise ClientGone(f"{self._mistakes} of its frames could not be understood")

    async def _keep_pace(self) -> None:
        """What comes too fast waits in the socket."""
        now = trio.current_time()
        if now - self._since >= 1.0:
            self._since, self._read = now, 0
        self._read += 1
        if self._read > A_SECOND:
            await trio.sleep_until(self._since + 1.0)

    async def _take(self, found: Frame, nursery: trio.Nursery) -> None:
        number = found.fields.get("id")
        if found.type not in ("ask", "leave"):
            raise ProtocolError(f'unknown type "{found.type[:50]}": there are "ask" and "leave"')
        if not isinstance(number, int) or isinstance(number, bool):
            raise ProtocolError(f'"{found.type}" needs a whole number as its "id"')
        if found.type == "leave":
            if (scope := self._open.pop(number, None)) is not None:
                scope.cancel()
            return
        if number in self._open:
            raise ProtocolError(f"a request with id {number} is still open")
        try:
            if len(self._open) >= MOST_OPEN:
                raise MailboxFull(f"{MOST_OPEN} requests of this client are open already")
            command = command_of(found.fields.get("message"), self._shared.info.session_id)
        except AarError as error:
            await self._send(frame("failed", id=number, **error_data(error)))
            return
        delivered = trio.Event()
        scope = self._open[number] = trio.CancelScope()
        nursery.start_soon(self._perform, number, command, scope, delivered)
        await delivered.wait()  # so that what is said arrives in order

    async def _perform(self, number: int, command: Shareable, scope: trio.CancelScope, delivered: trio.Event) -> None:
        told = b""
        try:
            with scope:
                value = await self._answer(number, command, delivered)
                told = frame("answer", id=number, value=value, seq=self._shared.journal.seq)
        except ClientGone:
            raise
        except AarError as error:
            told = frame("failed", id=number, **error_data(error), seq=self._shared.journal.seq)
        finally:
            if self._open.get(number) is scope:
                del self._open[number]
            delivered.set()
        if told:
            await self._send(told)

    async def _answer(self, number: int, command: Shareable, delivered: trio.Event) -> Any:
        ref = self._shared.ref_for(command)
        if not isinstance(command, Request):
            await ref.tell(command)
            return None
        async with ref.asking(command) as answer:
            delivered.set()
            await self._send(frame("taken", id=number))
            return answer_data(await answer())


def _told(record: Recorded) -> bytes:
    turn_id = json.dumps(record.turn_id)
    return f'{{"type":"record","seq":{record.seq},"turn_id":{turn_id},"event":{json_of(record.event)}}}\n'.encode()
