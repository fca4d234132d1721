"""Questions that wait for a human, and their answers."""

from typing import Any, Literal

from aar.messages.base import Command, Message, Request

__all__ = ["ASIDE", "AskApproval", "ApprovalsCommand", "Attend", "Decide", "Decision", "DecisionName"]

ASIDE = "aside"
"""Stands in the `data` of a question about a command beside the conversation, which outlives turns."""

DecisionName = Literal["allow", "allow_always", "deny", "deny_always"]


class Decision(Message):
    """`by` names who decided: client, attached (from another process), timeout, or nobody (none could answer)."""

    decision: DecisionName = "deny"
    by: str = "client"

    @property
    def allowed(self) -> bool:
        return self.decision in ("allow", "allow_always")

    @property
    def is_standing(self) -> bool:
        return self.decision in ("allow_always", "deny_always")


class AskApproval(Command, Request[Decision]):
    """May this tool call run? `timeout` in seconds; 0 waits for ever. Leaving withdraws the question."""

    type: Literal["ask_approval"] = "ask_approval"
    session_id: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] = {}
    reason: str = ""
    timeout: float = 0.0


class Decide(Command, Request[bool]):
    """Answer a question. The first decision wins; answered with whether this was it. `by` is what the facts name."""

    type: Literal["decide"] = "decide"
    session_id: str
    tool_call_id: str
    decision: DecisionName
    by: str = "client"


class Attend(Command, Request[None]):
    """The asker can answer this session's questions for as long as it waits here. Never answered."""

    type: Literal["attend"] = "attend"
    session_id: str


ApprovalsCommand = AskApproval | Decide | Attend
