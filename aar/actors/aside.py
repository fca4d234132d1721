"""Worker: a shell command that a person asked for, beside the conversation.

It goes the way of every call of the tool `bash`: hooks, policy, approval, sandbox. What it says goes to whoever asked;
the conversation does not know of it. That it ran is on record.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import trio

from aar.actors.closing import withdrawn_questions
from aar.actors.outbox import Outbox
from aar.actors.tool_call import run_call
from aar.actors.workbench import Progress, Workbench
from aar.errors import AarError, SessionError, ToolError
from aar.kernel import Envelope
from aar.kernel.alone import errors_alone
from aar.messages.approvals import ASIDE
from aar.messages.base import new_call_id
from aar.messages.events import ApprovalRequested, Event, Notice, ToolCall, ToolOutput, ToolResult, ToolStarted
from aar.messages.session import CommandReply
from aar.safety.commands import redact

__all__ = ["answer_aside"]

_REFUSED = re.compile(r"Error \[(\w+)\]: (.*)", re.DOTALL)

logger = logging.getLogger(__name__)


async def answer_aside(bench: Workbench, command: str, envelope: Envelope[Any]) -> None:
    """Run a command and answer whoever asked. It is cancelled when its asker leaves."""
    try:
        with errors_alone():
            result = await _while_wanted(bench, command, envelope)
        if result is not None:
            envelope.reply(CommandReply(text=_said(result)))
    except AarError as error:
        envelope.fail(error)
    except Exception as bug:  # the same wall as around a turn
        logger.error("a command of session %s failed", bench.session_id, exc_info=bug)
        envelope.fail(SessionError(f"internal error ({type(bug).__name__}): {bug}"))


def _said(result: ToolResult) -> str:
    """A command that failed says so in what it says; one that may not run is an error of the asker's."""
    if not result.is_error:
        return result.output
    found = _REFUSED.fullmatch(result.output)
    raise ToolError(found[1], found[2]) if found else ToolError("exception", result.output)


async def _while_wanted(bench: Workbench, command: str, envelope: Envelope[Any]) -> ToolResult | None:
    call = ToolCall(tool_name="bash", tool_call_id=new_call_id(), arguments={"command": command})
    result: ToolResult | None = None
    try:
        async with trio.open_nursery() as nursery:
            if envelope.answer is not None:
                nursery.start_soon(_cancel_when_set, envelope.answer.asker_left, nursery.cancel_scope)
            outbox = _Outbox(bench, nursery, command)
            result = await run_call(bench, call, outbox, Progress())
            nursery.cancel_scope.cancel()
    finally:
        await _withdraw(bench, call.tool_call_id)
    return result


async def _withdraw(bench: Workbench, call_id: str) -> None:
    """A question that nobody waits for any more is taken back: other clients still show it."""
    questions = [fact for fact in withdrawn_questions(bench.journal.session) if fact.tool_call_id == call_id]
    if questions and not bench.journal.is_closed:
        with trio.CancelScope(shield=True):  # bounded by the journal's own limit
            await bench.journal.append(*questions)


class _Outbox(Outbox):
    """The conversation has no such call: instead of its start there is a word that it runs, and no live output."""

    def __init__(self, bench: Workbench, tasks: trio.Nursery, command: str) -> None:
        super().__init__(bench.journal, tasks, is_shared=False)
        self._notice = Notice(kind="aside", text=f"Running beside the conversation: {redact(command)}")

    async def put(self, *events: Event) -> None:
        await super().put(*(self._told(event) for event in events if not isinstance(event, ToolOutput)))

    def _told(self, event: Event) -> Event:
        if isinstance(event, ApprovalRequested):  # a turn that ends does not take it back
            return event.model_copy(update={"data": {**event.data, ASIDE: True}})
        return self._notice if isinstance(event, ToolStarted) else event


async def _cancel_when_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
