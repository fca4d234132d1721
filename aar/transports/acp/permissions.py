"""Questions of a session, asked in the editor: four answers, and a question that is settled elsewhere is taken back."""

from __future__ import annotations

import logging
from typing import Any

import trio

from aar.client import SessionHandle
from aar.errors import AarError, ClientGone
from aar.messages.approvals import DecisionName
from aar.transports.acp.frames import RpcError
from aar.transports.acp.rpc import Connection

__all__ = ["OPTIONS", "Questions", "decision_of"]

OPTIONS = [
    {"optionId": kind, "name": name, "kind": kind}
    for kind, name in (
        ("allow_once", "Allow once"),
        ("allow_always", "Allow always"),
        ("reject_once", "Deny"),
        ("reject_always", "Deny always"),
    )
]

_DECISIONS: dict[str, DecisionName] = {
    "allow_once": "allow",
    "allow_always": "allow_always",
    "reject_once": "deny",
    "reject_always": "deny_always",
}

logger = logging.getLogger(__name__)


def decision_of(answer: Any) -> DecisionName:
    """What the client's answer means. Whatever is not clearly a yes is a no."""
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return "deny"
    option = outcome.get("optionId")
    return _DECISIONS.get(option, "deny") if isinstance(option, str) else "deny"


class Questions:
    """The open questions of one session."""

    def __init__(self, handle: SessionHandle, connection: Connection, nursery: trio.Nursery) -> None:
        self._handle = handle
        self._connection = connection
        self._nursery = nursery
        self._open: dict[str, trio.CancelScope] = {}

    def ask(self, call_id: str, tool_call: dict[str, Any]) -> None:
        """Put a question to the client; its answer goes to the session."""
        scope = self._open[call_id] = trio.CancelScope()
        self._nursery.start_soon(self._ask, call_id, tool_call, scope)

    def agree(self, call_id: str) -> None:
        """Answer yes without asking anybody."""
        self._nursery.start_soon(self._decide, call_id, "allow")

    def settle(self, call_id: str) -> None:
        """It has been decided, whoever did it."""
        scope = self._open.pop(call_id, None)
        if scope is not None:
            scope.cancel()

    async def _ask(self, call_id: str, tool_call: dict[str, Any], scope: trio.CancelScope) -> None:
        params = {"sessionId": self._handle.session_id, "toolCall": tool_call, "options": OPTIONS}
        with scope:
            try:
                decision = decision_of(await self._connection.request("session/request_permission", params))
            except (RpcError, ClientGone) as error:
                logger.info("the client did not answer a question: %s", error)
                decision = "deny"
            await self._decide(call_id, decision)

    async def _decide(self, call_id: str, decision: DecisionName) -> None:
        try:
            await self._handle.decide(call_id, decision)
        except AarError as error:
            logger.info("session %s took no decision any more: %s", self._handle.session_id, error)
