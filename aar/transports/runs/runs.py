"""The runs of one server. Each is done by a service of its own, so that it may outlive the request that began it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import trio

from aar.agent import ApprovalCallback, answer_question
from aar.client import SessionHandle
from aar.errors import AarError
from aar.groups import leaves
from aar.messages.events import ApprovalRequested, TurnEnded
from aar.runtime import Runtime, ToolRegistry, toolbox_for
from aar.transports.http.refused import Refused
from aar.transports.program.sentences import sentence
from aar.transports.runs.conversations import Conversations
from aar.transports.runs.job import Job
from aar.transports.runs.run import Run

__all__ = ["Runs"]

MOST_LIVE = 500  # runs that are not over
MOST_KEPT = 1000  # runs that are over and can still be asked for
MOST_WEIGHT = 64 * 1024 * 1024  # bytes of those, about

logger = logging.getLogger(__name__)


class Runs:
    """What was begun here and is not forgotten. Nobody is asked without an `approval_callback`: the answer is no."""

    def __init__(
        self,
        runtime: Runtime,
        conversations: Conversations,
        *,
        tools: ToolRegistry | None = None,
        approval_callback: ApprovalCallback | None = None,
    ) -> None:
        self._runtime = runtime
        self._conversations = conversations
        self._tools = toolbox_for(runtime.config, tools)
        self._approval_callback = approval_callback
        self._live: dict[str, Job] = {}
        self._kept: dict[str, Run] = {}
        self._weight = 0
        self._is_closed = False

    def find(self, run_id: str) -> Run | None:
        found = self._live.get(run_id) or self._kept.get(run_id)
        return found if isinstance(found, Run) else None

    def check_room(self) -> None:
        """Raises `Refused` when there are too many runs already, or no more are taken."""
        if self._is_closed:
            raise Refused(503, "The server is shutting down")
        if len(self._live) >= MOST_LIVE:
            raise Refused(429, f"{MOST_LIVE} runs are not over yet; try again later")

    def begin(self, run: Job) -> None:
        """Returns at once. The run goes on until it is over or cancelled, whoever leaves."""
        if self._is_closed:
            run.cancel()
        self._runtime.start(f"run:{run.run_id}", partial(self._perform, run))
        self._live[run.run_id] = run

    async def close(self) -> None:
        """Take no more runs, and wait until those there are have been cancelled."""
        self._is_closed = True
        live = list(self._live.values())
        for run in live:
            run.cancel()
        for run in live:
            await run.settled.wait()

    # --- doing one --------------------------------------------------------------------------------

    async def _perform(self, run: Job) -> None:
        stop, error = "cancelled", ""
        try:
            stop = await self._stop_of(run)
        except* AarError as errors:
            stop = "error"
            error = _told(run, errors)
        except* Exception as errors:  # a wall: a run that fails by a mistake of ours is a failed run
            logger.error("run %s failed", run.run_id, exc_info=errors)
            stop = "error"
            error = _told(run, errors)
        finally:
            run.settle(stop, error)
            self._keep(run)

    async def _stop_of(self, run: Job) -> str:
        """Why its turn ended. Cancelling the run before its turn ends it at once, and later ends the turn."""
        async with AsyncExitStack() as stack:
            with run.waiting:
                conversation = await stack.enter_async_context(self._conversations.joined(run.request.session_id))
                run.place(conversation.handle.session_id)
                await stack.enter_async_context(conversation.turn)
                await conversation.use(run.request.provider, run.request.safety)
                await run.enter(conversation.handle)
            if run.waiting.cancelled_caught:
                return "cancelled"
            run.begin()
            return await self._take_turn(run, conversation.handle)

    async def _take_turn(self, run: Job, handle: SessionHandle) -> str:
        stop = ""
        callback = self._approval_callback if run.request.may_be_approved else None
        async with AsyncExitStack() as stack:
            if callback is not None:
                await stack.enter_async_context(handle.attend())
            records = stack.enter_context(handle.follow(after=handle.seq))
            turn_id, ended = await stack.enter_async_context(handle.running(run.request.prompt))
            nursery = await stack.enter_async_context(trio.open_nursery())
            nursery.start_soon(_cancel_when_asked, run, handle, turn_id)
            nursery.start_soon(_watch, run, ended, nursery.cancel_scope)
            async for record in records:
                if record.turn_id != turn_id:
                    continue
                run.notice(record.event)
                if isinstance(record.event, ApprovalRequested) and callback is not None:
                    nursery.start_soon(answer_question, callback, self._tools, handle, record.event)
                if isinstance(record.event, TurnEnded):
                    stop = record.event.stop
                    break
                await run.keep_pace()
            stop = stop or (await ended()).stop
            nursery.cancel_scope.cancel()
        return stop or "cancelled"

    # --- remembering it ---------------------------------------------------------------------------

    def _keep(self, run: Job) -> None:
        """The newest that are over stay known, for as long as they do not take too much room."""
        del self._live[run.run_id]
        if not isinstance(run, Run):
            return
        self._kept[run.run_id] = run
        self._weight += run.weight
        while len(self._kept) > MOST_KEPT or (self._weight > MOST_WEIGHT and len(self._kept) > 1):
            self._weight -= self._kept.pop(next(iter(self._kept))).weight


def _told(run: Job, errors: BaseExceptionGroup[Exception]) -> str:
    """What went wrong, in words; which is noted as the failure of the run."""
    found = list(leaves(errors))
    run.failure = run.failure or found[0]
    return "\n".join(dict.fromkeys(map(sentence, found)))


async def _cancel_when_asked(run: Job, handle: SessionHandle, turn_id: str) -> None:
    await run.cancelled.wait()
    await handle.cancel(turn_id)


async def _watch(run: Job, ended: Callable[[], Awaitable[TurnEnded]], scope: trio.CancelScope) -> None:
    """A turn that cannot be raises; one that was cancelled before it began leaves no fact to wait for."""
    if (await ended()).data.get("never_ran"):
        scope.cancel()
    run.hurry()
