"""Pure checks that a turn consults between its steps: repetition, recovery from truncation, nearness to a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aar.messages.events import ErrorEvent, ToolCall, UserMessage
from aar.messages.settings import AgentConfig
from aar.tools.registry import ToolRegistry
from aar.usage import near_budget

__all__ = ["CONTINUE_AFTER_CUT", "STUCK", "UNREADABLE", "Guardrails", "signature"]

STUCK = "Agent stuck in a loop — same tool calls repeated too many times"
NEAR_BUDGET = "Approaching budget limit — stopping soon"
CONTINUE_AFTER_CUT = (
    "Your last message was cut off because it reached the token limit. Go on from exactly where it stops. "
    "Do not start over and do not repeat anything you have already written."
)
UNREADABLE = "The model's tool calls cannot be read — no complete JSON object, four times in a row"
MOST_UNREADABLE = 3  # steps in a row whose calls could not be read; each is told to the model
VALUE_LIMIT = 200  # characters of each argument that count for the signature


def signature(calls: Sequence[ToolCall]) -> str:
    """What makes two steps the same: tools and arguments, in any order."""

    def one(call: ToolCall) -> str:
        pairs = ",".join(f"{name}={str(call.arguments[name])[:VALUE_LIMIT]}" for name in sorted(call.arguments))
        return f"{call.tool_name}({pairs})"

    return ";".join(sorted(one(call) for call in calls))


@dataclass
class Guardrails:
    """Counters of one turn. `kept` is the session's own record of them, saved with the session."""

    kept: dict[str, Any]
    unreadable: int = 0
    unreadable_at: int = -1  # the step in which that was last so

    @classmethod
    def for_turn(cls, metadata: dict[str, Any]) -> Guardrails:
        """Counters start anew with each turn; only the budget warning is given once per session."""
        kept: dict[str, Any] = metadata.setdefault("guardrails", {})
        kept.update(max_tokens_recovery_count=0, last_tool_signature="", repeated_tool_steps=0)
        kept.setdefault("near_budget_warned", False)
        return cls(kept)

    def stuck(self, calls: Sequence[ToolCall], config: AgentConfig, toolbox: ToolRegistry, step: int) -> str:
        """Note one more step; why it is one too many of its kind, or nothing."""
        if "raw" in calls[0].arguments and self.is_unreadable(calls, toolbox, step):
            return UNREADABLE
        return STUCK if self.is_stuck(calls, config) else ""

    def is_stuck(self, calls: Sequence[ToolCall], config: AgentConfig) -> bool:
        """Note one more step; true when it repeats its predecessors once too often."""
        latest = signature(calls)
        if latest == self.kept["last_tool_signature"]:
            self.kept["repeated_tool_steps"] += 1
        else:
            self.kept["last_tool_signature"] = latest
            self.kept["repeated_tool_steps"] = 0
        return bool(self.kept["repeated_tool_steps"] >= config.guardrails.max_repeated_tool_steps)

    def is_unreadable(self, calls: Sequence[ToolCall], toolbox: ToolRegistry, step: int) -> bool:
        """Note that no argument of these calls is JSON, if so; true when that is so once too often in a row."""
        if not all(_is_raw(call, toolbox) for call in calls):
            return False
        self.unreadable = self.unreadable + 1 if self.unreadable_at == step - 1 else 1
        self.unreadable_at = step
        return self.unreadable > MOST_UNREADABLE

    def recover(self, config: AgentConfig) -> UserMessage | None:
        """What to say to a model that was cut by its token limit, or `None` when it has had its chances."""
        if self.kept["max_tokens_recovery_count"] >= config.guardrails.max_tokens_recoveries:
            return None
        self.kept["max_tokens_recovery_count"] += 1
        data = {"kind": "internal", "internal": True, "reason": "max_tokens_recovery"}
        return UserMessage(content=CONTINUE_AFTER_CUT, data=data)

    def budget_warning(self, tokens: int, cost: float, config: AgentConfig) -> ErrorEvent | None:
        """Once per session, when what is left of a budget is no more than its reserve."""
        if self.kept["near_budget_warned"] or not near_budget(tokens, cost, config):
            return None
        return ErrorEvent(message=NEAR_BUDGET, recoverable=True, data={"near_budget": True})


def _is_raw(call: ToolCall, toolbox: ToolRegistry) -> bool:
    """Whether the arguments are what stands for a text that is no JSON object, and not what the tool takes."""
    spec = toolbox.get(call.tool_name)
    takes_it = spec is not None and "raw" in spec.input_schema.get("properties", {})
    return set(call.arguments) == {"raw"} and not takes_it
