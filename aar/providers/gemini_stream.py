"""Gemini's answers: from chunks, or one whole, to deltas.

There is no end marker. An answer is complete when a chunk has told why it finished, and cut when the connection ends
before that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aar.errors import AnswerCut, BadProviderReply, ContentRefused
from aar.messages.base import new_call_id
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import ModelInfo, StreamDelta
from aar.providers.failures import error_in_answer
from aar.providers.openai_wire import MAX_COUNT, parse_arguments, text_of
from aar.providers.sse import LineSplitter, SseParser

__all__ = ["AnswerEvents", "AnswerReader", "models_of", "stop_reason", "usage_of"]

_log = logging.getLogger(__name__)

ANSWER_LIMIT = 8_000_000  # characters of text, thoughts and calls together
CALL_LIMIT = 1024
DOCUMENT_LIMIT = 64 * 1024 * 1024  # bytes of an answer in one piece

# NaN and its like are no JSON: among the arguments of a call they would make every later request an invalid one.
_JSON = json.JSONDecoder(parse_constant=lambda _: None)

_STOPS = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",  # the limit of one request: the rest can be asked for
}
_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "ESCALATION",
        "MODEL_ARMOR",
        "PUP_LIMITED_DISABLED",
    }
)
# The model has broken off over a call that it could not write down. Asked again, it mostly can.
_BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})


class AnswerEvents:
    """The JSON texts of a streamed answer, whichever way it is framed: server-sent events, lines, or one document."""

    def __init__(self) -> None:
        self._events: SseParser | None = None
        self._lines: LineSplitter | None = None
        self._document: bytearray | None = None
        self._head = b""

    def feed(self, chunk: bytes) -> list[str]:
        """What this read completes. Raises `BadProviderReply` for what is too long."""
        if self._events is not None:
            return self._events.feed(chunk)
        if self._lines is not None:
            return self._bare(chunk, self._lines)
        self._head += chunk
        start = self._head.lstrip()[:1]
        if not start:
            return []
        chunk, self._head = self._head, b""
        if start in b"{[":
            self._lines = LineSplitter()
            return self._bare(chunk, self._lines)
        self._events = SseParser()
        return self._events.feed(chunk)

    def finish(self) -> list[str]:
        """What the end of the stream completes."""
        if self._events is not None:
            return self._events.finish()
        if self._lines is None:
            return []
        rest = self._lines.finish()
        if self._document is None:
            return [line.decode("utf-8", "replace") for line in rest]
        return [bytes(self._document + b"".join(rest)).decode("utf-8", "replace")]

    def _bare(self, chunk: bytes, splitter: LineSplitter) -> list[str]:
        found: list[str] = []
        for line in splitter.feed(chunk):
            if self._document is None and (text := line.decode("utf-8", "replace").strip()):
                if _is_json(text):
                    found.append(text)
                else:
                    # An object over several lines, or the array that a stream without `alt=sse` is.
                    self._document = bytearray()
            if self._document is not None:
                self._document += line + b"\n"
                if len(self._document) > DOCUMENT_LIMIT:
                    raise BadProviderReply(f"The answer has more than {DOCUMENT_LIMIT:,} bytes")
        return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text == "[DONE]"
    return True


class AnswerReader:
    """Reads the events of one answer, or the one of an answer that is not streamed."""

    def __init__(self, *, model: str, provider: str = "gemini") -> None:
        """`model` is the configured one; signatures are only worth something to it."""
        self.finish = ""
        self.is_over = False
        self.has_candidate = False
        self._asked_model = model
        self._provider = provider
        self._model = model
        self._request_id = ""
        self._usage: Any = None
        self._detail = ""
        self._blocked = ""
        self._calls: list[ToolCall] = []
        self._marks: list[dict[str, str]] = []
        self._call_ids: set[str] = set()
        self._thoughts: list[str] = []
        self._text_signature = ""
        self._size = 0
        self._has_text = False

    def read(self, events: list[str]) -> StreamDelta:
        """What these events say; an empty delta when they say nothing.

        Raises `ProviderError` for an error that the server reports, `BadProviderReply` for what is no answer and for
        one that does not end.
        """
        return self.read_chunks([chunk for event in events for chunk in _chunks(event)])

    def read_chunks(self, chunks: Iterable[Any]) -> StreamDelta:
        """The same for what is already read as JSON."""
        said: list[str] = []
        thought: list[str] = []
        for chunk in chunks:
            if chunk == "[DONE]":
                self.is_over = True
                continue
            try:
                self._take(chunk, said, thought)
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                raise BadProviderReply(f"A chunk has an unexpected shape: {str(chunk)[:200]}") from error
        text, thoughts = "".join(said), "".join(thought)
        if thoughts:
            self._thoughts.append(thoughts)
        self._has_text = self._has_text or bool(text)
        self._size += len(text) + len(thoughts)
        if self._size > ANSWER_LIMIT:
            raise BadProviderReply(f"The answer has more than {ANSWER_LIMIT:,} characters", provider=self._provider)
        return StreamDelta(text, thoughts)

    def end(self) -> list[StreamDelta]:
        """The last deltas: the tool calls and the terminal one.

        Raises `AnswerCut` when the stream has stopped before the answer was finished, `ContentRefused` when a filter
        has left nothing of it, and `BadProviderReply` when the model could not write down its call.
        """
        if self._blocked and not self._has_said_something:
            raise _refused(f"Gemini refused the prompt ({self._blocked})", self._provider)
        if not self.finish and not self.is_over:
            raise AnswerCut("the stream ended in the middle of the answer", provider=self._provider)
        self._check_finish()
        deltas = [StreamDelta(tool_call_delta=call) for call in self._calls]
        return [*deltas, self._terminal()]

    @property
    def is_blocked(self) -> bool:
        """Whether a filter has refused the prompt."""
        return bool(self._blocked)

    @property
    def _has_said_something(self) -> bool:
        return self._has_text or bool(self._calls)

    def _check_finish(self) -> None:
        detail = f"{self.finish}: {self._detail}" if self._detail else self.finish
        if self.finish in _BROKEN:
            raise BadProviderReply(
                f"Gemini could not finish its tool call ({detail})", provider=self._provider, retryable=True
            )
        if self.finish == "MISSING_THOUGHT_SIGNATURE":
            raise BadProviderReply(
                f"Gemini misses signatures in the conversation ({detail}): begin a new session, or take another model",
                provider=self._provider,
            )
        if self.finish in _FILTERED:
            if not self._has_said_something:
                raise _refused(f"Gemini's filter stopped the answer ({detail})", self._provider)
            _log.warning("Gemini's filter ended the answer: %s", detail)

    def _terminal(self) -> StreamDelta:
        meta = ProviderMeta(
            provider=self._provider,
            model=self._model,
            usage=usage_of(self._usage),
            request_id=self._request_id,
        )
        return StreamDelta(
            done=True,
            stop_reason=stop_reason(self.finish, has_calls=bool(self._calls)),
            meta=meta,
            reasoning=self._reasoning(),
        )

    def _reasoning(self) -> tuple[ReasoningBlock, ...]:
        """The thoughts, with what the model wants to see again: ids and signatures of its calls, by their places."""
        thought = "".join(self._thoughts).strip()
        data: dict[str, Any] = {"provider": self._provider}
        if any(self._marks) or self._text_signature:
            data |= {"replay": True, "model": self._asked_model, "calls": self._marks}
            if self._text_signature:
                data["text_signature"] = self._text_signature
        if not thought and "replay" not in data:
            return ()
        return (ReasoningBlock(content=thought, data=data),)

    # --- one chunk ---

    def _take(self, chunk: dict[str, Any], said: list[str], thought: list[str]) -> None:
        if chunk.get("error"):
            raise error_in_answer(chunk, self._provider)
        if usage := chunk.get("usageMetadata"):
            self._usage = usage
        if not self._request_id:
            self._request_id = text_of(chunk.get("responseId"))
            self._model = text_of(chunk.get("modelVersion")) or self._model
        candidates = chunk.get("candidates")
        if not candidates:
            feedback = chunk.get("promptFeedback") or {}
            self._blocked = text_of(feedback.get("blockReason")) or self._blocked
            return
        self.has_candidate = True
        candidate = candidates[0]
        if content := candidate.get("content"):
            for part in content.get("parts") or ():
                self._take_part(part, said, thought)
        if finish := candidate.get("finishReason"):
            self.finish = _bare_word(finish)
            self._detail = text_of(candidate.get("finishMessage"))

    def _take_part(self, part: dict[str, Any], said: list[str], thought: list[str]) -> None:
        text = part.get("text")
        if text:
            (thought if part.get("thought") else said).append(text)
        if len(part) == 1 and text is not None:
            return
        if call := part.get("functionCall"):
            self._take_call(call, text_of(part.get("thoughtSignature")))
        elif (signature := part.get("thoughtSignature")) and not part.get("thought"):
            self._text_signature = text_of(signature)

    def _take_call(self, call: dict[str, Any], signature: str) -> None:
        if len(self._calls) >= CALL_LIMIT:
            raise BadProviderReply(f"The answer has more than {CALL_LIMIT} tool calls", provider=self._provider)
        given = text_of(call.get("id"))
        call_id = given if given and given not in self._call_ids else new_call_id()
        self._call_ids.add(call_id)
        arguments = parse_arguments(call.get("args"))
        self._calls.append(ToolCall(tool_name=text_of(call.get("name")), tool_call_id=call_id, arguments=arguments))
        mark = {"id": given, "signature": signature}
        self._marks.append({name: value for name, value in mark.items() if value})
        self._size += len(json.dumps(arguments)) + len(signature)


def _refused(what: str, provider: str) -> ContentRefused:
    error = ContentRefused(f"{what}: change what you ask for, or take another model", provider=provider)
    error.advice = str(error)
    return error


def _chunks(event: str) -> list[Any]:
    """The JSON of one event, which may be an array of chunks, or lines that nobody has put empty ones between."""
    try:
        found = _JSON.decode(event)
    except (ValueError, RecursionError) as error:
        if event.strip() == "[DONE]":
            return ["[DONE]"]
        if "\n" in event:
            return [chunk for line in event.split("\n") if line.strip() for chunk in _chunks(line)]
        if event[:1] not in ("{", "["):
            _log.warning("Skipped an event that is no JSON: %.200s", event)
            return []
        raise BadProviderReply(f"An event is damaged: {event[:200]}", retryable=True) from error
    return found if isinstance(found, list) else [found]


def _bare_word(finish: Any) -> str:
    """`MAX_TOKENS`, also from the vendor's enumeration and from its printed form `FinishReason.MAX_TOKENS`."""
    return text_of(getattr(finish, "value", finish)).rpartition(".")[2].upper()


def stop_reason(finish: Any, *, has_calls: bool = False) -> str:
    """Our word for a finish reason, the plain word or the vendor's enumeration. An answer with calls says `STOP`."""
    word = _bare_word(finish)
    reason = "error" if word in _FILTERED else _STOPS.get(word, "end_turn")
    return "tool_use" if has_calls and reason == "end_turn" else reason


def usage_of(usage: Any) -> dict[str, int]:
    """The usage map. Thoughts count as output, as they are billed; tokens of a cache are among the input."""
    if not isinstance(usage, Mapping):
        return {}
    said, thought = _count(usage.get("candidatesTokenCount")), _count(usage.get("thoughtsTokenCount"))
    found = {
        "input_tokens": _count(usage.get("promptTokenCount")),
        "output_tokens": None if said is None and thought is None else (said or 0) + (thought or 0),
        "total_tokens": _count(usage.get("totalTokenCount")),
        "cache_read_tokens": _count(usage.get("cachedContentTokenCount")) or None,
    }
    return {name: count for name, count in found.items() if count is not None}


def _count(value: Any) -> int | None:
    return min(max(value, 0), MAX_COUNT) if isinstance(value, int) and not isinstance(value, bool) else None


def models_of(listed: Any) -> tuple[ModelInfo, ...]:
    """The models of a list that can be asked for an answer. Raises `BadProviderReply` for what is no such list."""
    try:
        return tuple(
            ModelInfo(
                model["name"].removeprefix("models/"),
                _count(model.get("inputTokenLimit")),
                _count(model.get("outputTokenLimit")),
                ("thinking",) if model.get("thinking") else (),
            )
            for model in listed.get("models") or ()
            if "generateContent" in (model.get("supportedGenerationMethods") or ("generateContent",))
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise BadProviderReply("The list of models has an unexpected shape") from error
