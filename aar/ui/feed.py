"""One interface's events: bounded, with a stated end for whoever cannot keep up, questions by id, and a barrier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from typing import cast, get_args

import trio

from aar.errors import InvalidMessage
from aar.handle import SessionHandle
from aar.kernel.alone import errors_alone
from aar.messages.approvals import DecisionName
from aar.messages.base import new_event_id
from aar.ui.events import AskRequired, Flush, PickerOpen, TodoEditRequested, UiEvent
from aar.ui.view import UiView

__all__ = ["CAPACITY", "Feed", "Overflow", "open_feed"]

CAPACITY = 100  # events that an interface may be behind

Question = AskRequired | TodoEditRequested | PickerOpen


class Overflow(Enum):
    """What happens when an interface is `CAPACITY` behind."""

    BLOCK = "the turn waits for it"
    COALESCE = "fragments are merged into longer ones; whole messages and all other events stay"
    DISCONNECT = "its feed ends, and says why"


@asynccontextmanager
async def open_feed(
    handle: SessionHandle, *, overflow: Overflow = Overflow.COALESCE, after: int = 0, answers: bool = False
) -> AsyncIterator[Feed]:
    """The events of a session from the fact behind `after` on, for as long as the block lasts.

    With `answers` somebody is there to answer whether tools may run. Leaving the block answers what is still open with
    no. The feed ends when the session is closed.
    """
    with errors_alone():
        async with AsyncExitStack() as stack:
            if answers:
                await stack.enter_async_context(handle.attend())
            nursery = await stack.enter_async_context(trio.open_nursery())
            feed = Feed(handle, overflow, after)
            nursery.start_soon(feed._pump)
            try:
                yield feed
            finally:
                feed._close("the interface has left")
                nursery.cancel_scope.cancel()


class Feed:
    """An iterator over the events, made by `open_feed`. An event has been dealt with when the next one is asked for.

    `reason` says why it ended before the session did.
    """

    def __init__(self, handle: SessionHandle, overflow: Overflow, after: int) -> None:
        self.reason = ""
        self._handle = handle
        self._overflow = overflow
        self._after = after
        room = CAPACITY if overflow is Overflow.DISCONNECT else 0
        self._send, self._receive = trio.open_memory_channel[UiEvent](room)
        self._given = after  # the last fact of which everything was handed out
        self._moved = trio.Event()
        self._barriers: dict[str, trio.Event] = {}
        self._questions: dict[str, _Open] = {}
        self._shown: UiEvent | None = None
        self._is_over = False

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> UiEvent:
        self._dealt_with(self._shown)
        self._shown = None
        try:
            self._shown = await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise StopAsyncIteration from None
        return self._shown

    # --- questions ---

    async def ask(self, question: str, options: Sequence[str] = ()) -> str | None:
        """Ask the person; `None` when nobody answers any more, which is no."""
        return await self.request(AskRequired(new_event_id(), question, tuple(options)))

    async def request(self, question: Question) -> str | None:
        """Ask with an event of one's own. Leaving takes the question back."""
        asked = self._questions[question.request_id] = _Open(_options(question))
        try:
            if self._is_over or not await self._give(question):
                return None
            return await asked.wait()
        finally:
            del self._questions[question.request_id]

    async def answer(self, request_id: str, value: str) -> bool:
        """Answer a question, of a tool call or of an application. Tells whether this was the first answer.

        Raises `InvalidMessage` for what is none of the options.
        """
        asked = self._questions.get(request_id)
        if asked is not None:
            if asked.options and value not in asked.options:
                raise InvalidMessage(f"{value!r} is none of the answers: {', '.join(asked.options)}")
            return asked.settle(value)
        if request_id in self._barriers:
            return self._pass(request_id)
        if value not in get_args(DecisionName):
            raise InvalidMessage(f"{value!r} is no decision: use {', '.join(get_args(DecisionName))}")
        return await self._handle.decide(request_id, cast("DecisionName", value))

    # --- the barrier ---

    async def flush(self) -> None:
        """Until the interface has dealt with everything that there is now. Returns at once when it is gone."""
        newest = self._handle.seq
        while self._given < newest and not self._is_over:
            await self._moved.wait()
        barrier = Flush(new_event_id())
        passed = self._barriers[barrier.request_id] = trio.Event()
        try:
            if not self._is_over and await self._give(barrier):
                await passed.wait()
        finally:
            self._barriers.pop(barrier.request_id, None)

    def _dealt_with(self, event: UiEvent | None) -> None:
        if isinstance(event, Flush):
            self._pass(event.request_id)

    def _pass(self, request_id: str) -> bool:
        passed = self._barriers.pop(request_id, None)
        if passed is not None:
            passed.set()
        return passed is not None

    # --- handing out ---

    async def _pump(self) -> None:
        view = UiView(self._handle.session_id)
        for record in self._handle.records():
            if record.seq > self._after:
                break
            for _ in view.see(record):  # what came before is known to the interface
                pass
        pace = CAPACITY if self._overflow is Overflow.BLOCK else 0
        with self._handle.follow(after=self._after, pace=pace) as records:
            async for record in records:
                for event in view.see(record):
                    if not await self._give(event):
                        return
                self._given = record.seq or self._given
                self._moved.set()
                self._moved = trio.Event()
        self._close("")

    async def _give(self, event: UiEvent) -> bool:
        """Whether there is still somebody to give it to."""
        try:
            if self._overflow is Overflow.DISCONNECT:
                self._send.send_nowait(event)
            else:
                await self._send.send(event)
        except trio.WouldBlock:
            self._close(f"the interface was more than {CAPACITY} events behind")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        else:
            return True
        return False

    def _close(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.reason = reason
        self._send.close()
        self._moved.set()
        for asked in self._questions.values():
            asked.settle(None)
        for passed in self._barriers.values():
            passed.set()


class _Open:
    """A question without an answer."""

    def __init__(self, options: tuple[str, ...]) -> None:
        self.options = options
        self._answered = trio.Event()
        self._value: str | None = None

    def settle(self, value: str | None) -> bool:
        is_first = not self._answered.is_set()
        if is_first:
            self._value = value
            self._answered.set()
        return is_first

    async def wait(self) -> str | None:
        await self._answered.wait()
        return self._value


def _options(question: Question) -> tuple[str, ...]:
    match question:
        case AskRequired():
            return question.options
        case PickerOpen():
            return question.items
        case _:
            return ()
