"""The answers of OpenAI's Responses API: from events, or one body, to deltas."""

from __future__ import annotations

import logging
import re
from typing import Any

from aar.errors import AnswerCut, BadProviderReply, ContentRefused, ProviderError
from aar.messages.events import ProviderMeta, ReasoningBlock
from aar.messages.provider import StreamDelta
from aar.providers.failures import error_in_answer, label
from aar.providers.openai_stream import ANSWER_LIMIT, CALL_LIMIT, chunks_of
from aar.providers.openai_wire import text_of, tool_calls, usage_of

__all__ = ["ResponseStream"]

_log = logging.getLogger(__name__)

BREAK = "\n\n"  # between two messages of one answer, and between two summaries of thoughts

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})

# Failures that the request itself is the reason for: it would fail again.
_HOPELESS = r"invalid_|image_|unsupported_|empty_|failed_to_download|data_residency"
_POLICY = r"_policy|content_filter"


class _Item:
    """One piece of the answer: a thought, a message, or a call."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = ""
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []  # of a call's arguments
        self.arguments: Any = None
        self.size = 0  # characters of text or of thoughts
        self.begins_part = False  # the next thought is the first of another summary
        self.phase = ""
        self.sealed = ""  # a thought as only its provider can read it
        self.summary: list[Any] = []

    @property
    def call(self) -> tuple[str, str, Any]:
        return self.call_id or self.id, self.name, "".join(self.pieces) if self.arguments is None else self.arguments


class ResponseStream:
    """Reads the events of one answer. `finish` is the server's word for how it ended."""

    def __init__(self, *, provider: str, model: str) -> None:
        self.finish = ""
        self.is_over = False
        self._provider = provider
        self._asked_model = model
        self._model = model
        self._items: dict[Any, _Item] = {}
        self._thoughts: list[str] = []
        self._has_text = False
        self._has_thoughts = False
        self._request_id = ""
        self._usage: dict[str, int] = {}
        self._size = 0

    def read(self, events: list[str]) -> StreamDelta:
        """What these events say; an empty delta when they say nothing.

        Raises `ProviderError` for an error that the server reports, `BadProviderReply` for what is no event and for
        an answer that does not end.
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
                    raise BadProviderReply(f"An event has an unexpected shape: {event[:200]}") from error
        return self._delta(said, thought)

    def take_whole(self, response: Any) -> StreamDelta:
        """What an answer in one piece says. Raises as `read` does."""
        said: list[str] = []
        thought: list[str] = []
        try:
            if not isinstance(response.get("output"), list) and not response.get("error"):
                raise BadProviderReply("The answer has no output", provider=self._provider)
            self._finish(response, said, thought)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise BadProviderReply(f"The answer has an unexpected shape: {error}", provider=self._provider) from error
        return self._delta(said, thought)

    def end(self) -> list[StreamDelta]:
        """The tool calls and the terminal delta. Raises `AnswerCut` when the answer is not finished."""
        if not self.finish:
            raise AnswerCut("the stream ended in the middle of the answer", provider=self._provider)
        found = [item.call for item in self._items.values() if item.kind == "function_call"]
        calls = tool_calls(found, is_cut=self.finish == "max_output_tokens")
        done = StreamDelta(
            done=True,
            stop_reason=self._stop_reason(has_calls=bool(calls)),
            meta=ProviderMeta(
                provider=self._provider, model=self._model, usage=self._usage, request_id=self._request_id
            ),
            reasoning=self._reasoning(),
        )
        return [*(StreamDelta(tool_call_delta=call) for call in calls), done]

    # --- events ---------------------------------------------------------------------------------

    def _take(self, event: dict[str, Any], said: list[str], thought: list[str]) -> None:
        kind = event.get("type")
        if kind in _TEXT:
            said.append(self._text(self._item(event, "message"), event["delta"]))
        elif kind in _THOUGHT:
            thought.append(self._thought(self._item(event, "reasoning"), event["delta"]))
        elif kind == "response.function_call_arguments.delta":
            self._add_arguments(self._item(event, "function_call"), event["delta"])
        elif kind == "response.function_call_arguments.done":
            self._item(event, "function_call").arguments = event.get("arguments")
        elif kind == "response.output_item.added":
            self._open(event)
        elif kind == "response.output_item.done":
            self._close(self._open(event), event["item"], said, thought)
        elif kind == "response.reasoning_summary_part.added":
            self._item(event, "reasoning").begins_part = True
        elif kind in _ENDS:
            self._finish(event["response"], said, thought)
        elif kind == "response.created":
            self._meet(event["response"])
        elif kind == "error" or event.get("error"):
            raise self._failure(event.get("error") or event)

    def _item(self, event: dict[str, Any], kind: str) -> _Item:
        """The item that an event is about, told by its place; servers that give none name each item instead."""
        key = event.get("output_index")
        if key is None:
            key = event.get("item_id") or (event.get("item") or {}).get("id") or f"only {kind}"
        found = self._items.get(key)
        if found is None:
            if len(self._items) >= CALL_LIMIT:
                raise BadProviderReply(f"The answer has more than {CALL_LIMIT} items", provider=self._provider)
            found = self._items[key] = _Item(kind)
        return found

    def _open(self, event: dict[str, Any]) -> _Item:
        told = event["item"]
        item = self._item(event, text_of(told.get("type")))
        item.kind = text_of(told.get("type"))
        item.id = text_of(told.get("id")) or item.id
        item.call_id = text_of(told.get("call_id")) or item.call_id
        item.name = text_of(told.get("name")) or item.name
        item.phase = text_of(told.get("phase")) or item.phase
        return item

    def _close(self, item: _Item, told: dict[str, Any], said: list[str], thought: list[str]) -> None:
        """Take a whole item: all that it says, where its pieces did not come before."""
        if item.kind == "function_call":
            item.arguments = told.get("arguments", item.arguments)
        elif item.kind == "message" and not item.size:
            whole = "".join(text_of(part.get("text") or part.get("refusal")) for part in told.get("content") or ())
            said.append(self._text(item, whole))
        elif item.kind == "reasoning":
            item.sealed = text_of(told.get("encrypted_content"))
            item.summary = list(told.get("summary") or ())
            self._size += len(item.sealed)
            if not item.size:
                parts = [*item.summary, *(told.get("content") or ())]
                whole = BREAK.join(text for part in parts if (text := text_of(part.get("text"))))
                thought.append(self._thought(item, whole))

    def _text(self, item: _Item, piece: str) -> str:
        if not piece:
            return ""
        gap = BREAK if self._has_text and not item.size else ""
        self._has_text = True
        item.size += len(piece)
        return gap + piece

    def _thought(self, item: _Item, piece: str) -> str:
        if not piece:
            return ""
        gap = BREAK if self._has_thoughts and (item.begins_part or not item.size) else ""
        self._has_thoughts = True
        item.begins_part = False
        item.size += len(piece)
        return gap + piece

    def _add_arguments(self, call: _Item, piece: str) -> None:
        call.pieces.append(piece)
        self._size += len(piece)

    def _delta(self, said: list[str], thought: list[str]) -> StreamDelta:
        text, thoughts = "".join(said), "".join(thought)
        self._size += len(text) + len(thoughts)
        if self._size > ANSWER_LIMIT:
            raise BadProviderReply(f"The answer has more than {ANSWER_LIMIT:,} characters", provider=self._provider)
        if thoughts:
            self._thoughts.append(thoughts)
        return StreamDelta(text, thoughts)

    # --- the end --------------------------------------------------------------------------------

    def _meet(self, response: dict[str, Any]) -> None:
        self._request_id = text_of(response.get("id")) or self._request_id
        self._model = text_of(response.get("model")) or self._model

    def _finish(self, response: dict[str, Any], said: list[str], thought: list[str]) -> None:
        self._meet(response)
        if (error := response.get("error")) or response.get("status") == "failed":
            raise self._failure(error or {"message": "The answer failed, and the server does not say why"})
        if not self._items:
            for index, told in enumerate(response.get("output") or ()):
                self._close(self._open({"item": told, "output_index": index}), told, said, thought)
        self._usage = usage_of(response.get("usage"))
        details = response.get("incomplete_details") or {}
        self.finish = text_of(details.get("reason")) or text_of(response.get("status")) or "completed"
        self.is_over = True

    def _failure(self, told: Any) -> ProviderError:
        code = text_of(told.get("code")) if isinstance(told, dict) else ""
        if re.search(_POLICY, code):
            return ContentRefused(f"{label(self._provider)} refused to answer: {told.get('message')}")
        if re.match(_HOPELESS, code):
            told = {**told, "type": "invalid_request_error"}
        return error_in_answer({"error": told}, self._provider)

    def _stop_reason(self, *, has_calls: bool) -> str:
        if self.finish == "max_output_tokens":
            return "max_tokens"
        if self.finish == "content_filter":
            _log.warning("The server's content filter ended the answer")
            return "error"
        return "tool_use" if has_calls else "end_turn"

    def _reasoning(self) -> tuple[ReasoningBlock, ...]:
        """What the model thought, and what it wants to see of it again: the plan of the answer with sealed thoughts."""
        text = "".join(self._thoughts).strip()
        plan = self._plan() if self.finish == "completed" else []
        if any(entry["type"] == "reasoning" or entry.get("phase") for entry in plan):
            own = {"provider": self._provider, "model": self._asked_model, "replay": True, "output": plan}
            return (ReasoningBlock(content=text, data=own),)
        return (ReasoningBlock(content=text, data={"provider": self._provider}),) if text else ()

    def _plan(self) -> list[dict[str, Any]]:
        plan: list[dict[str, Any]] = []
        for item in self._items.values():
            if item.kind == "reasoning" and item.sealed:
                named = {"id": item.id} if item.id else {}
                sealed = {"summary": item.summary, "encrypted_content": item.sealed}
                plan.append({"type": "reasoning", **named, **sealed})
            elif item.kind == "message" and item.size:
                plan.append({"type": "message", "id": item.id, "size": item.size, "phase": item.phase})
            elif item.kind == "function_call":
                plan.append({"type": "function_call", "id": item.id})
        return plan
