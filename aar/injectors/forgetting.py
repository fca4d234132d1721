"""Injectors that come with Aar: what the model need not see again is left out of a request. What is stored stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aar.injectors.preamble import preamble
from aar.injectors.timings import Moment
from aar.messages.provider import NeutralMessage

__all__ = ["ForgetFailedCalls", "ForgetLongArguments", "with_short_arguments", "without_failed_calls"]

_NEVER_MADE = ("Error [unknown_tool]:", "Error [invalid_arguments]:", "Error [blocked]:")

Block = dict[str, Any]


@preamble("forget_failed_calls")
@dataclass(frozen=True)
class ForgetFailedCalls:
    """Calls that could not be made are shown to the model once."""

    async def transform_messages(self, at: Moment, messages: list[NeutralMessage]) -> Sequence[NeutralMessage] | None:
        return without_failed_calls(messages)


@preamble("forget_long_arguments")
@dataclass(frozen=True)
class ForgetLongArguments:
    """Texts among the arguments of old calls are cut to so many characters: files that were written, say.

    The newest part of the conversation, so many percent of it, stays as it is.
    """

    longest: int = 200
    protect: int = 30

    async def transform_messages(self, at: Moment, messages: list[NeutralMessage]) -> Sequence[NeutralMessage] | None:
        return with_short_arguments(messages, self.longest, self.protect)


def with_short_arguments(messages: Sequence[NeutralMessage], longest: int, protect: int) -> list[NeutralMessage]:
    """The messages with shorter arguments, but for the newest `protect` percent of all that is said."""
    sizes = [len(str(one["content"])) for one in messages]
    left, first = sum(sizes) * protect / 100, len(messages)
    while first and left > 0:
        first -= 1
        left -= sizes[first]
    return [*(_with_short(one, longest) for one in messages[:first]), *messages[first:]]


def _with_short(message: NeutralMessage, longest: int) -> NeutralMessage:
    blocks = _blocks(message)
    if not any(block.get("type") == "tool_use" for block in blocks):
        return message
    short = [
        {**block, "input": _short(block["input"], longest)} if block.get("type") == "tool_use" else block
        for block in blocks
    ]
    return message if short == blocks else {"role": message["role"], "content": short}


def _short(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}[...]"
    if isinstance(value, dict):
        return {key: _short(one, longest) for key, one in value.items()}
    return [_short(one, longest) for one in value] if isinstance(value, list) else value


def without_failed_calls(messages: Sequence[NeutralMessage]) -> list[NeutralMessage] | None:
    """The messages without calls that were not made, and their results, but for the newest ones; `None`: no change.

    What is left is as valid as what was given: no call without its result, no result without its call.
    """
    newest = max((at for at, one in enumerate(messages) if one["role"] == "assistant"), default=0)
    failed = {block["tool_use_id"] for one in messages[:newest] for block in _blocks(one) if _was_never_made(block)}
    if not failed:
        return None
    kept = (_without(one, failed) for one in messages)
    return [one for one in kept if one["content"]]


def _blocks(message: NeutralMessage) -> list[Block]:
    content = message["content"]
    return content if isinstance(content, list) else []


def _was_never_made(block: Block) -> bool:
    is_failed = block.get("type") == "tool_result" and block.get("is_error") is True
    return is_failed and str(block.get("content", "")).startswith(_NEVER_MADE)


def _without(message: NeutralMessage, failed: set[str]) -> NeutralMessage:
    blocks = _blocks(message)
    if not any(_id(block) in failed for block in blocks):
        return message
    left = [block for block in blocks if _id(block) not in failed]
    if not any(block.get("type") == "tool_use" for block in left):  # thoughts belong to the calls that they led to
        left = [block for block in left if block.get("type") != "reasoning"]
    return {"role": message["role"], "content": left}


def _id(block: Block) -> object:
    return block.get("id") if block.get("type") == "tool_use" else block.get("tool_use_id")
