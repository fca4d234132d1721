"""An injector that comes with Aar: calls that could not be made are shown to the model once, and then left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aar.injectors.preamble import preamble
from aar.injectors.timings import Moment
from aar.messages.provider import NeutralMessage

__all__ = ["ForgetFailedCalls", "without_failed_calls"]

_NEVER_MADE = ("Error [unknown_tool]:", "Error [invalid_arguments]:", "Error [blocked]:")

Block = dict[str, Any]


@preamble("forget_failed_calls")
@dataclass(frozen=True)
class ForgetFailedCalls:
    """What is stored stays."""

    async def transform_messages(self, at: Moment, messages: list[NeutralMessage]) -> Sequence[NeutralMessage] | None:
        return without_failed_calls(messages)


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
