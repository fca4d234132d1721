"""Anthropic's Messages API: from the events of a stream to deltas.

This is the hot path of a session that streams: each event is one `json.loads` and a few look-ups, and all events of
one network read become one delta.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from aar.errors import AnswerCut, BadProviderReply
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import ProviderResponse, StreamDelta
from aar.providers.anthropic_wire import NAME
from aar.providers.base import Assembly
from aar.providers.failures import error_in_answer
from aar.providers.openai_wire import MAX_COUNT, text_of, tool_calls

__all__ = ["MessageStream", "stop_reason"]

_log = logging.getLogger(__name__)

ANSWER_LIMIT = 8_000_000  # characters of text, thoughts and arguments together
BLOCK_LIMIT = 1024

_STOPS = {"stop_sequence": "end_turn", "model_context_window_exceeded": "max_tokens"}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
_STATUS_BY_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _Block:
    """A thought or a tool call that is being put together. `text_before` is the text of the answer before it."""

    def __init__(self, kind: str, content: dict[str, Any], text_before: int) -> None:
        self.kind = kind
        self.id = text_of(content.get("id"))
        self.name = text_of(content.get("name"))
        self.whole = content.get("input")
        self.signature = text_of(content.get("signature"))
        self.redacted = text_of(content.get("data"))
        self.text_before = text_before
        self.pieces: list[str] = []

    @property
    def arguments(self) -> Any:
        return "".join(self.pieces) or self.whole

    def thought(self) -> ReasoningBlock | None:
        """What was thought, with what the API wants to see again; nothing for an empty thought without a signature."""
        data: dict[str, Any] = {"provider": NAME}
        text = "".join(self.pieces)
        if self.kind == "redacted_thinking" and self.redacted:
            data |= {"replay": True, "redacted": self.redacted}
        elif self.signature:
            data |= {"replay": True, "signature": self.signature}
        elif not text.strip():
            return None
        if self.text_before:
            data["text_before"] = self.text_before
        return ReasoningBlock(content=text if "replay" in data else text.strip(), data=data)


class MessageStream:
    """Reads the events of one answer. `finish` is the server's stop reason; `is_over` that the last event was seen."""

    def __init__(self, *, model: str) -> None:
        self.finish = ""
        self.is_over = False
        self._model = model
        self._request_id = ""
        self._usage: dict[str, int] = {}
        self._blocks: list[_Block] = []
        self._open: dict[Any, _Block] = {}
        self._text_size = 0
        self._size = 0

    def read(self, events: list[str]) -> StreamDelta:
        """What these events say; an empty delta when they say nothing.

        Raises `ProviderError` for an error that the server reports, `BadProviderReply` for what is no event and
        for an answer that does not end.
        """
        said: list[str] = []
        thought: list[str] = []
        for event in events:
            if event == "[DONE]":  # gateways that speak OpenAI's format as well
                self.is_over = True
                break
            try:
                found = json.loads(event)
            except (ValueError, RecursionError) as error:
                if event[:1] != "{":
                    _log.warning("Skipped an event that is no JSON: %.200s", event)
                    continue
                raise BadProviderReply(f"An event is damaged: {event[:200]}", retryable=True) from error
            self._take_checked(found, said, thought)
        return self._delta(said, thought)

    def read_message(self, message: Any) -> ProviderResponse:
        """A whole answer, from a server that does not stream. Raises like `read`."""
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            raise BadProviderReply("The answer has no content", provider=NAME)
        said: list[str] = []
        thought: list[str] = []
        self._take_checked({"type": "message_start", "message": message}, said, thought)
        for index, block in enumerate(message["content"]):
            self._take_checked({"type": "content_block_start", "index": index, "content_block": block}, said, thought)
        self._take_checked({"type": "message_delta", "delta": message}, said, thought)
        self.is_over = True
        assembly = Assembly()
        for delta in (self._delta(said, thought), *self.end()):
            assembly.add(delta)
        return assembly.response()

    def end(self) -> list[StreamDelta]:
        """The last deltas: the tool calls and the terminal one.

        Raises `AnswerCut` when the stream has stopped before the answer was finished.
        """
        if not self.finish and not self.is_over:
            raise AnswerCut("the stream ended in the middle of the answer", provider=NAME)
        calls = self._calls()
        thoughts = [block.thought() for block in self._blocks if block.kind != "tool_use"]
        meta = ProviderMeta(provider=NAME, model=self._model, usage=self._counts(), request_id=self._request_id)
        last = StreamDelta(
            done=True,
            stop_reason=stop_reason(self.finish, has_calls=bool(calls)),
            meta=meta,
            reasoning=tuple(thought for thought in thoughts if thought is not None),
        )
        return [*(StreamDelta(tool_call_delta=call) for call in calls), last]

    def _calls(self) -> list[ToolCall]:
        if self.finish == "refusal":
            return []  # what was said up to a refusal is not to be acted upon
        blocks = [block for block in self._blocks if block.kind == "tool_use"]
        is_cut = stop_reason(self.finish) == "max_tokens"
        return tool_calls(((block.id, block.name, block.arguments or None) for block in blocks), is_cut=is_cut)

    def _counts(self) -> dict[str, int]:
        counts = {known: self._usage[name] for name, known in _COUNTS.items() if name in self._usage}
        return {name: count for name, count in counts.items() if count or not name.startswith("cache_")}

    def _delta(self, said: list[str], thought: list[str]) -> StreamDelta:
        text, thoughts = "".join(said), "".join(thought)
        self._text_size += len(text)
        self._size += len(text) + len(thoughts)
        if self._size > ANSWER_LIMIT:
            raise BadProviderReply(f"The answer has more than {ANSWER_LIMIT:,} characters", provider=NAME)
        return StreamDelta(text, thoughts)

    # --- events ---------------------------------------------------------------------------------

    def _take_checked(self, event: Any, said: list[str], thought: list[str]) -> None:
        try:
            self._take(event, said, thought)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise BadProviderReply(f"An event has an unexpected shape: {str(event)[:200]}", provider=NAME) from error

    def _take(self, event: dict[str, Any], said: list[str], thought: list[str]) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                said.append(_text(delta["text"]))
            else:
                self._take_piece(event["index"], delta, thought)
        elif kind == "content_block_start":
            self._begin(event["index"], event["content_block"], said, thought)
        elif kind == "message_start":
            self._take_head(event["message"])
        elif kind == "message_delta":
            self._take_end(event)
        elif kind == "message_stop":
            self.is_over = True
        elif kind == "error" or event.get("error"):
            raise _reported(event)

    def _take_piece(self, index: Any, delta: dict[str, Any], thought: list[str]) -> None:
        match delta["type"]:
            case "input_json_delta":
                piece = _text(delta["partial_json"])
                self._open[index].pieces.append(piece)
                self._size += len(piece)
            case "thinking_delta":
                piece = _text(delta["thinking"])
                self._open[index].pieces.append(piece)
                thought.append(piece)
            case "signature_delta":
                self._open[index].signature += _text(delta["signature"])
                self._size += len(delta["signature"])

    def _begin(self, index: Any, content: dict[str, Any], said: list[str], thought: list[str]) -> None:
        kind = content["type"]
        if kind == "text":
            said.append(_text(content.get("text") or ""))
        elif kind in ("thinking", "redacted_thinking", "tool_use"):
            if len(self._blocks) >= BLOCK_LIMIT:
                raise BadProviderReply(f"The answer has more than {BLOCK_LIMIT} blocks", provider=NAME)
            block = _Block(kind, content, self._text_size + sum(map(len, said)))
            self._blocks.append(block)
            self._open[index] = block
            if kind == "thinking" and (piece := _text(content.get("thinking") or "")):
                block.pieces.append(piece)
                thought.append(piece)

    def _take_head(self, message: dict[str, Any]) -> None:
        self._request_id = text_of(message.get("id"))
        self._model = text_of(message.get("model")) or self._model
        self._count(message.get("usage"))

    def _take_end(self, event: dict[str, Any]) -> None:
        delta = event.get("delta") or {}
        self.finish = text_of(delta.get("stop_reason")) or self.finish
        self._count(event.get("usage"))
        if self.finish == "refusal":
            details = delta.get("stop_details") or {}
            _log.warning("The model refused: %s", details.get("explanation") or details.get("category") or "no reason")

    def _count(self, usage: Any) -> None:
        """Counts are totals so far: the last one counts."""
        for name in _COUNTS:
            value = (usage or {}).get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                self._usage[name] = min(max(0, value), MAX_COUNT)


def stop_reason(word: str, *, has_calls: bool = False) -> str:
    """Our word for Anthropic's. Some servers say `end_turn` although the answer has calls."""
    reason = _STOPS.get(word, word) or "end_turn"
    return "tool_use" if has_calls and reason == "end_turn" else reason


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text expected")
    return value


def _reported(event: dict[str, Any]) -> Exception:
    fields = event.get("error")
    if isinstance(fields, dict) and (status := _STATUS_BY_TYPE.get(text_of(fields.get("type")))):
        event = {"error": {"code": status, **fields}}
    return error_in_answer(event, NAME)
