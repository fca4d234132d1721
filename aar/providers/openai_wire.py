"""OpenAI's chat format: from our messages to its JSON and back.

What goes out is the same bytes for the same message every time, so that servers find the start of a conversation in
their caches. What comes in is read with patience: servers that speak this format differ in everything that is optional.
"""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from aar.errors import BadProviderReply
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import History, NeutralMessage, ProviderResponse, has_images
from aar.messages.tools import ToolSchema
from aar.providers.thinking import extract_thinking, reasoning_of

__all__ = [
    "MAX_COUNT",
    "encode_json",
    "encode_message",
    "encode_tools",
    "encoded_messages",
    "parse_answer",
    "parse_arguments",
    "response_format",
    "result_text",
    "stop_reason",
    "text_and_thoughts",
    "text_of",
    "tool_calls",
    "usage_of",
    "warn_of_lost_part",
    "wire_arguments",
    "wire_call_id",
    "wire_messages",
    "wire_name",
    "without_images",
]

_log = logging.getLogger(__name__)

# `json.dumps` would make one at every call.
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_ID = 40  # characters; more are refused
_NO_IMAGE = {"type": "text", "text": "[image left out: the model takes no images]"}
MAX_COUNT = 2**53  # tokens; a count beyond is nonsense, and not every reader of JSON could hold it
_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "error"}


# --- what goes out ----------------------------------------------------------------------------


def encode_json(value: Any) -> bytes:
    """Compact JSON in UTF-8. Half a surrogate pair, which UTF-8 cannot carry, becomes a question mark."""
    return _strict(_COMPACT, value).encode("utf-8", "replace")


def _strict(encoder: json.JSONEncoder, value: Any) -> str:
    """JSON that every server reads: a model that once said 1e999 would spoil all later requests with an `Infinity`."""
    try:
        return encoder.encode(value)
    except ValueError:
        return encoder.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def encode_message(message: NeutralMessage) -> bytes:
    """The wire messages of one neutral message, joined by commas; empty when it has none."""
    return b",".join(encode_json(wire) for wire in wire_messages(message))


def encoded_messages(history: History, *, with_images: bool) -> list[bytes]:
    """The messages of a conversation, each encoded once; for a model that takes no images, without them."""
    if with_images:
        return history.encoded("openai", encode_message)
    return history.encoded("openai without images", _encode_without_images)


def _encode_without_images(message: NeutralMessage) -> bytes:
    return encode_message(without_images(message))


def without_images(message: NeutralMessage) -> NeutralMessage:
    """The message with a word in the place of each image."""
    content = message["content"]
    if isinstance(content, str) or not has_images(message):
        return message
    blocks = [_NO_IMAGE if block.get("type") == "image_url" else block for block in content]
    return {"role": message["role"], "content": blocks}


def wire_messages(message: NeutralMessage) -> list[dict[str, Any]]:
    """One message, or one for each tool result. What the format has no place for is left out."""
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if role == "assistant":
        return _assistant(content)
    results = [block for block in content if block.get("type") == "tool_result"]
    if results:
        return [_tool_result(block) for block in results]
    return _parts(role, content)


def _assistant(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = " ".join(block["text"] for block in blocks if block.get("type") == "text")
    calls = [_tool_use(block) for block in blocks if block.get("type") == "tool_use"]
    if not text and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    return [message]


def _tool_use(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": wire_name(block["name"]), "arguments": wire_arguments(block.get("input"))}
    return {"id": wire_call_id(block["id"]), "type": "function", "function": function}


def wire_arguments(arguments: Mapping[str, Any] | None) -> str:
    """The arguments of a call as text.

    Those that came damaged are kept as {"raw": text} and go back as that object: a server that reads its own
    history as JSON would fail on the text itself, at every request from then on.
    """
    return _strict(_SPACED, arguments or {})


def wire_name(name: str) -> str:
    """The name of a tool, in characters that are taken.

    One that a model made up would be refused with the whole history, at every request from then on.
    """
    return _NO_NAME.sub("_", name)[:64] or "unknown"


def wire_call_id(call_id: str) -> str:
    """The id of a call and of its result, in the 40 characters that the chat format has for it."""
    if 0 < len(call_id) <= LONGEST_ID:
        return call_id
    from hashlib import sha256

    return "call_" + sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]


def _tool_result(block: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": wire_call_id(block["tool_use_id"]), "content": result_text(block)}


def result_text(block: Mapping[str, Any]) -> str:
    """What a tool result says. Results are text, or parts of which only the text has a place."""
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part.get("type") == "text")


def _parts(role: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    parts = [part for block in blocks if (part := _part(block))]
    if not parts:
        return []
    if len(parts) == 1 and parts[0]["type"] == "text":
        return [{"role": role, "content": parts[0]["text"]}]
    return [{"role": role, "content": parts}]


def _part(block: dict[str, Any]) -> dict[str, Any] | None:
    if block.get("type") == "text":
        return {"type": "text", "text": block["text"]}
    if block.get("type") == "image_url":
        image = {name: value for name, value in block["image_url"].items() if value is not None}
        return {"type": "image_url", "image_url": image}
    warn_of_lost_part(block)
    return None


def warn_of_lost_part(block: Mapping[str, Any]) -> None:
    """Say once per message that audio, video or a document was left out."""
    if block.get("type") in ("audio", "document", "video"):
        _log.warning("Left out %s, which this kind of API does not take", block["type"])


def encode_tools(tools: Iterable[ToolSchema]) -> bytes:
    """The tools as a JSON array, in the order of their names."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    return b"[" + b",".join(tool.encoded("openai", _encode_tool) for tool in ordered) + b"]"


def _encode_tool(tool: ToolSchema) -> bytes:
    schema = tool.input_schema or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return encode_json({"type": "function", "function": function})


def response_format(kind: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `response_format` field, or `None` for plain text. A bare JSON schema gets the wrapper that servers want."""
    if kind in ("json", "json_object"):
        return {"type": "json_object"}
    if kind == "json_schema" and schema:
        wrapped = dict(schema) if "schema" in schema else {"name": "answer", "schema": dict(schema)}
        return {"type": "json_schema", "json_schema": wrapped}
    return None


# --- what comes in ----------------------------------------------------------------------------


def parse_arguments(value: Any) -> dict[str, Any]:
    """The arguments of a call as an object. Text that is no JSON object becomes `{"raw": text}`; nothing is `{}`."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    parsed = value
    # Some servers send the object itself, and some encode it twice.
    for _ in range(2):
        if isinstance(parsed, str):
            try:
                parsed = json.loads(parsed, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                break
    if parsed is None:
        return {}
    if isinstance(parsed, dict):
        return parsed
    return {"raw": value if isinstance(value, str) else json.dumps(value)}


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def tool_calls(calls: Iterable[tuple[str, str, Any]], *, is_cut: bool = False) -> list[ToolCall]:
    """Calls from `(id, name, arguments)`; ids that are missing or repeat are replaced.

    `is_cut` says that the token limit ended the answer: then a last call without any arguments is a damaged one.
    """
    wanted = list(calls)
    seen: set[str] = set()
    made: list[ToolCall] = []
    for index, (call_id, name, arguments) in enumerate(wanted):
        if not call_id or call_id in seen:
            call_id = f"generic_tc_{index}_{secrets.token_hex(6)}"
        seen.add(call_id)
        parsed = parse_arguments(arguments)
        if is_cut and index == len(wanted) - 1 and arguments in ("", None):
            parsed = {"raw": ""}
        made.append(ToolCall(tool_name=name, tool_call_id=call_id, arguments=parsed))
    return made


def stop_reason(finish: Any, *, has_calls: bool = False) -> str:
    """Our word for `finish_reason`. Many servers say `stop` although the answer has calls."""
    reason = _STOPS.get(finish, "end_turn") if isinstance(finish, str) else "end_turn"
    if finish == "content_filter":
        _log.warning("The server's content filter ended the answer")
    return "tool_use" if has_calls and reason == "end_turn" else reason


def usage_of(usage: Any) -> dict[str, int]:
    """The usage map: input, output and total tokens, and those read from a cache and written to it.

    Empty when nothing was reported. Tokens of the cache are counted among the input.
    """
    if not isinstance(usage, Mapping):
        return {}
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    details = details if isinstance(details, Mapping) else {"cached_tokens": usage.get("prompt_cache_hit_tokens")}
    found = {
        "input_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
        "output_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
        "total_tokens": usage.get("total_tokens"),
        "cache_read_tokens": details.get("cached_tokens") or None,
        "cache_write_tokens": details.get("cache_write_tokens") or None,
    }
    return {name: count for name, value in found.items() if (count := _count(value)) is not None}


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(min(max(0, value), MAX_COUNT))


def text_of(value: Any) -> str:
    """An id or a name as text: some servers send numbers."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def text_and_thoughts(content: Any) -> tuple[str, str]:
    """`content` as text, whether it is text, absent, or a list of parts, some of which may be thoughts."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", ""
    said: list[str] = []
    thought: list[str] = []
    for part in content:
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thought.append(inner if isinstance(inner, str) else text_and_thoughts(inner)[0])
        elif isinstance(part.get("text"), str):
            said.append(part["text"])
    return "".join(said), "".join(thought)


def parse_answer(body: Any, *, provider: str, model: str, splits_tags: bool) -> ProviderResponse:
    """A whole answer. Raises `BadProviderReply` when it has no choices or another shape."""
    try:
        return _parse_answer(body, provider, model, splits_tags)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise BadProviderReply(f"The answer has an unexpected shape: {error}", provider=provider) from error


def _parse_answer(body: Any, provider: str, model: str, splits_tags: bool) -> ProviderResponse:
    choices = body.get("choices")
    if not choices:
        raise BadProviderReply("The answer has no choices", provider=provider)
    message = choices[0].get("message") or {}
    finish = choices[0].get("finish_reason")
    text, thought = text_and_thoughts(message.get("content") or message.get("refusal"))
    thoughts = [field] if (field := reasoning_of(message) or thought) else []
    if splits_tags and not thoughts:
        text, thoughts = extract_thinking(text)
    functions = [(text_of(call.get("id")), call["function"]) for call in message.get("tool_calls") or ()]
    calls = tool_calls(
        ((call_id, text_of(function.get("name")), function.get("arguments")) for call_id, function in functions),
        is_cut=finish == "length",
    )
    return ProviderResponse(
        content=text,
        tool_calls=tuple(calls),
        stop_reason=stop_reason(finish, has_calls=bool(calls)),
        reasoning=tuple(ReasoningBlock(content=item, data={"provider": provider}) for item in thoughts),
        meta=ProviderMeta(
            provider=provider,
            model=text_of(body.get("model")) or model,
            usage=usage_of(body.get("usage")),
            request_id=text_of(body.get("id")),
        ),
    )
