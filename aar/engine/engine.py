"""The engine: one session driven step by step, with subscribers that its loop waits for.

It is handed the session that it drives, and knows nothing of what is behind it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from aar.engine.events import EngineEvent, EngineMessage
from aar.engine.options import Options, Said, TurnDone
from aar.engine.queues import Queues, asked
from aar.engine.subscribers import Subscriber, Subscribers
from aar.engine.telling import Telling
from aar.engine.view import View
from aar.errors import AarError, NothingToContinue, SessionError
from aar.journal.journal import Follower
from aar.messages.base import new_turn_id
from aar.messages.content import ContentBlock
from aar.messages.events import Event, Notice, ProviderSwitchEvent, Recorded, TurnEnded, UserMessage
from aar.messages.provider import ProviderRequest, ProviderResponse
from aar.messages.session import ToolInfo

__all__ = ["Driven", "Engine", "EngineState"]

LAST_WORDS = 5.0  # seconds for subscribers that are busy when a run is cancelled
UNFINISHED = "The run ended without a record of its end."
PACE = 16  # records that the subscribers may be behind within a step before the loop waits for them

Ended = Callable[[], Awaitable[TurnEnded]]
ThinkingPatch = Callable[[str, str], dict[str, Any]]

logger = logging.getLogger(__name__)


class Driven(Protocol):
    """What an engine needs of a session; a `SessionHandle` is one."""

    @property
    def session_id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    def running(
        self, content: str | list[ContentBlock], *, turn_id: str = "", goes_on: bool = False
    ) -> AbstractAsyncContextManager[tuple[str, Ended]]: ...
    def follow(self, *, after: int = 0, pace: int = 0, every: float = 0.03) -> Follower: ...
    def records(self, *, after: int = 0) -> list[Recorded]: ...
    async def cancel(self, turn_id: str | None = None, *, after_step: bool = False) -> None: ...
    async def configure(self, patch: dict[str, Any]) -> Any: ...
    async def adopt(self, facts: list[Event]) -> int: ...


@dataclass(frozen=True)
class EngineState:
    """The engine at one moment. `llm` is `provider/model`; the queues hold what `steer` and `follow_up` put there."""

    system_prompt: str
    messages: tuple[EngineMessage, ...]
    pending_tool_calls: frozenset[str]
    is_streaming: bool
    error_message: str | None
    streaming_message: EngineMessage | None
    thinking_level: str | None
    llm: str
    tools: tuple[ToolInfo, ...]
    follow_up_queue: tuple[UserMessage, ...]
    steering_queue: tuple[UserMessage, ...]


class Engine:
    """Made by `open_engine`. One run at a time; everything else may be called at any moment, also by subscribers."""

    def __init__(self, options: Options | None = None) -> None:
        if options is not None and not isinstance(options, Options):
            raise TypeError(f"options must be Options(...), not {options!r}")
        self.options = options or Options()
        self.signal = trio.Event()  # set once `abort` or `cancel` was asked for; a new one for each run
        self._subscribers = Subscribers()
        if self.options.on_event is not None:
            self._subscribers.add(self.options.on_event)
        self._telling = Telling(self._subscribers)
        self._queues = Queues(self.options)
        self._view = View()
        self._session: Driven | None = None
        self._facts: dict[str, Any] = {}
        self._thinking_patch: ThinkingPatch = lambda level, provider: {}
        self._thinking_level: str | None = None
        self._turn_id = ""  # of the run
        self._seen = self._told = 0  # the newest fact that was looked at, and whose events have been told
        self._progress = trio.Event()
        self._is_aborted = False
        self._is_asked = False  # the model, and has not answered
        self._response: ProviderResponse | None = None
        self._terminates: dict[str, bool] = {}  # by call id, of the step that runs

    def attach(self, session: Driven, facts: Mapping[str, Any], thinking_patch: ThinkingPatch) -> None:
        """Drive this session. `facts` are `system_prompt`, `llm` and `tools`.

        `thinking_patch(level, provider)` gives the change of settings that a thinking level is.
        """
        for record in session.records():
            self._look_at(record)
        self._session, self._facts, self._thinking_patch = session, dict(facts), thinking_patch

    # --- looking ---

    @property
    def state(self) -> EngineState:
        view = self._view
        return EngineState(
            system_prompt=self._facts.get("system_prompt", ""),
            messages=tuple(view.messages),
            pending_tool_calls=frozenset(view.running),
            is_streaming=view.is_streaming,
            error_message=view.error or None,
            streaming_message=view.streaming,
            thinking_level=self._thinking_level,
            llm=self._facts.get("llm", ""),
            tools=self._facts.get("tools", ()),
            follow_up_queue=tuple(self._queues.follow_ups),
            steering_queue=tuple(self._queues.steering),
        )

    @property
    def session_id(self) -> str:
        """By which others find the session: for approvals, or to read along."""
        return self._attached().session_id

    @property
    def messages(self) -> list[EngineMessage]:
        """The conversation, in memory. It only grows."""
        return self._view.messages

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(event)` for each event, after those that came earlier, and wait for it.

        Gives a function that ends it. A subscriber that fails three times is removed; a notice says so.
        """
        return self._subscribers.add(subscriber)

    # --- running ---

    async def run(self, content: str | list[ContentBlock]) -> TurnEnded:
        """Run until the agent stops, and tell how. All subscribers have seen all of it then.

        Cancelling the caller cancels the run. Raises `SessionError` while another run goes on, `SessionClosed`,
        `StoreUnavailable`.
        """
        return await self._run(content, goes_on=False)

    async def run_continue(self) -> TurnEnded:
        """Go on from the messages there are, with nothing new said. What is queued is said first.

        Raises `NothingToContinue` when the last message is an answer, or there is none, and nothing is queued.
        """
        if not self._queues and (not self.messages or self._is_answered):
            raise NothingToContinue("there is nothing to answer: say something with run, steer or follow_up")
        return await self._run("", goes_on=True)

    async def _run(self, content: str | list[ContentBlock], *, goes_on: bool) -> TurnEnded:
        failure: AarError | None = None
        async with self.running(content, goes_on=goes_on) as (_, end):
            try:
                ended = await end()
            except AarError as error:  # raised outside: in the block it would become a group
                failure = error
        if failure is not None:
            raise failure
        return ended

    @asynccontextmanager
    async def running(
        self, content: str | list[ContentBlock], *, goes_on: bool = False
    ) -> AsyncIterator[tuple[str, Ended]]:
        """A run for as long as the block lasts: yields the id of its turn, and a function that waits for its end.

        A run that has not ended when the block is left is cancelled.
        """
        session = self._attached()
        if self._turn_id:
            raise SessionError("the engine is in a run: wait for its end, or steer it")
        for record in session.records(after=self._seen):  # what others have said meanwhile
            self._look_at(record)
        self._turn_id, self._told, self.signal = new_turn_id(), self._seen, trio.Event()
        self._is_aborted = False
        self._forget_step()
        try:
            with session.follow(after=self._seen, pace=PACE) as records:
                try:
                    async with self._watched(session, content, goes_on, records) as ended:
                        yield self._turn_id, ended
                finally:
                    rest = [event for record in session.records(after=self._seen) for event in self._look_at(record)]
                    await self._telling.tell_the_rest([*rest, *self._view.give_up(UNFINISHED)])
        finally:
            self._turn_id = ""
        await self._note_removed(session)

    @asynccontextmanager
    async def _watched(
        self, session: Driven, content: str | list[ContentBlock], goes_on: bool, records: AsyncIterator[Recorded]
    ) -> AsyncIterator[Ended]:
        turn = session.running(content, turn_id=self._turn_id, goes_on=goes_on)
        async with turn as (_, end), trio.open_nursery() as nursery:
            nursery.start_soon(self._telling.keep_telling)
            nursery.start_soon(self._read, records)

            async def ended() -> TurnEnded:
                over = await end()
                is_cut = over.stop == "cancelled" and not self._is_aborted
                with trio.move_on_after(LAST_WORDS if is_cut else float("inf")):
                    await self._caught_up()
                return over

            yield ended
            nursery.cancel_scope.cancel()

    def _attached(self) -> Driven:
        if self._session is None:
            raise SessionError("the engine has no session: use open_engine")
        return self._session

    async def abort(self) -> None:
        """Soft: finish the step that runs, with its tools, and stop."""
        self._is_aborted = True
        self.signal.set()
        await self._attached().cancel(self._turn_id or None, after_step=True)

    async def cancel(self) -> None:
        """Hard: connections are closed, processes killed, and every open call gets a result that says so."""
        self._is_aborted = False
        self.signal.set()
        await self._attached().cancel(self._turn_id or None)

    async def set_thinking_level(self, level: str) -> None:
        """From the next step on: `off`, `low`, `medium` or `high`, in the words of the provider in use."""
        await self._attached().configure(self._thinking_patch(level, self._facts["llm"].partition("/")[0]))
        self._thinking_level = level

    # --- queues ---

    def steer(self, message: Said) -> None:
        """Say something before the next model call."""
        self._queues.steer(message)

    def follow_up(self, message: Said) -> None:
        """Say something when the model would stop."""
        self._queues.follow_up(message)

    def clear_steering(self) -> None:
        self._queues.steering.clear()

    def clear_follow_up(self) -> None:
        self._queues.follow_ups.clear()

    def clear_all_queues(self) -> None:
        self.clear_steering()
        self.clear_follow_up()

    # --- what the session asks between its steps ---

    async def saw(self, request: ProviderRequest) -> None:
        """What goes to the model, before it is changed for this one call."""
        schemas, known = request.tools or (), {tool.name: tool for tool in self._facts.get("tools", ())}
        if [schema.name for schema in schemas] != list(known):  # servers come and go
            new = (ToolInfo(name=schema.name, description=schema.description) for schema in schemas)
            self._facts["tools"] = tuple(known.get(tool.name, tool) for tool in new)
        self._facts["system_prompt"] = request.system

    def has_more(self, turn_id: str) -> bool:
        """Whether there is something to say to a model that has stopped."""
        was_cut = self._response is not None and self._response.stop_reason == "max_tokens"
        return turn_id == self._turn_id and bool(self._queues.steering if was_cut else self._queues)

    async def answered(self, response: ProviderResponse) -> None:
        """The model has answered. If that was its last word, sources may still have something to say."""
        if not self._is_asked:  # by us: this is somebody else's turn
            return
        self._response, self._terminates, self._is_asked = response, {}, False
        if not response.tool_calls:
            await self._queues.pull(has_stopped=True)

    def terminates(self, call_id: str, is_last: bool) -> None:
        """Whether a result asks for the run to end: it does when all of its step do."""
        self._terminates[call_id] = is_last

    async def said(self, turn_id: str) -> Sequence[UserMessage] | None:
        """The last step is over: what is said before the next one, or `None` to stop here."""
        if turn_id != self._turn_id or self._is_asked:  # not our run; or another model is asked the same
            return ()
        await self._caught_up()
        await self._telling.tell(self._view.close_turn())
        response = self._response
        if response is not None and await self._is_enough(response):
            return None
        if response is None or response.tool_calls:
            await self._queues.pull(has_stopped=False)
        has_stopped = self._is_answered
        said = self._queues.take(has_stopped=has_stopped)
        self._forget_step()
        return None if has_stopped and not said else said

    def take_back(self, said: Iterable[UserMessage]) -> None:
        """This could not be put on record."""
        self._queues.take_back(said)

    async def begins(self, turn_id: str) -> None:
        """The next model call comes now."""
        if turn_id == self._turn_id and not self._is_asked:
            await self._caught_up()
            await self._telling.tell(self._view.open_turn())
            self._is_asked = True

    @property
    def _is_answered(self) -> bool:
        return bool(self.messages) and self.messages[-1].role == "assistant"

    def _forget_step(self) -> None:
        self._response, self._terminates, self._is_asked = None, {}, False

    async def _is_enough(self, response: ProviderResponse) -> bool:
        calls = response.tool_calls
        if calls and len(self._terminates) >= len(calls) and all(self._terminates.values()):
            return True
        should_stop = self.options.should_stop_after_turn
        return should_stop is not None and bool(await asked(should_stop, self._turn_done()))

    def _turn_done(self) -> TurnDone:
        messages, at = self.messages, len(self.messages)
        while at and messages[at - 1].role == "tool_result":
            at -= 1
        answer = messages[at - 1] if at and messages[at - 1].role == "assistant" else None
        return TurnDone(answer, tuple(messages[at:]), tuple(messages))

    # --- reading ---

    async def _read(self, records: AsyncIterator[Recorded]) -> None:
        async for record in records:
            await self._telling.tell(self._look_at(record))
            if record.seq:
                self._told = record.seq
                self._progress.set()
                self._progress = trio.Event()

    def _look_at(self, record: Recorded) -> list[EngineEvent]:
        self._seen = record.seq or self._seen
        if isinstance(record.event, ProviderSwitchEvent):
            self._facts["llm"] = f"{record.event.to_provider}/{record.event.to_model}"
        events = self._view.take(record)
        return events if record.turn_id == self._turn_id else []

    async def _caught_up(self) -> None:
        """Wait until everybody has been told of every fact so far."""
        now = self._attached().seq
        while self._told < now:
            await self._progress.wait()

    async def _note_removed(self, session: Driven) -> None:
        removed, self._subscribers.removed = self._subscribers.removed, []
        if removed:
            try:
                await session.adopt([Notice(kind="subscriber_removed", text=text) for text in removed])
            except AarError as error:  # somebody else's turn began; it is in the log
                logger.info("not recorded: %s", error)
