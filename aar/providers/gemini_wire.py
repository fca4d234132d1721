"""Gemini's format: from our messages, tools and settings to the JSON of a request.

Contents alternate between `user` and `model`, results of calls name the function that was called, and signatures that
the model put on its calls go back with them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aar.errors import InvalidSetting
from aar.messages.provider import History, NeutralMessage
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.gemini_schema import gemini_schema
from aar.providers.openai_wire import encode_json
from aar.providers.output_limits import capped

__all__ = [
    "NO_SIGNATURE",
    "OUTPUT_LIMIT",
    "Thinking",
    "answer_format",
    "contents_of",
    "encode_tools",
    "format_in_words",
    "function_name",
    "generation_config",
    "is_before_gemini_3",
    "system_instruction",
]

_log = logging.getLogger(__name__)

# What the vendor documents for calls that another model made: without any signature, Gemini 3 refuses them.
NO_SIGNATURE = "skip_thought_signature_validator"

OUTPUT_LIMIT = "maxOutputTokens"

_USER, _MODEL = b'{"role":"user","parts":[', b'{"role":"model","parts":['
_END = b"]}"
# A conversation must not begin with the model's own turn, as one whose oldest messages were left out may.
_OPENING = _USER + b'{"text":"(What was said before is not shown.)"}' + _END

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[^,;]+)*;base64,", re.IGNORECASE)
_BEFORE_3 = re.compile(r"gemma|gemini-(?:exp|pro$|pro-vision|ultra|[12](?![0-9]))")

Part = dict[str, Any]


# --- contents ---------------------------------------------------------------------------------


def contents_of(history: History, model: str) -> bytes:
    """The JSON array of the conversation. Each settled message is encoded once for a model."""
    pieces = history.encoded(f"gemini:{model}", _Encoder(history, model))
    joined: list[bytes] = [] if pieces and pieces[0].startswith(_USER) else [_OPENING]
    last = _USER[9:10] if joined else b""
    for piece in pieces:
        role = piece[9:10]
        if role == last:
            # Two in a row become one: the first loses its end, the second its start.
            joined[-1] = joined[-1][: -len(_END)]
            joined.append(piece[len(_USER if role == b"u" else _MODEL) :])
        else:
            joined.append(piece)
            last = role
    return b"[" + b",".join(joined) + b"]"


class _Call(NamedTuple):
    """A call as the API knows it; `id` and `signature` only when it had given them."""

    name: str
    id: str = ""
    signature: str = ""


class _Encoder:
    """Encodes the messages of one history. Results stand without the name of their call, which is looked up here."""

    def __init__(self, history: History, model: str) -> None:
        self._history = history
        self._model = model
        self._needs_signatures = not is_before_gemini_3(model)
        self._calls: dict[str, _Call] = {}
        self._knows_all = False

    def __call__(self, message: NeutralMessage) -> bytes:
        role, content = message["role"], message["content"]
        if isinstance(content, str):
            parts = [{"text": content}] if content.strip() else []
        elif role == "assistant":
            parts = self._answer(content)
        else:
            parts = [part for block in content if (part := self._part(block))]
        if not parts:
            return b""
        return (_MODEL if role == "assistant" else _USER) + encode_json(parts)[1:-1] + _END

    def _answer(self, blocks: list[dict[str, Any]]) -> list[Part]:
        signed = self._signed(blocks)
        calls = self._learn(blocks, signed.get("calls") or [])
        parts = [{"text": block["text"]} for block in blocks if block.get("type") == "text" and block["text"].strip()]
        if signed.get("text_signature"):
            # As it came: in a part of its own, since texts with and without a signature are not to be joined.
            parts.append({"text": "", "thoughtSignature": signed["text_signature"]})
        for index, (block, call) in enumerate(calls):
            made: Part = {"name": call.name, "args": block.get("input") or {}}
            if call.id:
                made["id"] = call.id
            part: Part = {"functionCall": made}
            if call.signature:
                part["thoughtSignature"] = call.signature
            elif index == 0 and self._needs_signatures:
                part["thoughtSignature"] = NO_SIGNATURE
            parts.append(part)
        return parts

    def _signed(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        """What this very model wants to see again. Signatures of another one are worth nothing to it."""
        for block in reversed(blocks):
            data = block.get("data") or {}
            if block.get("type") == "reasoning" and data.get("provider") == "gemini" and data.get("replay"):
                return data if data.get("model") == self._model else {}
        return {}

    def _part(self, block: dict[str, Any]) -> Part | None:
        match block.get("type"):
            case "text":
                return {"text": block["text"]} if block["text"].strip() else None
            case "tool_result":
                return self._result(block)
            case "image_url":
                return _image(block["image_url"]["url"])
            case "audio" | "document" | "video" as kind:
                _log.warning("Gemini is not sent %s here: left out", kind)
        return None

    def _result(self, block: dict[str, Any]) -> Part:
        content = block.get("content", "")
        if not isinstance(content, str):
            content = " ".join(part["text"] for part in content if part.get("type") == "text")
        call = self._called(block["tool_use_id"])
        made: Part = {"name": call.name, "response": {"content": content}}
        if call.id:
            made["id"] = call.id
        return {"functionResponse": made}

    # --- calls by their ids ---

    def _learn(self, blocks: list[dict[str, Any]], marks: list[dict[str, str]]) -> list[tuple[dict[str, Any], _Call]]:
        """The calls of an answer, kept for their results. `marks` are the API's own, in the order of the calls."""
        found: list[tuple[dict[str, Any], _Call]] = []
        for block in blocks:
            if block.get("type") == "tool_use":
                mark = marks[len(found)] if len(found) < len(marks) else {}
                call = _Call(function_name(block["name"]), mark.get("id") or "", mark.get("signature") or "")
                self._calls[block["id"]] = call
                found.append((block, call))
        return found

    def _called(self, call_id: str) -> _Call:
        if call_id not in self._calls and not self._knows_all:
            # The call was encoded for an earlier request, and this result is new: its call is not far back.
            for message in reversed(self._history):
                content = message["content"]
                if message["role"] == "assistant" and not isinstance(content, str):
                    self._learn(content, self._signed(content).get("calls") or [])
                    if call_id in self._calls:
                        break
            else:
                self._knows_all = True
        return self._calls.get(call_id) or _Call(function_name(call_id))


def function_name(name: str) -> str:
    """A name that the API accepts: one that a model made up would be refused with the whole history."""
    found = _NOT_IN_NAMES.sub("_", name)[:64] or "unknown"
    return found if found[0].isalpha() or found[0] == "_" else f"_{found}"[:64]


def _image(url: str) -> Part | None:
    start = _DATA_URI.match(url)
    if start:
        return {"inlineData": {"mimeType": start[1].lower(), "data": url[start.end() :]}}
    if url[:5].lower() == "data:":
        _log.warning("An image is left out: its data URI has no type, or no base64")
        return None
    # The API could fetch it. Once the address is gone, it would refuse every later request of the conversation.
    _log.warning("An image is left out, its address is sent instead: Gemini is given images only as data")
    return {"text": f"[image: {url}]"}


# --- the rest of a request --------------------------------------------------------------------


def encode_tools(tools: Iterable[ToolSchema]) -> bytes:
    """The `tools` field, in the order of the tools' names."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    functions = b",".join(tool.encoded("gemini", _encode_tool) for tool in ordered)
    return b'[{"functionDeclarations":[' + functions + b"]}]"


def _encode_tool(tool: ToolSchema) -> bytes:
    function: dict[str, Any] = {"name": function_name(tool.name), "description": tool.description}
    schema = gemini_schema(tool.input_schema)
    # An object without properties is refused here; a function without parameters is not.
    if schema.get("properties"):
        function["parameters"] = schema
    return encode_json(function)


def system_instruction(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


class Thinking(NamedTuple):
    """How much the model may think. `budget` is tokens: 0 none, -1 as it likes; `level` is a word, for Gemini 3."""

    budget: int
    includes_thoughts: bool
    level: str = ""
    is_chosen: bool = False

    @classmethod
    def of(cls, config: ProviderConfig) -> Thinking:
        """From `extra.thinking_budget`, `include_thoughts` and `thinking_level`. Raises `InvalidSetting`."""
        extra = config.extra
        level = str(extra.get("thinking_level") or "")
        default = -1 if "pro" in config.model or level else 0
        budget = extra.get("thinking_budget", default)
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < -1:
            raise InvalidSetting("provider.extra.thinking_budget must be a number of tokens, 0 for none or -1 for any")
        includes = bool(extra.get("include_thoughts", budget != 0))
        return cls(budget, includes, level, "thinking_budget" in extra or bool(level))

    def config(self) -> dict[str, Any] | None:
        """The `thinkingConfig`, or `None` when there is nothing to say."""
        made: dict[str, Any] = {}
        if self.level:
            made["thinkingLevel"] = self.level
        elif self.budget == 0:
            return {"thinkingBudget": 0}
        elif self.budget > 0:
            made["thinkingBudget"] = self.budget
        if self.includes_thoughts:
            made["includeThoughts"] = True
        return made or None


def generation_config(
    config: ProviderConfig,
    max_tokens: int | None,
    thinking: Mapping[str, Any] | None,
    answers: Mapping[str, Any],
) -> dict[str, Any]:
    """The `generationConfig`; `answers` is what `answer_format` says, and `extra.generation_config` overrides.

    Only a limit of the request's own, `max_tokens`, is above that.
    """
    limit = config.max_tokens if max_tokens is None else max_tokens
    made: dict[str, Any] = {}
    if limit:
        made[OUTPUT_LIMIT] = limit
    if config.temperature > 0:
        made["temperature"] = config.temperature
    if thinking:
        made["thinkingConfig"] = dict(thinking)
    made |= answers
    return capped(made | (config.extra.get("generation_config") or {}), max_tokens, OUTPUT_LIMIT)


def answer_format(config: ProviderConfig) -> dict[str, Any]:
    """The fields of `generationConfig` that ask for JSON; empty for text."""
    kind = config.response_format
    if kind in ("json", "json_object"):
        return {"responseMimeType": "application/json"}
    if kind == "json_schema" and config.json_schema:
        inner = config.json_schema.get("schema")
        schema = inner if isinstance(inner, dict) else config.json_schema
        return {"responseMimeType": "application/json", "responseSchema": gemini_schema(schema)}
    return {}


def format_in_words(answers: Mapping[str, Any]) -> str:
    """The same as a sentence for the system prompt, for models that cannot have tools and a format at once."""
    if "responseSchema" not in answers:
        return "Your final answer must be one JSON value and nothing else."
    schema = json.dumps(answers["responseSchema"], ensure_ascii=False)
    return f"Your final answer must be one JSON value that fits this schema, and nothing else: {schema}"


def is_before_gemini_3(model: str) -> bool:
    """Whether a model is older than Gemini 3, by its name. A name without a number means the newest one."""
    return _BEFORE_3.search(model.lower()) is not None
