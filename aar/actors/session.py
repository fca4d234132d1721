"""Service: one session. Its mailbox loop never waits for a turn, so a cancel is heard while a model is thinking.

The turn itself runs beside the loop in a cancel scope of its own. However it ends, what it had begun is closed in the
journal: text that was cut, a result for every call, `turn_ended`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, assert_never

import trio

from aar.actors.closing import repair
from aar.actors.configuring import apply_patch
from aar.actors.model_in_force import ModelInForce
from aar.actors.providers import Providers
from aar.actors.running import RunningTurn, run_in_scope, text_of
from aar.actors.turn import Controls
from aar.actors.workbench import Workbench
from aar.errors import AarError, QueueFull, SequenceConflict, SessionClosed, SessionError, StoreError
from aar.kernel import Envelope, Mailbox
from aar.kernel.alone import errors_alone
from aar.messages.base import new_turn_id
from aar.messages.events import (
    ApprovalResolved,
    Event,
    Notice,
    PromptQueued,
    PromptsCleared,
    TurnEnded,
    UserMessage,
)
from aar.messages.session import (
    Adopt,
    AskMcp,
    AutoApprove,
    Cancel,
    ClearQueue,
    Compact,
    Configure,
    FollowUp,
    GetStatus,
    ListCommands,
    ListMcp,
    ListQueue,
    ListTools,
    Prompt,
    Queue,
    QueuedPrompt,
    Revoke,
    RunCommand,
    SessionCommand,
    Status,
    Steer,
)
from aar.providers.base import Provider

__all__ = ["QUEUE_LIMIT", "session"]

QUEUE_LIMIT = 32  # prompts that may wait in one session
NOTES_LIMIT = 64  # messages that may wait to be written; then the mailbox fills up

logger = logging.getLogger(__name__)


def session(
    bench: Workbench,
    providers: Providers,
    *,
    given: Provider | None = None,
    given_for: str = "",
    queue_limit: int = QUEUE_LIMIT,
) -> Callable[[Mailbox[SessionCommand]], Awaitable[None]]:
    """The body of a session's service.

    `given` is a provider that the application brought itself; it stands for the model `given_for`.
    """
    starts = 0

    async def body(mailbox: Mailbox[SessionCommand]) -> None:
        nonlocal starts
        starts += 1
        if starts > 1:
            bench.journal.refold()
            await repair(bench.journal)
        model = ModelInForce(bench, providers, given, given_for)
        try:
            async with trio.open_nursery() as nursery:
                await _Conversation(bench, model, nursery, queue_limit).serve(mailbox)
        finally:
            model.release()

    return body


class _Conversation:
    """The mailbox loop, and beside it two tasks: the scribe, and the turn when there is one.

    The loop answers what needs no writing. Whatever writes goes to the scribe, in order, so that a slow disk delays
    notes and never a cancel.
    """

    def __init__(self, bench: Workbench, model: ModelInForce, nursery: trio.Nursery, queue_limit: int) -> None:
        self._bench = bench
        self._journal = bench.journal
        self._model = model
        self._nursery = nursery
        self._queue_limit = queue_limit
        self._running: RunningTurn | None = None
        # Short lists: a deque takes room for 64 entries at once, in each of a thousand idle sessions.
        self._waiting: list[tuple[Prompt, Envelope[Any]]] = []
        self._steering: list[UserMessage] = []
        self._follow_ups: list[UserMessage] = []
        self._to_write, self._notes = trio.open_memory_channel[Envelope[SessionCommand]](NOTES_LIMIT)
        self._being_written = 0

    async def serve(self, mailbox: Mailbox[SessionCommand]) -> None:
        self._nursery.start_soon(self._write_notes)
        self._nursery.start_soon(self._bench.servers.keep)
        try:
            async for envelope in mailbox:
                if not self._answer_at_once(envelope):
                    self._being_written += 1
                    await self._to_write.send(envelope)
        except Exception:
            self._fail()
            raise
        finally:
            self._refuse_waiting()

    def _fail(self) -> None:
        """The session itself fails: what runs is interrupted, and the askers are told by the supervisor."""
        self._waiting.clear()
        if self._running is not None:
            self._running.was_interrupted = True

    def _refuse_waiting(self) -> None:
        """The session stops: nobody waits for a prompt that will not run any more."""
        for _, envelope in self._waiting:
            envelope.fail(SessionClosed(f"session {self._bench.session_id} was closed before this prompt could run"))
        self._waiting.clear()

    # --- what needs no writing ---

    def _answer_at_once(self, envelope: Envelope[SessionCommand]) -> bool:
        """Deal with a message if that needs no writing and nothing that came before it waits to be written."""
        match envelope.message:
            case GetStatus():
                envelope.reply(self._status())
            case ListQueue():
                envelope.reply(self._queue())
            case ListTools():
                envelope.reply(self._bench.tools())
            case ListMcp() | AskMcp():
                self._nursery.start_soon(self._bench.servers.answer, envelope)
            case ListCommands() | RunCommand():
                self._nursery.start_soon(self._bench.commands.answer, envelope)
            case Cancel() as cancel if self._is_running(cancel):
                self._cancel_running(cancel)
            case Steer(content=content) if len(self._steering) < self._queue_limit:
                self._steering.append(UserMessage(content=content, data={"kind": "steering"}))
            case Prompt() as prompt if self._running is None and not self._waiting and not self._being_written:
                self._begin(prompt, envelope)
            case _:
                return False
        return True

    def _is_running(self, cancel: Cancel) -> bool:
        return self._running is not None and cancel.turn_id in (None, self._running.prompt.turn_id)

    def _cancel_running(self, cancel: Cancel) -> None:
        assert self._running is not None
        if cancel.after_step:
            self._running.controls.stopping.set()
        else:
            self._running.cancel()

    # --- what is written ---

    async def _write_notes(self) -> None:
        async for envelope in self._notes:
            try:
                await self._note(envelope)
            except SequenceConflict as error:
                envelope.fail(error)
                self._lose_ownership(error)
            except AarError as error:
                if envelope.answer is None:
                    logger.warning("session %s: %s", self._bench.session_id, error)
                envelope.fail(error)
            except Exception:
                self._fail()
                raise
            finally:
                self._being_written -= 1

    async def _note(self, envelope: Envelope[SessionCommand]) -> None:
        match envelope.message:
            case Prompt() as prompt:
                await self._take_prompt(prompt, envelope)
            case Cancel() as cancel:
                await self._cancel(cancel)
            case Steer():
                await self._turn_away("steering")
            case FollowUp(content=content):
                await self._follow_up(content)
            case ClearQueue():
                envelope.reply(await self._clear_queue())
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
            case GetStatus() | ListQueue() | ListTools() | ListMcp() | AskMcp() | ListCommands() | RunCommand():
                pass  # answered at once, always
            case _:
                assert_never(envelope.message)

    def _lose_ownership(self, error: SequenceConflict) -> None:
        """Somebody else writes this journal: it is no longer ours, and the session ends."""
        logger.error("session %s ends: %s", self._bench.session_id, error)
        self._nursery.cancel_scope.cancel()

    # --- the queue ---

    async def _take_prompt(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        if self._running is None and not self._waiting:
            self._begin(prompt, envelope)
            return
        if len(self._waiting) >= self._queue_limit:
            raise QueueFull(f"{len(self._waiting)} prompts wait already; cancel some or wait for a turn to end")
        data = {"kind": "prompt", "turn_id": prompt.turn_id}
        await self._journal.append(PromptQueued(content=text_of(prompt), parts=prompt.parts, data=data))
        self._waiting.append((prompt, envelope))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._running is None and self._waiting:
            self._begin(*self._waiting.pop(0))

    def _begin(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        controls = Controls(steering=self._steering, follow_ups=self._follow_ups)
        self._running = RunningTurn(prompt, envelope, controls)
        self._nursery.start_soon(self._run, self._running)

    async def _follow_up(self, content: str) -> None:
        if len(self._follow_ups) >= self._queue_limit:
            await self._turn_away("follow-ups")
            return
        name = new_turn_id()
        await self._journal.append(PromptQueued(content=content, data={"kind": "follow_up", "turn_id": name}))
        self._follow_ups.append(UserMessage(content=content, data={"kind": "follow_up", "queued_as": name}))

    async def _turn_away(self, what: str) -> None:
        text = f"{self._queue_limit} messages ({what}) wait already; this one was not taken."
        await self._journal.append(Notice(kind="queue_full", text=text))

    def _queue(self) -> Queue:
        waiting = [QueuedPrompt(turn_id=prompt.turn_id, content=text_of(prompt)) for prompt, _ in self._waiting]
        later = [
            QueuedPrompt(turn_id=str(said.data["queued_as"]), content=said.content, is_follow_up=True)
            for said in self._follow_ups
        ]
        live = {item.turn_id for item in (*waiting, *later)}
        if self._running is not None:
            live.add(self._running.prompt.turn_id)
        stored = [
            QueuedPrompt(turn_id=turn_id, content=fact.content, is_stored=True)
            for turn_id, fact in self._journal.session.queued.items()
            if turn_id not in live
        ]
        return Queue(items=[*stored, *waiting, *later])

    async def _clear_queue(self) -> Queue:
        cleared = self._queue()
        dropped, self._waiting = self._waiting, []
        self._follow_ups.clear()
        if cleared.items:
            names = [item.turn_id for item in cleared.items]
            await self._drop(dropped, PromptsCleared(count=len(names), data={"turn_ids": names}))
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
        if self._is_running(cancel):  # it began while this waited its turn
            self._cancel_running(cancel)
            return
        found = [item for item in self._waiting if item[0].turn_id == cancel.turn_id]
        if found:
            self._waiting = [item for item in self._waiting if item not in found]
            await self._drop(found, PromptsCleared(count=len(found), data={"turn_ids": [cancel.turn_id]}))

    # --- a turn ---

    async def _run(self, turn: RunningTurn) -> None:
        try:
            ended = await run_in_scope(self._bench, turn, self._model.in_force)
            if ended.stop == "cancelled":
                self._steering.clear()  # it was said to the turn that is gone
        except StoreError as error:
            logger.error("session %s could not record its turn: %s", self._bench.session_id, error)
            turn.envelope.fail(error)
            if isinstance(error, SequenceConflict):
                self._lose_ownership(error)
        finally:
            self._running = None
        self._begin_next()

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
        turn = RunningTurn(Prompt(turn_id=""), envelope, Controls())
        self._running = turn
        self._nursery.start_soon(self._run_compaction, turn, instructions)

    async def _run_compaction(self, turn: RunningTurn, instructions: str) -> None:
        from aar.actors.compaction import compact

        try:
            with errors_alone(), turn.scope:
                done = await compact(self._bench, self._model.in_force(), turn.controls, instructions)
                turn.envelope.reply(done)
        except AarError as error:
            turn.envelope.fail(error)
        except Exception as bug:  # the same wall as around a turn
            logger.error("compacting session %s failed", self._bench.session_id, exc_info=bug)
            turn.envelope.fail(SessionError(f"internal error ({type(bug).__name__}): {bug}"))
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
            queue_length=len(self._waiting) + len(self._follow_ups),
        )
