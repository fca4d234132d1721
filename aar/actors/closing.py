"""How a turn is closed in the journal: text that was cut, a result for every call, `turn_ended`."""

from __future__ import annotations

import time

from aar.actors.workbench import Progress
from aar.errors import AarError
from aar.journal.journal import Journal
from aar.journal.state import Session, cut_results
from aar.messages.approvals import ASIDE
from aar.messages.events import (
    ApprovalResolved,
    AssistantMessage,
    ErrorEvent,
    Event,
    ReasoningBlock,
    StopReason,
    StreamChunk,
    TurnEnded,
    TurnStop,
)

__all__ = ["INTERRUPTED", "as_event", "close_turn", "partial_answer", "repair", "withdrawn_questions"]

INTERRUPTED = "Run interrupted"

_CUT: dict[str, StopReason] = {
    "cancelled": StopReason.CANCELLED,
    "timed_out": StopReason.TIMEOUT,
    "error": StopReason.ERROR,
}


async def repair(journal: Journal, *, is_alone: bool = True) -> None:
    """Close a turn that a crash or a kill left open, so that the conversation can go on.

    When it `is_alone` nobody waits for an answer to a question about a command beside the conversation, either.
    """
    await journal.flush()
    if not (journal.session.turn_id or journal.session.open_calls):
        if is_alone and journal.session.open_questions:
            await journal.append(*withdrawn_questions(journal.session))
        return
    results = cut_results(journal.session, "Run interrupted before this tool call was finished.")
    error = ErrorEvent(message=INTERRUPTED, recoverable=True)
    questions = withdrawn_questions(journal.session, of_asides=is_alone)
    await journal.append(*questions, *results, error, TurnEnded(stop="interrupted"), sync=True, header=True)


async def close_turn(journal: Journal, stop: TurnStop, error: ErrorEvent | None, progress: Progress) -> TurnEnded:
    """Record the end of the running turn, and before it whatever it had begun. Raises as `Journal.append`."""
    await journal.flush()
    facts: list[Event] = []
    if progress.is_streaming:
        journal.hint(StreamChunk(finished=True))
    facts += partial_answer(progress, _CUT.get(stop, StopReason.ERROR))
    facts += withdrawn_questions(journal.session, of_asides=False)
    for result in cut_results(journal.session, _cut_reason(stop), progress.said):
        facts.append(progress.done.get(result.tool_call_id, result))
    if error is not None:
        facts.append(error)
    ended = TurnEnded(stop=stop)
    _note_title(journal.session)
    await journal.append(*facts, ended, sync=True, header=True)
    return ended


def partial_answer(progress: Progress, stop: StopReason) -> list[Event]:
    """What a step had said when it was cut, as facts: whoever saw the fragments finds them here."""
    facts: list[Event] = []
    if progress.thoughts:
        facts.append(ReasoningBlock(content=progress.thoughts, data={"partial": True}))
    if progress.text:
        facts.append(AssistantMessage(content=progress.text, stop_reason=stop, data={"partial": True}))
    return facts


def withdrawn_questions(session: Session, *, of_asides: bool = True) -> list[ApprovalResolved]:
    """For every question that nobody answered: other clients still show it.

    Those about commands beside the conversation may go on waiting when a turn ends.
    """
    return [
        ApprovalResolved(tool_call_id=call_id, tool_name=question.tool_name, decision="withdrawn", by="turn")
        for call_id, question in session.open_questions.items()
        if of_asides or not question.data.get(ASIDE)
    ]


def _note_title(fold: Session) -> None:
    fold.metadata["updated_at"] = time.time()
    if "title" not in fold.metadata:
        said = (event.content for event in fold.events if isinstance(event, AssistantMessage))
        first = next((text for text in said if text.strip()), "")
        if first:
            fold.metadata["title"] = first[:60]


def as_event(bug: Exception) -> ErrorEvent:
    """What to tell people of an error that ended a turn."""
    if isinstance(bug, AarError):
        return ErrorEvent(message=str(bug), recoverable=False, data={"kind": type(bug).__name__})
    return ErrorEvent(
        message=f"Internal error ({type(bug).__name__}): {bug}. Please report it; the session can go on.",
        recoverable=True,
        data={"kind": type(bug).__name__},
    )


def _cut_reason(stop: TurnStop) -> str:
    if stop == "timed_out":
        return "The turn timed out before this tool call was finished."
    if stop == "cancelled":
        return "The turn was cancelled before this tool call was finished."
    return "The turn ended before this tool call was finished."
