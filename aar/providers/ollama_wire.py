"""Ollama's chat format: from our messages to its JSON and back."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from aar.errors import BadProviderReply
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import NeutralMessage, ProviderResponse
from aar.providers.openai_wire import encode_json, parse_arguments, text_of, usage_of
from aar.providers.thinking import extract_thinking

__all__ = [
    "NAME",
    "answer_format",
    "encode_message",
    "encode_message_without_images",
    "meta_of",
    "parse_answer",
    "stop_reason",
    "tool_calls",
]

_log = logging.getLogger(__name__)

NAME = "ollama"

_STRICT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_STOPS = {"stop": "end_turn", "length": "max_tokens"}


# --- what goes out ----------------------------------------------------------------------------


def encode_message(message: NeutralMessage) -> bytes:
    """The wire messages of one neutral message, joined by commas; empty when it has none.

    What the format has no place for is left out, with one warning for the message.
    """
    return b",".join(_encode(wire) for wire in _wire_messages(message, sees=True))


def encode_message_without_images(message: NeutralMessage) -> bytes:
    """The same for a model that sees nothing."""
    return b",".join(_encode(wire) for wire in _wire_messages(message, sees=False))


def _encode(wire: dict[str, Any]) -> bytes:
    try:
        return _STRICT.encode(wire).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        # Arguments are sent as JSON itself: a model that once said 1e999 would spoil every later request.
        for call in wire.get("tool_calls", ()):
            call["function"]["arguments"] = {"raw": repr(call["function"]["arguments"])}
        return encode_json(wire)


def _wire_messages(message: NeutralMessage, *, sees: bool) -> list[dict[str, Any]]:
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if role == "assistant":
        return _assistant(content)
    results = [block for block in content if block.get("type") == "tool_result"]
    if results:
        return [_tool_result(block) for block in results]
    return _user(role, content, sees=sees)


def _assistant(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = _text(blocks)
    calls = [_tool_use(block) for block in blocks if block.get("type") == "tool_use"]
    if not text and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thought := "\n".join(block["text"] for block in blocks if _is_own_thought(block)):
        message["thinking"] = thought
    if calls:
        message["tool_calls"] = calls
    return [message]


def _is_own_thought(block: dict[str, Any]) -> bool:
    return block.get("type") == "reasoning" and (block.get("data") or {}).get("provider") == NAME


def _tool_use(block: dict[str, Any]) -> dict[str, Any]:
    return {"function": {"name": block["name"] or "unknown", "arguments": block.get("input") or {}}}


def _tool_result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content", "")
    message = {"role": "tool", "content": content if isinstance(content, str) else _text(content)}
    if name := block.get("name"):
        message["tool_name"] = name
    return message


def _user(role: str, blocks: list[dict[str, Any]], *, sees: bool) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": role, "content": _text(blocks)}
    left_out: list[str] = []
    images: list[str] = []
    for block in blocks:
        kind = block.get("type", "")
        if kind == "image_url" and sees and (payload := _base64(block["image_url"]["url"])):
            images.append(payload)
        elif kind == "image_url":
            left_out.append(
                "an image that is no readable data: URI" if sees else "an image, which the model cannot see"
            )
        elif kind != "text":
            left_out.append(kind)
    if left_out:
        _log.warning("Not sent to Ollama: %s", ", ".join(left_out))
    if images:
        message["images"] = images
    return [message] if message["content"] or images else []


def _text(blocks: Iterable[dict[str, Any]]) -> str:
    return " ".join(block["text"] for block in blocks if block.get("type") == "text")


def _base64(url: str) -> str:
    """The payload of a data URI in the base64 that Ollama reads; empty for anything else.

    What it cannot decode it refuses with the whole conversation, at every request from then on.
    """
    head, comma, payload = url.partition(",")
    if not head.lower().startswith("data:") or not comma:
        return ""
    if not head.lower().endswith(";base64"):
        return base64.b64encode(unquote_to_bytes(payload)).decode()
    payload = "".join(payload.split())
    try:
        base64.b64decode(payload, validate=True)
    except binascii.Error:
        return _mended(payload)
    return payload


def _mended(payload: str) -> str:
    """Base64 in the alphabet of URLs, or without its padding, written as usual; empty when it is neither."""
    payload = payload.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")
    payload = payload.replace("-", "+").replace("_", "/").rstrip("=")
    payload += "=" * (-len(payload) % 4)
    try:
        base64.b64decode(payload, validate=True)
    except (ValueError, binascii.Error):
        return ""
    return payload


def answer_format(kind: str, schema: Mapping[str, Any]) -> Any:
    """The `format` field: `"json"`, a JSON schema, or `None` for plain text. OpenAI's wrapper is taken off."""
    if kind in ("json", "json_object"):
        return "json"
    if kind == "json_schema" and schema:
        inner = schema.get("schema")
        return inner if isinstance(inner, dict) else dict(schema)
    return None


# --- what comes in ----------------------------------------------------------------------------


def tool_calls(calls: Iterable[Any]) -> list[ToolCall]:
    """Calls as Ollama sends them. Older servers give no ids: then they get ones that no other call ever has."""
    seen: set[str] = set()
    made: list[ToolCall] = []
    for call in calls:
        function = call.get("function") or {}
        call_id = text_of(call.get("id"))
        if not call_id or call_id in seen:
            call_id = f"ollama_tc_{secrets.token_hex(8)}"
        seen.add(call_id)
        arguments = parse_arguments(function.get("arguments"))
        made.append(ToolCall(tool_name=text_of(function.get("name")), tool_call_id=call_id, arguments=arguments))
    return made


def stop_reason(reason: Any, *, has_calls: bool) -> str:
    """Our word for `done_reason`."""
    if has_calls:
        return "tool_use"
    return _STOPS.get(reason, "end_turn") if isinstance(reason, str) else "end_turn"


def meta_of(answer: Mapping[str, Any], model: str) -> ProviderMeta:
    """What the last piece of an answer, or a whole one, says about it."""
    counts = {"prompt_tokens": answer.get("prompt_eval_count"), "completion_tokens": answer.get("eval_count")}
    return ProviderMeta(provider=NAME, model=text_of(answer.get("model")) or model, usage=usage_of(counts))


def parse_answer(body: Any, *, model: str) -> ProviderResponse:
    """A whole answer. Raises `BadProviderReply` when it has no message or another shape."""
    try:
        return _parse_answer(body, model)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadProviderReply(f"The answer has an unexpected shape: {error}", provider=NAME) from error


def _parse_answer(body: Any, model: str) -> ProviderResponse:
    message = body["message"]
    text, thought = text_of(message.get("content")), text_of(message.get("thinking")).strip()
    blocks: tuple[ReasoningBlock, ...]
    if thought:
        blocks = (ReasoningBlock(content=thought, data={"provider": NAME, "replay": True}),)
    else:
        text, thoughts = extract_thinking(text)
        blocks = tuple(ReasoningBlock(content=item, data={"provider": NAME}) for item in thoughts)
    calls = tool_calls(message.get("tool_calls") or ())
    return ProviderResponse(
        content=text,
        tool_calls=tuple(calls),
        stop_reason=stop_reason(body.get("done_reason"), has_calls=bool(calls)),
        reasoning=blocks,
        meta=meta_of(body, model),
    )
