"""Service: one session. Its mailbox loop never waits for a turn, so a cancel is heard while a model is thinking.

The turn itself runs beside the loop in a cancel scope of its own. However it ends, what it had begun is closed in the
journal: text that was cut, a result for every call, `turn_ended`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, assert_never

import trio

from aar.actors.closing import repair
from aar.actors.configuring import apply_patch
from aar.actors.model_in_force import ModelInForce
from aar.actors.providers import Providers
from aar.actors.queueing import PromptQueue
from aar.actors.running import RunningTurn, run_in_scope
from aar.actors.turn import Controls
from aar.actors.workbench import Workbench
from aar.errors import AarError, QueueFull, SequenceConflict, SessionClosed, SessionError, StoreError
from aar.kernel import Envelope, Mailbox
from aar.kernel.alone import errors_alone
from aar.messages.events import ApprovalResolved, SessionEvent
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
    Revoke,
    RunCommand,
    SessionCommand,
    Status,
    Steer,
)
from aar.providers.base import Provider

__all__ = ["QUEUE_LIMIT", "session"]

QUEUE_LIMIT = 32  # prompts that may wait in one session
ASIDES_AT_ONCE = 4  # commands that people may have running beside the conversation
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

    def __init__(
        self,
        bench: Workbench,
        model: ModelInForce,
        nursery: trio.Nursery,
        queue_limit: int,
    ) -> None:
        self._bench = bench
        self._journal = bench.journal
        self._model = model
        self._nursery = nursery
        self._running: RunningTurn | None = None
        self._queue = PromptQueue(bench.journal, queue_limit)
        self._to_write, self._notes = trio.open_memory_channel[Envelope[SessionCommand]](NOTES_LIMIT)
        self._being_written = 0
        self._asides = 0

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
            text = f"session {self._bench.session_id} was closed before this prompt could run"
            self._queue.refuse_prompts(SessionClosed(text))

    def _fail(self) -> None:
        """The session itself fails: what runs is interrupted, and the askers are told by the supervisor."""
        self._queue.forget_prompts()
        if self._running is not None:
            self._running.was_interrupted = True

    # --- what needs no writing ---

    def _answer_at_once(self, envelope: Envelope[SessionCommand]) -> bool:
        """Deal with a message if that needs no writing and nothing that came before it waits to be written."""
        match envelope.message:
            case GetStatus():
                envelope.reply(self._status())
            case ListQueue():
                envelope.reply(self._queue.listing(self._running_id))
            case ListTools(everything=everything):
                envelope.reply(self._bench.tools(everything=everything))
            case ListMcp() | AskMcp():
                self._nursery.start_soon(self._bench.servers.answer, envelope)
            case RunCommand(is_shell=True) as command:
                self._nursery.start_soon(self._run_aside, command.arguments, envelope)
            case ListCommands() | RunCommand():
                self._nursery.start_soon(self._bench.commands.answer, envelope)
            case Cancel() as cancel if self._is_running(cancel):
                self._cancel_running(cancel)
            case Steer(content=content) if self._queue.steer_nowait(content):
                pass
            case Prompt() as prompt if self._is_idle:
                self._begin(prompt, envelope)
            case _:
                return False
        return True

    @property
    def _is_idle(self) -> bool:
        return self._running is None and not self._queue.has_prompts and not self._being_written

    @property
    def _running_id(self) -> str | None:
        return self._running.prompt.turn_id if self._running is not None else None

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
                await self._queue.turn_away("steering")
            case FollowUp(content=content):
                await self._queue.put_follow_up(content)
            case ClearQueue():
                envelope.reply(await self._queue.clear(self._running_id))
            case Configure(patch=patch):
                envelope.reply(await apply_patch(self._bench, patch))
            case AutoApprove(entry=entry, by=by):
                await self._stand(ApprovalResolved(decision="allow", scope="session", by=by, key=entry))
            case Revoke(entry=entry, by=by):
                await self._stand(ApprovalResolved(decision="revoked", scope="session", by=by, key=entry))
            case Adopt() as adopt:
                envelope.reply(await self._adopt(adopt))
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

    # --- what waits ---

    async def _take_prompt(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        if self._running is None and not self._queue.has_prompts:
            self._begin(prompt, envelope)
            return
        await self._queue.put(prompt, envelope)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._running is None and (following := self._queue.next_prompt()) is not None:
            self._begin(*following)

    def _begin(self, prompt: Prompt, envelope: Envelope[Any]) -> None:
        controls = Controls(steering=self._queue.steering, follow_ups=self._queue.follow_ups)
        self._running = RunningTurn(prompt, envelope, controls)
        self._nursery.start_soon(self._run, self._running)

    async def _cancel(self, cancel: Cancel) -> None:
        if self._is_running(cancel):  # it began while this waited its turn
            self._cancel_running(cancel)
        else:
            await self._queue.withdraw(cancel.turn_id)

    # --- a turn ---

    async def _run(self, turn: RunningTurn) -> None:
        try:
            ended = await run_in_scope(self._bench, turn, self._model.in_force)
            if ended.stop == "cancelled":
                self._queue.steering.clear()  # it was said to the turn that is gone
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

    async def _adopt(self, adopt: Adopt) -> int:
        if self._running is not None:
            raise SessionError("a turn is running: facts from elsewhere would get between its own")
        if adopt.after_seq not in (None, self._journal.seq):
            raise SessionError("something was said meanwhile: look at it, and try again")
        await self._journal.append(*adopt.facts, turn_id="")
        if any(isinstance(fact, SessionEvent) for fact in adopt.facts):
            await self._journal.append(header=True)  # a new name is to be seen in listings
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
                done = await compact(self._bench, self._model.in_force(), turn.controls.stopping, instructions)
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

    async def _run_aside(self, command: str, envelope: Envelope[Any]) -> None:
        from aar.actors.aside import answer_aside  # people ask for one rarely

        if self._running is not None:
            envelope.fail(SessionError("a turn is running: wait for its end before you run a command"))
        elif self._asides >= ASIDES_AT_ONCE:
            envelope.fail(QueueFull(f"{self._asides} commands run already; wait until one of them is done"))
        else:
            self._asides += 1
            await answer_aside(self._bench, command, envelope)
            self._asides -= 1

    def _status(self) -> Status:
        fold = self._journal.session
        return Status(
            session_id=fold.session_id,
            state=fold.state,
            turn_id=self._running_id or "",
            seq=fold.seq,
            step_count=fold.step_count,
            input_tokens=fold.total_input_tokens,
            output_tokens=fold.total_output_tokens,
            cost=fold.total_cost,
            queue_length=len(self._queue),
        )
