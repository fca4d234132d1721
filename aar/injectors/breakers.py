"""Injectors that come with Aar: a model that turns in a circle is told so, or stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from aar.injectors.injections import BeforeChatInjection, RequestChange
from aar.injectors.preamble import preamble
from aar.injectors.timings import Moment
from aar.messages.events import Event, ToolCall, ToolResult
from aar.messages.patches import PATCH_TOOL, named_files

__all__ = ["Action", "FailureBreaker", "LoopDetection", "RepeatedPatch"]

Action = Literal["stop", "warn"]

_EDITS = ("edit_file", "write_file", PATCH_TOOL)


@preamble("loop_detection")
@dataclass(frozen=True)
class LoopDetection:
    """The newest `after` calls of the turn are the same call."""

    after: int = 3
    action: Action = "stop"

    async def before_chat(self, at: Moment) -> BeforeChatInjection | None:
        newest = _newest_calls(at.facts_of_turn(), self.after)
        if len(newest) < self.after or len({_signature(call) for call in newest}) > 1:
            return None
        return _told(self.action, f"{newest[0].tool_name} was called {self.after} times with the same arguments.")


@preamble("failure_breaker")
@dataclass(frozen=True)
class FailureBreaker:
    """The newest `after` calls of the turn have failed, each in another way."""

    after: int = 3
    action: Action = "stop"

    async def before_chat(self, at: Moment) -> BeforeChatInjection | None:
        newest = [fact for fact in at.facts_of_turn() if isinstance(fact, ToolResult)][-self.after :]
        is_row = len(newest) == self.after and all(result.is_error for result in newest)
        if not is_row or len({(result.tool_name, result.output) for result in newest}) < self.after:
            return None
        return _told(self.action, f"The last {self.after} tool calls have failed.")


@preamble("repeated_patch")
@dataclass(frozen=True)
class RepeatedPatch:
    """One file was changed `after` times in the turn, the last time just now."""

    after: int = 5
    action: Action = "warn"

    async def before_chat(self, at: Moment) -> BeforeChatInjection | None:
        edited = [path for call in _calls(at.facts_of_turn()) for path in _edited(call)]
        newest = [path for call in _newest_calls(at.facts_of_turn(), 1) for path in _edited(call)]
        path = max(newest, key=edited.count, default="")
        times = edited.count(path)
        if times < self.after or times % self.after or not newest:
            return None
        advice = "Read the file again, and change all that is wrong in one go."
        return _told(self.action, f"{path} was changed {times} times in this turn. {advice}")


def _told(action: Action, text: str) -> BeforeChatInjection:
    if action == "stop":
        return BeforeChatInjection(request=RequestChange(skip=True, reason=f"Stopped: {text}"))
    return BeforeChatInjection(content=text, eject=True)


def _calls(facts: Sequence[Event]) -> Iterator[ToolCall]:
    return (fact for fact in facts if isinstance(fact, ToolCall))


def _newest_calls(facts: Sequence[Event], count: int) -> list[ToolCall]:
    return list(_calls(facts))[-count:]


def _signature(call: ToolCall) -> str:
    return f"{call.tool_name} {json.dumps(call.arguments, sort_keys=True, default=str)}"


def _edited(call: ToolCall) -> list[str]:
    patch = call.arguments.get("patch") if call.tool_name == PATCH_TOOL else None
    if isinstance(patch, str):
        return [one.path for one in named_files(patch)]
    path = call.arguments.get("path") if call.tool_name in _EDITS else None
    return [path] if isinstance(path, str) else []
