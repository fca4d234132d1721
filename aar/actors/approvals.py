"""Service: questions that wait for a human.

A session asks; whoever attends the session decides, and the first decision counts. With nobody attending the answer
is no, at once: a question that nobody can see must not hold a turn.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, assert_never

import trio

from aar.kernel import Envelope, Mailbox
from aar.messages.approvals import ApprovalsCommand, AskApproval, Attend, Decide, Decision

__all__ = ["approvals"]

Key = tuple[str, str]  # session id, tool call id


async def approvals(mailbox: Mailbox[ApprovalsCommand]) -> None:
    """The body of the service. One per runtime."""
    async with trio.open_nursery() as nursery:
        desk = _Desk(nursery)
        async for envelope in mailbox:
            match envelope.message:
                case AskApproval() as question:
                    desk.ask(question, envelope)
                case Decide() as decide:
                    envelope.reply(desk.decide(decide))
                case Attend(session_id=session_id):
                    desk.attend(session_id, envelope)
                case _:
                    assert_never(envelope.message)


class _Desk:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._open: dict[Key, Envelope[Any]] = {}
        self._attending: dict[str, int] = defaultdict(int)

    def ask(self, question: AskApproval, envelope: Envelope[Any]) -> None:
        if not self._attending.get(question.session_id):
            envelope.reply(Decision(decision="deny", by="nobody"))
            return
        key = (question.session_id, question.tool_call_id)
        self._open[key] = envelope
        self._nursery.start_soon(self._watch, key, envelope, question.timeout or float("inf"))

    async def _watch(self, key: Key, envelope: Envelope[Any], timeout: float) -> None:
        """Until the asker has left: with the answer, or without one because it was cancelled."""
        assert envelope.answer is not None
        with trio.move_on_after(timeout) as limit:
            await envelope.answer.asker_left.wait()
        if limit.cancelled_caught:
            envelope.reply(Decision(decision="deny", by="timeout"))
        if self._open.get(key) is envelope:
            del self._open[key]

    def decide(self, decide: Decide) -> bool:
        envelope = self._open.pop((decide.session_id, decide.tool_call_id), None)
        if envelope is None or not envelope.is_owed:
            return False
        envelope.reply(Decision(decision=decide.decision, by=decide.by))
        return True

    def attend(self, session_id: str, envelope: Envelope[Any]) -> None:
        self._attending[session_id] += 1
        self._nursery.start_soon(self._watch_attendance, session_id, envelope)

    async def _watch_attendance(self, session_id: str, envelope: Envelope[Any]) -> None:
        assert envelope.answer is not None
        await envelope.answer.asker_left.wait()
        self._attending[session_id] -= 1
        if not self._attending[session_id]:
            del self._attending[session_id]
            self._deny_all_of(session_id)

    def _deny_all_of(self, session_id: str) -> None:
        for key in [key for key in self._open if key[0] == session_id]:
            self._open.pop(key).reply(Decision(decision="deny", by="nobody"))
