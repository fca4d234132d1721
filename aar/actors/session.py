"""Service: one session. Its mailbox loop never waits for a turn, so a cancel is heard while a model is thinking.

The turn itself runs beside the loop in a cancel scope of its own. However it ends, what it had begun is closed in the
journal: text that was cut, a result for every call, `turn_ended`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import trio

from aar.actors.closing import INTERRUPTED, as_event, close_turn, repair
from aar.actors.compaction import compact
from aar.actors.configuring import apply_patch
from aar.actors.providers import Providers
from aar.actors.turn import CANCELLED, Controls, run_turn
from aar.actors.workbench import Progress, Workbench
from aar.errors import AarError, ConfigError, QueueFull, SessionClosed, SessionError, StoreError, StoreUnavailable
from aar.kernel import Envelope, Mailbox
from aar.kernel.alone import errors_alone
from aar.messages.base import new_turn_id
from aar.messages.events import (
    ApprovalResolved,
    ErrorEvent,
    Event,
    PromptQueued,
    PromptsCleared,
    TurnEnded,
    TurnStarted,
    TurnStop,
    UserMessage,
)
from aar.messages.session import (
    Adopt,
    AutoApprove,
    Cancel,
    ClearQueue,
    Compact,
    Configure,
    FollowUp,
    GetStatus,
    ListQueue,
    Prompt,
    Queue,
    QueuedPrompt,
    Revoke,
    SessionCommand,
    Status,
    Steer,
)
from aar.providers.base import Provider

__all__ = ["QUEUE_LIMIT", "session"]

QUEUE_LIMIT = 32  # prompts that may wait in one session
CLEAN_UP_TIMEOUT = 10.0  # seconds for closing a turn in the journal, whatever happens around it

logger = logging.getLogger(__name__)


def session(
    bench: Workbench, providers: Providers, *, given: Provider | None = None, queue_limit: int = QUEUE_LIMIT
) -> Callable[[Mailbox[SessionCommand]], Awaitable[None]]:
    """The body of a session's service. `given` is a provider that the application brought itself."""
    starts = 0

    async def body(mailbox: Mailbox[SessionCommand]) -> None:
        nonlocal starts
        starts += 1
        if starts > 1:
            bench.journal.refold()
            await repair(bench.journal)
        async with trio.open_nursery() as nursery:
            conversation = _Conversation(bench, providers, given, nursery, queue_limit)
            try:
                async for envelope in mailbox:
                    await conversation.take(envelope)
            except Exception:
                conversation.has_crashed = True
                raise
            finally:
                conversation.end()

    return body


@dataclass
class _Turn:
    """A prompt from the moment it may run. The scope is there before anything else, so no cancel is lost."""

    prompt: Prompt
    envelope: Envelope[Any]
    scope: trio.CancelScope
    controls: Controls


class _Conversation:
    def __init__(
        self,
        bench: Workbench,
        providers: Providers,
        given: Provider | None,
        nursery: trio.Nursery,
        queue_limit: int,
    ) -> None:
        self._bench = bench
        self._journal = bench.journal
        self._providers = providers
        self._given = given
        self._nursery = nursery
        self._queue_limit = queue_limit
        self.has_crashed = False
        self._running: _Turn | None = None
        self._waiting: deque[tuple[Prompt, Envelope[Any]]] = deque()
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()
        self._provider: Provider | None = None
        self._provider_config: object = None

    async def take(self, envelope: Envelope[SessionCommand]) -> None:
        """Deal with one message: answer it, hand it off, or note it."""
        try:
            await self._dispatch(envelope)
        except (StoreError, SessionError, ConfigError) as error:
            if envelope.answer is None:
                logger.warning("session %s: %s", self._bench.session_id, error)
            envelope.fail(error)

    async def _dispatch(self, envelope: Envelope[SessionCommand]) -> None:
        match envelope.message:
            case Prompt() as prompt:
                await self._take_prompt(prompt, envelope)
            case Cancel() as cancel:
                await self._cancel(cancel)
            case Steer(content=content):
                self._steering.append(UserMessage(content=content, data={"kind": "steering"}))
            case FollowUp(content=content):
                await self._follow_up(content)
            case ListQueue():
                envelope.reply(self._queue())
            case ClearQueue():
                envelope.reply(await self._clear_queue())
            case GetStatus():
                envelope.reply(self._status())
            case Configure(patch=patch):
                envelope.reply(await apply_patch(self._bench, patch))
            case AutoApprove(entry=entry):
                await self._stand(ApprovalResolved(decision="allow", scope="session", by="client", key=entry))
            case Revoke(entry=entry):
                await self._stand(ApprovalResolved(decision="revoked", scope="session", by="client", key=entry))
            case Adopt(facts=facts):
                envelope.reply(await self._adopt(facts))
            case Compact(instructions=instructions):
                self._compact(instructions, envelope)
            case _:
                assert_never(envelope.message)

    def end(self) -> None:
        """The session stops: nobody waits for a prompt that will not run any more."""
        for _, envelope in () if self.has_crashed else self._waiting:
            envelope.fail(SessionClosed(f"session {self._bench.session_id} was closed before this prompt could run"))
        self._waiting.clear()
        if self._provider is not None and self._provider is not self._given:
            self._providers.release(self._provider)
            self._provider = None

    # --- the queue ---

    async def _take_prompt(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        if self._running is None and not self._waiting:
            self._begin(prompt, envelope)
            return
        if len(self._waiting) >= self._queue_limit:
            raise QueueFull(f"{len(self._waiting)} prompts wait already; cancel some or wait for a turn to end")
        queued = PromptQueued(
            content=_text(prompt), parts=prompt.parts, data={"kind": "prompt", "turn_id": prompt.turn_id}
        )
        await self._journal.append(queued)
        self._waiting.append((prompt, envelope))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._running is None and self._waiting:
            self._begin(*self._waiting.popleft())

    def _begin(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        controls = Controls(steering=self._steering, follow_ups=self._follow_ups)
        self._running = _Turn(prompt, envelope, trio.CancelScope(), controls)
        self._nursery.start_soon(self._run, self._running)

    async def _follow_up(self, content: str) -> None:
        name = new_turn_id()
        await self._journal.append(PromptQueued(content=content, data={"kind": "follow_up", "turn_id": name}))
        self._follow_ups.append(UserMessage(content=content, data={"kind": "follow_up", "queued_as": name}))

    def _queue(self) -> Queue:
        waiting = [QueuedPrompt(turn_id=prompt.turn_id, content=_text(prompt)) for prompt, _ in self._waiting]
        live = {item.turn_id for item in waiting} | {str(said.data["queued_as"]) for said in self._follow_ups}
        stored = [
            QueuedPrompt(turn_id=turn_id, content=fact.content, is_stored=True)
            for turn_id, fact in self._journal.session.queued.items()
            if turn_id not in live
        ]
        return Queue(items=[*stored, *waiting])

    async def _clear_queue(self) -> Queue:
        cleared = self._queue()
        dropped, self._waiting = list(self._waiting), deque()
        self._follow_ups.clear()
        if cleared.items or self._journal.session.queued:
            await self._drop(dropped, PromptsCleared(count=len(cleared.items)))
        return cleared

    async def _drop(self, waiting: Sequence[tuple[Prompt, Envelope[Any]]], fact: PromptsCleared) -> None:
        """These are out of the queue, whether that can be recorded or not; their askers learn which."""
        try:
            await self._journal.append(fact)
        except StoreError as error:
            for _, envelope in waiting:
                envelope.fail(error)
            raise
        for prompt, envelope in waiting:
            envelope.reply(TurnEnded(stop="cancelled", data={"turn_id": prompt.turn_id, "never_ran": True}))

    async def _cancel(self, cancel: Cancel) -> None:
        running = self._running
        if running is not None and cancel.turn_id in (None, running.prompt.turn_id):
            if cancel.after_step:
                running.controls.stopping.set()
            else:
                running.scope.cancel()
            return
        found = [item for item in self._waiting if item[0].turn_id == cancel.turn_id]
        if found:
            self._waiting = deque(item for item in self._waiting if item not in found)
            await self._drop(found, PromptsCleared(count=len(found), data={"turn_ids": [cancel.turn_id]}))

    # --- a turn ---

    async def _run(self, turn: _Turn) -> None:
        try:
            await self._run_in_scope(turn)
        except StoreError as error:
            logger.error("session %s could not record its turn: %s", self._bench.session_id, error)
            turn.envelope.fail(error)
        finally:
            self._running = None
        turn.envelope.fail(StoreUnavailable("the end of this turn could not be recorded in time"))
        self._begin_next()

    async def _run_in_scope(self, turn: _Turn) -> None:
        prompt = turn.prompt
        opening = UserMessage(content=_text(prompt), parts=prompt.parts, data={"kind": "prompt"})
        with trio.CancelScope(shield=True):  # a prompt that was taken is on record, also when it is cancelled at once
            await repair(self._journal)  # only after a failed write can there be anything to do
            await self._journal.append(TurnStarted(), opening, turn_id=prompt.turn_id)
        progress = Progress()
        stop: TurnStop | None = None
        error: ErrorEvent | None = None
        refused: StoreError | None = None
        timeout = self._bench.config.timeout
        try:
            with errors_alone(), turn.scope, trio.move_on_after(timeout or float("inf")) as deadline:
                stop = await run_turn(self._bench, self._provider_in_force(), turn.controls, progress)
            if deadline.cancelled_caught:
                stop = "timed_out"
                error = ErrorEvent(message=f"Agent timed out after {timeout:g}s", recoverable=False)
        except StoreError as failure:
            refused = failure
            stop, error = "error", as_event(failure)
        except Exception as bug:  # a wall: a bug in a turn ends the turn, not the session
            trace = None if isinstance(bug, AarError | ValueError) else bug  # people can mend those: no traceback
            level = logging.INFO if trace is None else logging.ERROR  # what people can mend is told as an event
            logger.log(level, "a turn of session %s failed: %s", self._bench.session_id, bug, exc_info=trace)
            stop, error = "error", as_event(bug)
        finally:
            if stop is None and self.has_crashed:
                stop, error = "interrupted", ErrorEvent(message=INTERRUPTED, recoverable=True)
            elif stop is None:  # cancelled: this turn, its session, or everything
                stop, error = "cancelled", ErrorEvent(message=CANCELLED, recoverable=False)
            with trio.move_on_after(CLEAN_UP_TIMEOUT, shield=True):
                ended = await close_turn(self._journal, stop, error, progress)
                if refused is None:
                    turn.envelope.reply(ended)
        if refused is not None:
            raise refused

    def _provider_in_force(self) -> Provider:
        config = self._bench.config.resolve_provider()
        if self._given is not None and "provider" not in self._journal.session.patch:
            return self._given
        if self._provider is None or self._provider_config != config:
            former, self._provider = self._provider, self._providers.acquire(config)
            self._provider_config = config
            if former is not None:
                self._providers.release(former)
        return self._provider

    # --- the rest ---

    async def _stand(self, fact: ApprovalResolved) -> None:
        await self._journal.append(fact.model_copy(update={"tool_name": fact.key.partition(":")[0]}))

    async def _adopt(self, facts: Sequence[Event]) -> int:
        if self._running is not None:
            raise SessionError("a turn is running: facts from elsewhere would get between its own")
        await self._journal.append(*facts, turn_id="")
        return self._journal.seq

    def _compact(self, instructions: str, envelope: Envelope[Any]) -> None:
        if self._running is not None:
            raise SessionError("a turn is running: cancel it or wait for its end before compacting")
        turn = _Turn(Prompt(), envelope, trio.CancelScope(), Controls())
        self._running = turn
        self._nursery.start_soon(self._run_compaction, turn, instructions)

    async def _run_compaction(self, turn: _Turn, instructions: str) -> None:
        try:
            with turn.scope:
                done = await compact(self._bench, self._provider_in_force(), instructions)
                turn.envelope.reply(done)
        except AarError as error:
            turn.envelope.fail(error)
        finally:
            self._running = None
        turn.envelope.fail(SessionError("the compaction was cancelled"))
        self._begin_next()

    def _status(self) -> Status:
        fold = self._journal.session
        return Status(
            session_id=fold.session_id,
            state=fold.state,
            turn_id=self._running.prompt.turn_id if self._running is not None else "",
            seq=fold.seq,
            step_count=fold.step_count,
            input_tokens=fold.total_input_tokens,
            output_tokens=fold.total_output_tokens,
            cost=fold.total_cost,
            queue_length=len(self._waiting),
        )


def _text(prompt: Prompt) -> str:
    return prompt.content or UserMessage.of(list(prompt.parts)).content
