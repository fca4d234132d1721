"""One turn at the terminal: shown while it runs, its questions asked, ended by Ctrl+C."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from aar.client import PromptContent, SessionHandle
from aar.messages.events import Recorded, TurnEnded
from aar.transports.cli.approve import Approver
from aar.transports.cli.progress import Progress
from aar.transports.cli.signals import Interrupts
from aar.transports.program.screen import Screen

__all__ = ["TurnView", "questions_shown", "take_turn", "watch_turn"]

Show = Callable[[Recorded], Awaitable[None]]


class TurnView(NamedTuple):
    """What a turn needs of the terminal. `show` gets every fact of the turn, and its hints.

    With a `pace` it gets every single hint, and the turn waits while `show` is so many items behind. `shows_status`:
    a line tells what goes on while nothing else is written.
    """

    screen: Screen
    approver: Approver
    interrupts: Interrupts
    label: str
    show: Show
    pace: int = 0
    shows_status: bool = True


async def take_turn(handle: SessionHandle, prompt: PromptContent, view: TurnView) -> TurnEnded:
    """Run a turn and show it. Answers with its end when all of it has been shown."""
    after = handle.seq
    progress = Progress(view.screen, view.label)

    async with handle.running(prompt) as (turn_id, ended):

        async def cancel() -> None:
            progress.is_cancelling = True
            view.screen.echoed_interrupt()
            await handle.cancel(turn_id)

        with view.interrupts.during_turn(cancel):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_follow, handle, after, turn_id, view, progress)
                end = await ended()
                if end.data.get("never_ran"):
                    nursery.cancel_scope.cancel()
    return end


async def watch_turn(
    handle: SessionHandle, after: int, turn_id: str, view: TurnView, *, cancels: bool
) -> TurnEnded | None:
    """Show a turn that somebody else has begun. Answers with its end, or nothing when it was not shown up to there.

    Ctrl+C cancels it, or only stops looking at it.
    """
    progress = Progress(view.screen, view.label)
    end: TurnEnded | None = None
    with trio.CancelScope() as looking:

        async def interrupt() -> None:
            view.screen.echoed_interrupt()
            if cancels:
                progress.is_cancelling = True
                await handle.cancel(turn_id)
            else:
                looking.cancel()

        with view.interrupts.during_turn(interrupt):
            end = await _follow(handle, after, turn_id, view, progress)
    if looking.cancelled_caught:
        view.approver.forget()
        await view.show(Recorded(0, turn_id, TurnEnded()))  # what was shown of an answer is over
    return end


async def _follow(
    handle: SessionHandle, after: int, turn_id: str, view: TurnView, progress: Progress
) -> TurnEnded | None:
    end: TurnEnded | None = None
    async with trio.open_nursery() as nursery:
        if view.shows_status:
            nursery.start_soon(progress.run)
        with handle.follow(after=after, pace=view.pace) as records:
            async for record in records:
                progress.notice(record.event)
                await view.show(record)
                view.approver.notice(record.event, nursery)
                await view.approver.remind()
                if isinstance(record.event, TurnEnded) and record.turn_id == turn_id:
                    end = record.event
                    break
        await view.screen.status("")
        nursery.cancel_scope.cancel()
    return end


@asynccontextmanager
async def questions_shown(handle: SessionHandle, approver: Approver) -> AsyncIterator[None]:
    """Inside this block people are asked about what runs beside the turns. An error of the block comes in a group."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_questions, handle, handle.seq, approver, nursery)
        yield
        nursery.cancel_scope.cancel()


async def _show_questions(handle: SessionHandle, after: int, approver: Approver, nursery: trio.Nursery) -> None:
    with handle.follow(after=after) as records:
        async for record in records:
            approver.notice(record.event, nursery)
            await approver.remind()
