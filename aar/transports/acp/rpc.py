"""JSON-RPC 2.0 in both directions over two streams of bytes.

Reading never waits for writing, nor for anything that a request does. What the client asks is in `calls`; here it is
read, and asked in turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from aar.errors import AarError, ClientGone
from aar.messages.json_values import ENDS, id_at_the_ends
from aar.transports.acp.calls import Calls, Peer, call_of, invalid
from aar.transports.acp.frames import (
    INTERNAL,
    INVALID_REQUEST,
    PARSE_ERROR,
    Message,
    RpcError,
    decoded,
    encoded,
    error_answer,
)
from aar.transports.stdio.lines import MOST_VALUES, LineBuffer, is_crowded
from aar.transports.stdio.outbox import Outbox, Sink

__all__ = ["Connection"]

MOST_LATE = 1000  # answers that are still listened for after whoever asked has left; the oldest is forgotten
LEAVING = 1.5  # seconds that running requests have to end, and answers to be written, when the client has left


@dataclass(eq=False)
class _Question:
    """A request of ours that waits for its answer."""

    answered: trio.Event = field(default_factory=trio.Event)
    result: Any = None
    error: AarError | None = None
    late: Callable[[Any], None] | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


def _question_frame(number: int, method: str, params: Message) -> bytes:
    return encoded({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def _gone() -> ClientGone:
    return ClientGone("the client has left")


class Connection:
    """One client. `run` serves it; `notify` and `request` are for whoever has something to tell or ask."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], sink: Sink) -> None:
        self._read = read
        self._sink = sink
        self._outbox = Outbox()
        self._questions: dict[int, _Question] = {}
        self._late: dict[int, Callable[[Any], None]] = {}
        self._asked = 0
        self._calls = Calls(self._outbox)
        self._has_left = False
        self._reading = trio.CancelScope()
        self._no_more_late = trio.Event()

    # --- telling and asking ---

    async def notify(self, method: str, params: Message) -> None:
        """Waits while the client is behind with reading."""
        await self._outbox.send(encoded({"jsonrpc": "2.0", "method": method, "params": params}))

    async def request(self, method: str, params: Message, *, late: Callable[[Any], None] | None = None) -> Any:
        """Ask the client. Leaving withdraws the question. Raises `RpcError` with its error, `ClientGone`.

        `late` gets the result that comes when the caller has left, or is just leaving.
        """
        if self._has_left:
            raise _gone()
        number, question = self._new_question()
        question.late = late
        is_out = False
        try:
            await self._outbox.send(_question_frame(number, method, params))
            is_out = True
            await question.answered.wait()
        except trio.Cancelled:
            if late is not None and question.answered.is_set() and question.error is None:
                late(question.result)
            raise
        finally:
            del self._questions[number]
            if is_out and not question.answered.is_set():
                self._withdraw_question(number, late)
        return question.outcome()

    async def insist(self, method: str, params: Message) -> Any:
        """The same for what must be done: a client that is slow to read is told all the same, and it stays told.

        So is one that has left, or was left: it may still read.
        """
        number, question = self._new_question()
        try:
            self._outbox.put(_question_frame(number, method, params))
            if self._has_left:
                raise _gone()
            await question.answered.wait()
        finally:
            del self._questions[number]
        return question.outcome()

    def _new_question(self) -> tuple[int, _Question]:
        self._asked += 1
        question = self._questions[self._asked] = _Question()
        return self._asked, question

    def _withdraw_question(self, number: int, late: Callable[[Any], None] | None) -> None:
        if late is not None:
            self._late[number] = late
            if len(self._late) > MOST_LATE:
                del self._late[next(iter(self._late))]
        withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}}
        self._outbox.put(encoded(withdrawn))

    # --- serving ---

    def cancel(self, method: str, lane: str | None = None) -> None:
        """Cancel what the client has asked for so far with this method, in one lane or in all."""
        self._calls.cancel(method, lane)

    async def run(self, peer: Peer, received: bytes = b"") -> None:
        """Serve the client until it leaves. `received` is what was read of it before."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._outbox.write_all, self._sink)
            buffer = LineBuffer(received)
            with self._reading:
                await self._read_all(buffer, peer, nursery)
            with trio.move_on_after(LEAVING):
                if self._reading.cancelled_caught:
                    nursery.start_soon(self._read_answers, buffer)
                await self._leave(peer)
            self._calls.drop_waiting()
            nursery.cancel_scope.cancel()

    def hang_up(self) -> None:
        """As if the client had left: what runs is ended, and what was told is still written."""
        self._reading.cancel()

    async def _read_all(self, buffer: LineBuffer, peer: Peer, nursery: trio.Nursery) -> None:
        data = b"."
        while data:
            await self._take_all(buffer, peer, nursery)
            data = await self._read()
            buffer.feed(data)
        buffer.feed(b"\n")
        await self._take_all(buffer, peer, nursery)

    async def _take_all(self, buffer: LineBuffer, peer: Peer, nursery: trio.Nursery) -> None:
        for line in buffer.lines():
            if line is not None and len(line) > MOST_VALUES and await is_crowded(line):
                self._take_crowded(line)
            else:
                self._take(line, peer, nursery)

    async def _read_answers(self, buffer: LineBuffer) -> None:
        """After we have hung up: what the client still brings us must not be left with it."""
        data = b"."
        while data and self._late:
            for line in buffer.lines():
                self._take_answer(line)
            data = await self._read()
            buffer.feed(data)
        self._late.clear()
        self._no_more_late.set()

    def _take_answer(self, line: bytes | None) -> None:
        with suppress(RpcError):
            if line is not None and len(line) <= MOST_VALUES and "method" not in (message := decoded(line)):
                self._answer_to_us(message)

    async def _leave(self, peer: Peer) -> None:
        self._has_left = True
        for number, question in self._questions.items():
            if question.late is not None and not question.answered.is_set():
                self._withdraw_question(number, question.late)
            question.error = _gone()
            question.answered.set()
        await peer.leave()
        await self._calls.done()
        if self._reading.cancelled_caught:
            await self._no_more_late.wait()
            for _ in range(2):  # whoever was handed what came late has its turn
                await trio.lowlevel.checkpoint()
        await self._outbox.written()

    def _take(self, line: bytes | None, peer: Peer, nursery: trio.Nursery) -> None:
        try:
            if line is None:
                raise RpcError(PARSE_ERROR, "This line is too long.")
            message = decoded(line)
            if "method" in message:
                self._calls.begin(call_of(message), peer, nursery)
            elif "result" in message or "error" in message:
                self._answer_to_us(message)
            else:
                raise invalid(message, "This is neither a request nor an answer.")
        except RpcError as error:
            self._outbox.put(encoded(error_answer(error.request_id, error)))

    def _take_crowded(self, line: bytes) -> None:
        """It is not read. Whoever waits for an answer to it, or for this one, is told why."""
        head, tail = line[:ENDS], line[-ENDS:]
        text = f"A message may have {MOST_VALUES:,} values at most."
        found = id_at_the_ends(head, tail)
        if found in self._questions and b'"method"' not in head + tail:
            self._answer_to_us({"id": found, "error": {"code": INVALID_REQUEST, "message": text}})
        else:
            error = RpcError(PARSE_ERROR if found is None else INVALID_REQUEST, text)
            self._outbox.put(encoded(error_answer(found, error)))

    def _answer_to_us(self, message: Message) -> None:
        number = message.get("id")
        if type(number) is not int:
            return
        if number in self._late:
            late = self._late.pop(number)
            if message.get("error") is None:
                late(message.get("result"))
            return
        question = self._questions.get(number)
        if question is None or question.answered.is_set():
            return
        if message.get("error") is not None:  # some send both, and null in one of them
            error = message["error"] if isinstance(message["error"], dict) else {}
            code = error.get("code")
            text = str(error.get("message") or "the client refused and did not say why")
            question.error = RpcError(code if isinstance(code, int) else INTERNAL, text)
        else:
            question.result = message.get("result")
        question.answered.set()
