"""What a client asks: its requests and notifications, each from the line that brought it to its answer.

What belongs to one lane is begun in the order in which it came; everything else runs side by side. A call can be
cancelled wherever it is: one that waits in its lane is answered at once, whatever blocks the lane.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import trio

from aar.errors import AarError
from aar.groups import leaves
from aar.transports.acp.frames import (
    CANCELLED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Message,
    RpcError,
    encoded,
    error_answer,
    is_request_id,
)
from aar.transports.stdio.outbox import Outbox

__all__ = ["Call", "Calls", "Peer", "Reply", "call_of", "invalid"]

MOST_CALLS = 1000  # requests of a client that may run at the same time

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reply:
    """A result, what is told right behind it with nothing in between, and what begins then."""

    result: Any
    then: tuple[Message, ...] = ()
    afterwards: Callable[[], None] | None = None


@dataclass(eq=False)
class Call:
    """A request or a notification of the client's.

    `release` lets what comes next in the same lane begin; it happens by itself when the call is over. `cancel` is what
    a `$/cancel_request` does once the call has begun; the call itself may put something better there than leaving it.
    `when_cancelled` is the answer to a call that was left; without it that is an error.
    """

    method: str
    params: Message
    request_id: Any = None
    wants_answer: bool = False
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    lane: str | None = None
    has_begun: bool = False
    cancel: Callable[[], None] | None = None
    when_cancelled: Reply | None = None
    let_go: Callable[[], None] | None = None

    def release(self) -> None:
        self.keep()()

    def keep(self) -> Callable[[], None]:
        """Hold the lane for longer than the call lasts, until the function that this gives is called."""
        let_go, self.let_go = self.let_go, None
        return let_go or _nothing


def _nothing() -> None:
    pass


class Peer(Protocol):
    """The side that serves."""

    def lane_of(self, call: Call) -> str | None:
        """Calls of one lane begin one after another; those without one begin at once."""

    def answer_at_once(self, call: Call) -> Reply | None:
        """For what must be done before the next message is read. `None`: `serve` is to be asked. Raises `RpcError`."""

    async def serve(self, call: Call) -> Reply:
        """Raises `RpcError`, or any `AarError` for what failed."""

    async def leave(self) -> None:
        """The client has left: end what runs."""


class Calls:
    """The calls of one client that are not answered yet. Answers go to `outbox`; tasks run in `nursery`."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._named: dict[Any, Call] = {}
        self._open: dict[Call, None] = {}  # in the order in which they came, with those that wait in their lanes
        self._lanes: dict[str, deque[Call]] = {}
        self._all_done = trio.Event()

    # --- begin ---

    def begin(self, call: Call, peer: Peer, nursery: trio.Nursery) -> None:
        try:
            reply = self._cancel_named(call) if call.method == "$/cancel_request" else peer.answer_at_once(call)
            if reply is None and len(self._open) >= MOST_CALLS:
                raise RpcError(INTERNAL, f"{MOST_CALLS} requests are running: wait for some of their answers.")
        except RpcError as error:
            self._refuse(call, error)
            return
        if reply is not None:
            self._answer(call, reply)
            return
        self._open[call] = None
        if call.wants_answer:
            self._named[call.request_id] = call
        call.lane = peer.lane_of(call)
        if call.lane is not None:
            if call.lane in self._lanes:
                self._lanes[call.lane].append(call)
                return
            self._lanes[call.lane] = deque()
        self._start(call, peer, nursery)

    def _start(self, call: Call, peer: Peer, nursery: trio.Nursery) -> None:
        if call.lane is not None:
            call.let_go = partial(self._next_in, call.lane, peer, nursery)
        call.has_begun = True
        nursery.start_soon(self._serve, call, peer)

    def _next_in(self, lane: str, peer: Peer, nursery: trio.Nursery) -> None:
        waiting = self._lanes.get(lane)
        if waiting:
            self._start(waiting.popleft(), peer, nursery)
        else:
            self._lanes.pop(lane, None)

    async def _serve(self, call: Call, peer: Peer) -> None:
        try:
            with call.scope:
                self._answer(call, await peer.serve(call))
            if call.scope.cancelled_caught:
                self._answer_cancelled(call)
        except Exception as error:  # a wall: one request that fails must not end the others
            if call.scope.cancel_called:
                self._answer_cancelled(call)
            else:
                self._refuse(call, _explained(call, error))
        finally:
            call.release()
            self._end(call)

    # --- end ---

    async def done(self) -> None:
        """Wait until every call has its answer."""
        while self._open:
            await self._all_done.wait()

    def drop_waiting(self) -> None:
        """What still waits in its lane is never begun."""
        self._lanes.clear()

    def _end(self, call: Call) -> None:
        self._open.pop(call, None)
        if self._named.get(call.request_id) is call:
            del self._named[call.request_id]
        if not self._open:
            self._all_done.set()
            self._all_done = trio.Event()

    def _answer(self, call: Call, reply: Reply) -> None:
        frames = (
            [encoded({"jsonrpc": "2.0", "id": call.request_id, "result": reply.result})] if call.wants_answer else []
        )
        self._outbox.put(*frames, *(encoded(message) for message in reply.then))
        if reply.afterwards is not None:
            reply.afterwards()

    def _refuse(self, call: Call, error: RpcError) -> None:
        if call.wants_answer:
            self._outbox.put(encoded(error_answer(call.request_id, error)))
        else:
            logger.debug("%s failed: %s", call.method, error)

    # --- cancel ---

    def cancel(self, method: str, lane: str | None = None) -> None:
        """Cancel the calls of this method that have come so far, of one lane or of all, wherever they are by now."""
        for call in list(self._open):
            if call.method == method and lane in (None, call.lane):
                self._cancel(call)

    def _cancel_named(self, call: Call) -> Reply:
        request_id = call.params.get("requestId")
        found = self._named.get(request_id) if is_request_id(request_id) else None
        if found is not None:
            self._cancel(found)
        return Reply(None)

    def _cancel(self, call: Call) -> None:
        if call.has_begun:
            (call.cancel or call.scope.cancel)()
        elif call.lane in self._lanes and call in self._lanes[call.lane]:
            self._lanes[call.lane].remove(call)
            self._answer_cancelled(call)
            self._end(call)

    def _answer_cancelled(self, call: Call) -> None:
        if call.when_cancelled is not None:
            self._answer(call, call.when_cancelled)
        else:
            self._refuse(call, RpcError(CANCELLED, "cancelled"))


def call_of(message: Message) -> Call:
    """Raises `RpcError` for what is no JSON-RPC request."""
    method, request_id, params = message["method"], message.get("id"), message.get("params")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not is_request_id(request_id):
        raise invalid(message, 'A request has "jsonrpc": "2.0", a method, and an id that is a text or a number.')
    if isinstance(params, dict) or params is None:
        return Call(method, params or {}, request_id, "id" in message)
    if "id" in message:
        raise invalid(message, "params must be an object.", INVALID_PARAMS)
    return Call(method, {})  # a notification has no answer, not even this one


def invalid(message: Message, text: str, code: int = INVALID_REQUEST) -> RpcError:
    """The error for this message, with the id that it has, if it is one."""
    error = RpcError(code, text)
    error.request_id = message.get("id") if is_request_id(message.get("id")) else None
    return error


def _explained(call: Call, error: Exception) -> RpcError:
    found = leaves(error)
    if len(found) == 1 and isinstance(found[0], RpcError):
        return found[0]
    if all(isinstance(leaf, AarError) for leaf in found):
        return RpcError(INTERNAL, "\n".join(dict.fromkeys(str(leaf) for leaf in found)))
    logger.error("%s failed", call.method, exc_info=error)
    names = ", ".join(dict.fromkeys(f"{type(leaf).__name__}: {leaf}" for leaf in found))
    return RpcError(INTERNAL, f"Internal error ({names}). Please report it; the log says where.")
