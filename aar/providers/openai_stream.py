"""OpenAI's chat format, streamed: from chunks to deltas.

This is the hot path of a session that streams: each chunk is one `json.loads` and a few look-ups, and all chunks
of one network read become one delta.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from aar.errors import AnswerCut, BadProviderReply
from aar.messages.events import ProviderMeta, ReasoningBlock
from aar.messages.provider import StreamDelta
from aar.providers.failures import error_in_answer
from aar.providers.openai_wire import stop_reason, text_and_thoughts, text_of, tool_calls, usage_of
from aar.providers.thinking import ThinkingRouter, reasoning_piece

__all__ = ["ANSWER_LIMIT", "CALL_LIMIT", "ChatStream", "chunks_of"]

_log = logging.getLogger(__name__)

ANSWER_LIMIT = 8_000_000  # characters of text, thoughts and arguments together
CALL_LIMIT = 1024


class _Call:
    """A tool call that is being put together. Some servers send the arguments as an object, in one piece."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.whole: Any = None

    @property
    def arguments(self) -> Any:
        return "".join(self.pieces) if self.whole is None else self.whole


class ChatStream:
    """Reads the events of one answer. `finish` is the server's finish reason; `is_over` that `[DONE]` was seen."""

    def __init__(self, *, provider: str, model: str, splits_tags: bool) -> None:
        self.finish = ""
        self.is_over = False
        self._provider = provider
        self._model = model
        self._router = ThinkingRouter() if splits_tags else None
        self._calls: list[_Call] = []
        self._thoughts: list[str] = []
        self._request_id = ""
        self._usage: dict[str, int] = {}
        self._size = 0

    def read(self, events: list[str]) -> StreamDelta:
        """What these events say; an empty delta when they say nothing.

        Raises `ProviderError` for an error that the server reports, `BadProviderReply` for what is no chunk and
        for an answer that does not end.
        """
        said: list[str] = []
        thought: list[str] = []
        for event in events:
            if event == "[DONE]":
                self.is_over = True
                break
            for chunk in chunks_of(event):
                try:
                    self._take(chunk, said, thought)
                except (AttributeError, KeyError, IndexError, TypeError) as error:
                    raise BadProviderReply(f"A chunk has an unexpected shape: {event[:200]}") from error
        text, thoughts = "".join(said), "".join(thought)
        self._size += len(text) + len(thoughts)
        if self._size > ANSWER_LIMIT:
            raise BadProviderReply(f"The answer has more than {ANSWER_LIMIT:,} characters", provider=self._provider)
        return self._delta(text, thoughts)

    def end(self) -> list[StreamDelta]:
        """The last deltas: what was held back, the tool calls, the terminal one.

        Raises `AnswerCut` when the stream has stopped before the answer was finished.
        """
        if not self.finish and not self.is_over:
            raise AnswerCut("the stream ended in the middle of the answer", provider=self._provider)
        text, thought = self._router.flush() if self._router else ("", "")
        deltas = [self._delta(text, thought, is_routed=True)] if text or thought else []
        calls = tool_calls(
            ((call.id, call.name, call.arguments) for call in self._calls), is_cut=self.finish == "length"
        )
        deltas += [StreamDelta(tool_call_delta=call) for call in calls]
        return [*deltas, self._terminal(has_calls=bool(calls))]

    def _delta(self, text: str, thought: str, *, is_routed: bool = False) -> StreamDelta:
        if text and self._router is not None and not is_routed:
            text, more = self._router.feed(text)
            thought += more
        if thought:
            self._thoughts.append(thought)
        return StreamDelta(text, thought)

    def _terminal(self, *, has_calls: bool) -> StreamDelta:
        thought = "".join(self._thoughts).strip()
        block = ReasoningBlock(content=thought, data={"provider": self._provider})
        meta = ProviderMeta(provider=self._provider, model=self._model, usage=self._usage, request_id=self._request_id)
        return StreamDelta(
            done=True,
            stop_reason=stop_reason(self.finish, has_calls=has_calls),
            meta=meta,
            reasoning=(block,) if thought else (),
        )

    def _take(self, chunk: dict[str, Any], said: list[str], thought: list[str]) -> None:
        if chunk.get("error") or chunk.get("object") == "error":
            raise error_in_answer(chunk, self._provider)
        if not self._request_id:
            self._request_id = text_of(chunk.get("id"))
            self._model = text_of(chunk.get("model")) or self._model
        if usage := chunk.get("usage"):
            self._usage = usage_of(usage)
        choices = chunk.get("choices")
        if not choices:
            return
        choice = choices[0]
        if delta := choice.get("delta") or choice.get("message"):
            self._take_delta(delta, said, thought)
        if finish := choice.get("finish_reason"):
            self.finish = text_of(finish)

    def _take_delta(self, delta: dict[str, Any], said: list[str], thought: list[str]) -> None:
        if content := delta.get("content"):
            if isinstance(content, str):
                said.append(content)
                # The rest of a chunk is nearly always nothing.
                if len(delta) == 1:
                    return
            else:
                text, inner = text_and_thoughts(content)
                said.append(text)
                thought.append(inner)
        if piece := reasoning_piece(delta):
            thought.append(piece)
        if refusal := delta.get("refusal"):
            said.append(text_of(refusal))
        for part in delta.get("tool_calls") or ():
            self._take_call(part)

    def _take_call(self, part: dict[str, Any]) -> None:
        function = part.get("function") or {}
        call = self._call_for(part, function)
        call.id = call.id or text_of(part.get("id"))
        call.name = call.name or text_of(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.pieces.append(arguments)
            self._size += len(arguments)
        elif arguments is not None:
            call.whole = arguments

    def _call_for(self, part: dict[str, Any], function: dict[str, Any]) -> _Call:
        """The call that this fragment belongs to.

        Calls are told apart by `index`; servers that leave it out, or always say 0, name each new call.
        """
        index, call_id = part.get("index"), text_of(part.get("id"))
        known = [call for call in self._calls if call.index == index]
        if not known and (index is not None or not self._calls):
            return self._new_call(index)
        call = known[-1] if known else self._calls[-1]
        is_named_again = bool(function.get("name")) and bool(call.name)
        if is_named_again and (call_id != call.id if call_id else index is None):
            return self._new_call(index)
        return call

    def _new_call(self, index: Any) -> _Call:
        if len(self._calls) >= CALL_LIMIT:
            raise BadProviderReply(f"The answer has more than {CALL_LIMIT} tool calls", provider=self._provider)
        self._calls.append(_Call(index))
        return self._calls[-1]


def chunks_of(event: str) -> list[Any]:
    """The JSON of one event. Servers that forget the empty lines between events make several lines one event."""
    try:
        return [json.loads(event)]
    except ValueError as error:
        if "\n" in event:
            return [chunk for line in event.split("\n") if line != "[DONE]" for chunk in chunks_of(line)]
        if event[:1] != "{":
            if event:
                _log.warning("Skipped an event that is no JSON: %.200s", event)
            return []
        raise BadProviderReply(f"An event is damaged: {event[:200]}", retryable=True) from error
