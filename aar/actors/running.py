"""A turn inside its cancel scope: opened in the journal, run, and closed there whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import trio

from aar.actors.closing import INTERRUPTED, as_event, close_turn, repair
from aar.actors.turn import CANCELLED, Controls, run_turn
from aar.actors.workbench import Progress, Workbench, heard
from aar.errors import AarError, StoreError
from aar.kernel import Envelope
from aar.kernel.alone import errors_alone
from aar.messages.events import ErrorEvent, Event, TurnEnded, TurnStarted, TurnStop, UserMessage
from aar.messages.session import Prompt
from aar.providers.base import Provider

__all__ = ["RunningTurn", "run_in_scope", "text_of"]

logger = logging.getLogger(__name__)


@dataclass
class RunningTurn:
    """A prompt from the moment it may run. The scope is there before anything else, so no cancel is lost.

    `was_interrupted` is set when the session itself fails around it.
    """

    prompt: Prompt
    envelope: Envelope[Any]
    controls: Controls
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    hearing: trio.CancelScope = field(default_factory=trio.CancelScope)  # while hooks look at the prompt
    was_interrupted: bool = False
    is_on_record: bool = False

    def cancel(self) -> None:
        self.hearing.cancel()
        self.scope.cancel()


class _Outcome(NamedTuple):
    stop: TurnStop
    error: ErrorEvent | None = None
    refused: StoreError | None = None


async def run_in_scope(bench: Workbench, turn: RunningTurn, provider: Callable[[], Provider]) -> TurnEnded:
    """Run a turn to its end, put that on record, and answer the prompt. Raises `StoreError` when it cannot be."""
    progress = Progress()
    outcome: _Outcome | None = None
    try:
        await _open(bench, turn)
        await trio.lowlevel.checkpoint()  # what was said right behind the prompt is heard before the first step
        outcome = await _run(bench, turn, provider, progress)
    finally:
        if turn.is_on_record:
            outcome = outcome or _cancelled(turn)
            with trio.CancelScope(shield=True):  # bounded by the journal's own limit
                ended = await close_turn(bench.journal, outcome.stop, outcome.error, progress)
            if outcome.refused is None:
                turn.envelope.reply(ended)  # here, since whatever cancelled the turn goes on from here
    assert outcome is not None  # what is not on record has left with an error
    if outcome.refused is not None:
        raise outcome.refused
    return ended


async def _open(bench: Workbench, turn: RunningTurn) -> None:
    """A prompt that was taken is on record, also when it is cancelled at once, or while hooks look at it."""
    prompt, journal = turn.prompt, bench.journal
    said = UserMessage(content=text_of(prompt), parts=prompt.parts, data={"kind": "prompt"})
    kept: dict[str, Any] = {}
    notices: list[Event] = []
    try:
        if not prompt.goes_on and (bench.config.file_snapshots or bench.hooks.before_user_message):
            with turn.hearing:
                notices = await _files_kept(bench, kept)
                said = await heard(bench, said)
    except Exception as error:  # a wall: what is cancelled here may raise on its way out
        logger.warning("a before_user_message hook failed", exc_info=error)
    finally:
        with trio.CancelScope(shield=True):
            await repair(journal, is_alone=False)  # only after a failed write can there be anything to do
            facts = [TurnStarted()] if prompt.goes_on else [TurnStarted(data=kept), said, *notices]
            await journal.append(*facts, turn_id=prompt.turn_id)
        turn.is_on_record = True


async def _files_kept(bench: Workbench, kept: dict[str, Any]) -> list[Event]:
    if not bench.config.file_snapshots:
        return []
    from aar.actors.snapshotting import files_before

    return await files_before(bench, kept)


async def _run(
    bench: Workbench, turn: RunningTurn, provider: Callable[[], Provider], progress: Progress
) -> _Outcome | None:
    """How the turn ended, `None` when its scope was cancelled."""
    stop: TurnStop | None = None
    try:
        timeout = bench.config.timeout
        with errors_alone(), turn.scope, trio.move_on_after(timeout or float("inf")) as deadline:
            stop = await run_turn(bench, provider, turn.controls, progress)
    except StoreError as refused:
        return _Outcome("error", as_event(refused), refused)
    except AarError as error:
        logger.info("a turn of session %s failed: %s", bench.session_id, error)  # told as an event
        return _Outcome("error", as_event(error))
    except Exception as bug:  # a wall: a bug in a turn ends the turn, not the session
        logger.error("a turn of session %s failed: %s", bench.session_id, bug, exc_info=bug)
        return _Outcome("error", as_event(bug))
    if deadline.cancelled_caught:
        return _Outcome("timed_out", ErrorEvent(message=f"Agent timed out after {timeout:g}s", recoverable=False))
    return _Outcome(stop) if stop is not None else None


def _cancelled(turn: RunningTurn) -> _Outcome:
    """This turn was cancelled, or its session, or everything."""
    if turn.was_interrupted:
        return _Outcome("interrupted", ErrorEvent(message=INTERRUPTED, recoverable=True))
    return _Outcome("cancelled", ErrorEvent(message=CANCELLED, recoverable=False))


def text_of(prompt: Prompt) -> str:
    return prompt.content or UserMessage.of(list(prompt.parts)).content
