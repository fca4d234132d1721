"""JSON-RPC 2.0 in both directions over two streams of bytes.

Reading never waits for writing, nor for anything that a request does. What belongs to one session is begun in the order
in which it came; everything else runs side by side.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import trio

from aar.errors import AarError, ClientGone
from aar.transports.acp.frames import (
    CANCELLED,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Message,
    RpcError,
    decoded,
    encoded,
    error_answer,
    is_request_id,
)
from aar.transports.acp.outbox import Outbox, Sink
from aar.transports.cli.exits import leaves
from aar.transports.stdio.lines import LineBuffer

__all__ = ["Call", "Connection", "Peer", "Reply"]

MOST_CALLS = 1000  # requests of a client that may run at the same time; as many notifications more, such as a cancel
LEAVING = 1.5  # seconds that running requests have to end, and answers to be written, when the client has left

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

    `release` lets what comes next for the same session begin; it happens by itself when the call is over. `cancel` is
    what a `$/cancel_request` does; the call itself may put something better there than leaving it.
    """

    method: str
    params: Message
    request_id: Any = None
    wants_answer: bool = False
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    cancel: Callable[[], None] | None = None
    let_go: Callable[[], None] | None = None

    def release(self) -> None:
        let_go, self.let_go = self.let_go, None
        if let_go is not None:
            let_go()


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


@dataclass(eq=False)
class _Question:
    """A request of ours that waits for its answer."""

    answered: trio.Event = field(default_factory=trio.Event)
    result: Any = None
    error: AarError | None = None


class Connection:
    """One client. `run` serves it; `notify` and `request` are for whoever has something to tell or ask."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], sink: Sink) -> None:
        self._read = read
        self._sink = sink
        self._outbox = Outbox()
        self._questions: dict[int, _Question] = {}
        self._asked = 0
        self._calls: dict[Any, Call] = {}
        self._running: set[Call] = set()
        self._all_done = trio.Event()
        self._lanes: dict[str, deque[Call]] = {}
        self._has_left = False
        self._reading = trio.CancelScope()

    # --- telling and asking ---

    async def notify(self, method: str, params: Message) -> None:
        """Waits while the client is behind with reading."""
        await self._outbox.send(encoded({"jsonrpc": "2.0", "method": method, "params": params}))

    async def request(self, method: str, params: Message) -> Any:
        """Ask the client. Leaving withdraws the question. Raises `RpcError` with its error, `ClientGone`."""
        if self._has_left:
            raise ClientGone("the client has left")
        self._asked += 1
        number, question, is_out = self._asked, _Question(), False
        self._questions[number] = question
        try:
            await self._outbox.send(encoded({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            is_out = True
            await question.answered.wait()
        finally:
            del self._questions[number]
            if is_out and not question.answered.is_set():
                withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}}
                self._outbox.put(encoded(withdrawn))
        if question.error is not None:
            raise question.error
        return question.result

    # --- serving ---

    async def run(self, peer: Peer, received: bytes = b"") -> None:
        """Serve the client until it leaves. `received` is what was read of it before."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._outbox.write_all, self._sink)
            with self._reading:
                await self._read_all(LineBuffer(received), peer, nursery)
            with trio.move_on_after(LEAVING):
                await self._leave(peer)
            nursery.cancel_scope.cancel()

    def hang_up(self) -> None:
        """As if the client had left: what runs is ended, and what was told is still written."""
        self._reading.cancel()

    async def _read_all(self, buffer: LineBuffer, peer: Peer, nursery: trio.Nursery) -> None:
        data = b"."
        while data:
            for line in buffer.lines():
                self._take(line, peer, nursery)
            data = await self._read()
            buffer.feed(data)
        buffer.feed(b"\n")
        for line in buffer.lines():
            self._take(line, peer, nursery)

    async def _leave(self, peer: Peer) -> None:
        self._has_left = True
        for question in self._questions.values():
            question.error = ClientGone("the client has left")
            question.answered.set()
        await peer.leave()
        while self._running:
            await self._all_done.wait()
        await self._outbox.written()

    def _take(self, line: bytes | None, peer: Peer, nursery: trio.Nursery) -> None:
        try:
            if line is None:
                raise RpcError(PARSE_ERROR, "This line is too long.")
            message = decoded(line)
            if "method" in message:
                self._begin(_call_of(message), peer, nursery)
            elif "result" in message or "error" in message:
                self._answer_to_us(message)
            else:
                raise _invalid(message, "This is neither a request nor an answer.")
        except RpcError as error:
            self._outbox.put(encoded(error_answer(error.request_id, error)))

    def _answer_to_us(self, message: Message) -> None:
        number = message.get("id")
        question = self._questions.get(number) if type(number) is int else None
        if question is None or question.answered.is_set():
            return
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            code = error.get("code")
            text = str(error.get("message") or "the client refused and did not say why")
            question.error = RpcError(code if isinstance(code, int) else INTERNAL, text)
        else:
            question.result = message["result"]
        question.answered.set()

    # --- the client's calls ---

    def _begin(self, call: Call, peer: Peer, nursery: trio.Nursery) -> None:
        if call.method == "$/cancel_request":
            self._cancel(call.params.get("requestId"))
            return
        try:
            if len(self._running) >= (MOST_CALLS if call.wants_answer else 2 * MOST_CALLS):
                raise RpcError(INTERNAL, f"{MOST_CALLS} requests are running: wait for some of their answers.")
            reply = peer.answer_at_once(call)
        except RpcError as error:
            self._refuse(call, error)
            return
        if reply is not None:
            self._answer(call, reply)
            return
        self._running.add(call)
        if call.wants_answer:
            self._calls[call.request_id] = call
        lane = peer.lane_of(call)
        if lane is not None and lane in self._lanes:
            self._lanes[lane].append(call)
            return
        if lane is not None:
            self._lanes[lane] = deque()
            call.let_go = partial(self._next_in, lane, peer, nursery)
        nursery.start_soon(self._serve, call, peer)

    def _next_in(self, lane: str, peer: Peer, nursery: trio.Nursery) -> None:
        if not self._lanes[lane]:
            del self._lanes[lane]
            return
        call = self._lanes[lane].popleft()
        call.let_go = partial(self._next_in, lane, peer, nursery)
        nursery.start_soon(self._serve, call, peer)

    async def _serve(self, call: Call, peer: Peer) -> None:
        try:
            with call.scope:
                self._answer(call, await peer.serve(call))
            if call.scope.cancelled_caught:
                self._refuse(call, RpcError(CANCELLED, "cancelled"))
        except Exception as error:  # a wall: one request that fails must not end the others
            self._refuse(call, _explained(call, error))
        finally:
            call.release()
            self._running.discard(call)
            if self._calls.get(call.request_id) is call:
                del self._calls[call.request_id]
            if not self._running:
                self._all_done.set()
                self._all_done = trio.Event()

    def _cancel(self, request_id: Any) -> None:
        call = self._calls.get(request_id) if is_request_id(request_id) else None
        if call is not None:
            (call.cancel or call.scope.cancel)()

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


def _call_of(message: Message) -> Call:
    """Raises `RpcError` for what is no JSON-RPC request."""
    method, request_id, params = message["method"], message.get("id"), message.get("params")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not is_request_id(request_id):
        raise _invalid(message, 'A request has "jsonrpc": "2.0", a method, and an id that is a text or a number.')
    if params is not None and not isinstance(params, dict):
        raise _invalid(message, "params must be an object.", INVALID_PARAMS)
    return Call(method, params or {}, request_id, "id" in message)


def _invalid(message: Message, text: str, code: int = INVALID_REQUEST) -> RpcError:
    error = RpcError(code, text)
    error.request_id = message.get("id") if is_request_id(message.get("id")) else None
    return error


def _explained(call: Call, error: Exception) -> RpcError:
    found = list(leaves(error))
    if len(found) == 1 and isinstance(found[0], RpcError):
        return found[0]
    if all(isinstance(leaf, AarError) for leaf in found):
        return RpcError(INTERNAL, "\n".join(dict.fromkeys(str(leaf) for leaf in found)))
    logger.error("%s failed", call.method, exc_info=error)
    names = ", ".join(dict.fromkeys(f"{type(leaf).__name__}: {leaf}" for leaf in found))
    return RpcError(INTERNAL, f"Internal error ({names}). Please report it; the log says where.")
