"""Points at which an application or extension may look into a turn or change its course.

Hooks run in order inside the turn's scope, each within `time_limit` seconds. One that fails or takes too long is
recorded as a notice and skipped; only `before_tool_call` is a guard, and a guard that fails blocks the call.
Injectors, which also put messages in, are `aar.injectors`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from aar.messages.events import ToolCall, UserMessage
from aar.messages.provider import ProviderRequest, ProviderResponse
from aar.messages.tools import ToolOutcome

if TYPE_CHECKING:
    from aar.injectors import Injectors

__all__ = ["Block", "Hooks"]


class Block(NamedTuple):
    """Do not run this call; the model is told why."""

    reason: str


BeforeProviderCall = Callable[[ProviderRequest], Awaitable[ProviderRequest | None]]
AfterProviderCall = Callable[[ProviderResponse], Awaitable[None]]
BeforeToolCall = Callable[[ToolCall], Awaitable[ToolCall | Block | None]]
BeforeUserMessage = Callable[[UserMessage], Awaitable[UserMessage | None]]
AfterToolCall = Callable[[ToolCall, ToolOutcome], Awaitable[ToolOutcome | None]]


class Hooks(NamedTuple):
    """`None` from a hook leaves things as they are; a value replaces them and is what the next hook gets."""

    before_provider_call: tuple[BeforeProviderCall, ...] = ()
    after_provider_call: tuple[AfterProviderCall, ...] = ()
    before_tool_call: tuple[BeforeToolCall, ...] = ()
    after_tool_call: tuple[AfterToolCall, ...] = ()
    before_user_message: tuple[BeforeUserMessage, ...] = ()
    time_limit: float = 10.0
    injectors: Injectors | None = None

    def and_then(self, other: Hooks) -> Hooks:
        """These hooks, followed by those."""
        return self._replace(
            before_provider_call=self.before_provider_call + other.before_provider_call,
            after_provider_call=self.after_provider_call + other.after_provider_call,
            before_tool_call=self.before_tool_call + other.before_tool_call,
            after_tool_call=self.after_tool_call + other.after_tool_call,
            before_user_message=self.before_user_message + other.before_user_message,
            time_limit=max(self.time_limit, other.time_limit),
            injectors=_both(self.injectors, other.injectors),
        )


def _both(first: Injectors | None, second: Injectors | None) -> Injectors | None:
    return second if first is None else first if second is None else first.and_then(second)
