"""Ollama's chat format, streamed: from lines of JSON to deltas.

This is the hot path of a session that streams: each line is one `json.loads` and a few look-ups, and all lines of one
network read become one delta.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from aar.errors import AnswerCut, BadProviderReply
from aar.messages.events import ReasoningBlock
from aar.messages.provider import StreamDelta
from aar.providers.failures import error_in_answer
from aar.providers.ollama_wire import NAME, meta_of, stop_reason, tool_calls
from aar.providers.openai_stream import ANSWER_LIMIT, CALL_LIMIT
from aar.providers.thinking import ThinkingRouter

__all__ = ["OllamaStream"]

_log = logging.getLogger(__name__)


class OllamaStream:
    """Reads the lines of one answer. `is_over` says that the last of them was seen."""

    def __init__(self, *, model: str) -> None:
        self.is_over = False
        self._model = model
        self._router = ThinkingRouter()
        self._thinks_apart = False  # the server tells thoughts from text itself: text is text then
        self._thoughts: list[str] = []
        self._calls: list[Any] = []
        self._last: dict[str, Any] = {}
        self._size = 0

    def read(self, lines: list[bytes]) -> StreamDelta:
        """What these lines say; an empty delta when they say nothing.

        Raises `ProviderError` for an error that the server reports, `BadProviderReply` for what is no part of an
        answer and for one that does not end.
        """
        said: list[str] = []
        thought: list[str] = []
        for line in lines:
            if self.is_over:
                break
            chunk = _chunk(line)
            if chunk is None:
                continue
            try:
                self._take(chunk, said, thought)
            except (AttributeError, KeyError, TypeError) as error:
                raise BadProviderReply(f"A piece has an unexpected shape: {_shown(line)}", provider=NAME) from error
        text, thoughts = "".join(said), "".join(thought)
        self._grow(len(text) + len(thoughts))
        if thoughts:
            self._thoughts.append(thoughts)
        return StreamDelta(text, thoughts)

    def end(self) -> list[StreamDelta]:
        """The last deltas: what was held back, the tool calls, the terminal one.

        Raises `AnswerCut` when the stream has stopped before the answer was finished, and `BadProviderReply`.
        """
        if not self.is_over:
            raise AnswerCut("the stream ended in the middle of the answer", provider=NAME)
        text, thought = self._router.flush()
        if thought:
            self._thoughts.append(thought)
        deltas = [StreamDelta(text, thought)] if text or thought else []
        try:
            calls = tool_calls(self._calls)
        except (AttributeError, TypeError) as error:
            raise BadProviderReply(f"A tool call has an unexpected shape: {error}", provider=NAME) from error
        deltas += [StreamDelta(tool_call_delta=call) for call in calls]
        reason = stop_reason(self._last.get("done_reason"), has_calls=bool(calls))
        meta = meta_of(self._last, self._model)
        return [*deltas, StreamDelta(done=True, stop_reason=reason, meta=meta, reasoning=self._blocks())]

    def _take(self, chunk: dict[str, Any], said: list[str], thought: list[str]) -> None:
        message = chunk.get("message")
        if message:
            if piece := message.get("thinking"):
                self._think(_text(piece), said, thought)
            if piece := message.get("content"):
                text, inner = (_text(piece), "") if self._thinks_apart else self._router.feed(_text(piece))
                said.append(text)
                thought.append(inner)
            if calls := message.get("tool_calls"):
                self._take_calls(calls)
        elif chunk.get("error"):
            raise error_in_answer(chunk, NAME)
        if chunk.get("done"):
            self.is_over = True
            self._last = chunk

    def _think(self, piece: str, said: list[str], thought: list[str]) -> None:
        if not self._thinks_apart:
            self._thinks_apart = True
            text, inner = self._router.flush()
            said.append(text)
            thought.append(inner)
        thought.append(piece)

    def _take_calls(self, calls: list[Any]) -> None:
        self._calls += calls
        self._grow(len(str(calls)))
        if len(self._calls) > CALL_LIMIT:
            raise BadProviderReply(f"The answer has more than {CALL_LIMIT} tool calls", provider=NAME)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > ANSWER_LIMIT:
            raise BadProviderReply(f"The answer has more than {ANSWER_LIMIT:,} characters", provider=NAME)

    def _blocks(self) -> tuple[ReasoningBlock, ...]:
        thought = "".join(self._thoughts).strip()
        data: dict[str, Any] = {"provider": NAME} | ({"replay": True} if self._thinks_apart else {})
        return (ReasoningBlock(content=thought, data=data),) if thought else ()


def _chunk(line: bytes) -> dict[str, Any] | None:
    """The JSON of one line; `None` for an empty one and for what never was JSON."""
    if line[:1] != b"{":
        if line.strip():
            _log.warning("Skipped a line that is no JSON: %s", _shown(line))
        return None
    try:
        return json.loads(line.decode("utf-8", "replace"))  # type: ignore[no-any-return]
    except (ValueError, RecursionError) as error:
        raise BadProviderReply(f"A line is damaged: {_shown(line)}", provider=NAME, retryable=True) from error


def _text(piece: Any) -> str:
    if not isinstance(piece, str):
        raise TypeError("a piece of text is no string")
    return piece


def _shown(line: bytes) -> str:
    return line[:200].decode("utf-8", "replace")
