"""What conditions may ask of a session; see `aar.conditions`."""

from __future__ import annotations

from contextlib import suppress

from aar.conditions import Facts
from aar.errors import ConfigError, ProviderError
from aar.journal.state import Session
from aar.messages.events import Compacted, ToolCall, ToolResult, TurnEnded
from aar.messages.settings import AgentConfig
from aar.messages.todos import todos_of

__all__ = ["facts_of"]

_CHARACTERS_PER_TOKEN = 4
_ABILITIES = {"tools": "tools", "vision": "vision", "reasoning": "thinking"}


def facts_of(session: Session, config: AgentConfig, *, iteration: int = 0) -> Facts:
    """As they are now. Costs about as much as reading the whole session once."""
    todos = todos_of(session.events)
    window = config.effective_context_window
    tokens = session.transcript.sizes().total // _CHARACTERS_PER_TOKEN
    safety = config.safety
    return Facts(
        todos_open=sum(todo.is_open for todo in todos),
        todos_done=sum(not todo.is_open for todo in todos),
        auto=not (safety.require_approval_for_writes or safety.require_approval_for_execute),
        context_percent=100 * tokens / window if window else 0.0,
        history=len(session.transcript),
        tool_errors=sum(isinstance(event, ToolResult) and event.is_error for event in session.events),
        tool_calls=sum(isinstance(event, ToolCall) for event in session.events),
        turns=sum(isinstance(event, TurnEnded) for event in session.events),
        compactions=sum(isinstance(event, Compacted) for event in session.events),
        iteration=iteration,
        tokens_total=session.total_tokens,
        model=config.resolve_provider().label,
        model_context=window,
        model_abilities=_abilities(config),
    )


def _abilities(config: AgentConfig) -> frozenset[str]:
    from aar.providers import open_provider

    with suppress(ProviderError, ConfigError):
        found = open_provider(config.resolve_provider()).capabilities()
        return frozenset(word for name, word in _ABILITIES.items() if found.get(name))
    return frozenset()
