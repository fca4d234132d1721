"""Anthropic's Messages API: from our messages to its JSON.

Each message becomes bytes by itself, once; what depends on its neighbours (one role never follows itself, the
conversation begins and ends with the user) is done to the bytes. A message is always
`{"role":ROLE,"content":[BLOCKS]}` with at least one block, and that shape is what the functions below rely on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from aar.messages.provider import NeutralMessage
from aar.messages.tools import ToolSchema
from aar.providers.openai_wire import encode_json

__all__ = [
    "NAME",
    "PLACEHOLDER_TOOL",
    "begins_without_thought",
    "calls_tools",
    "conversation",
    "encode_message",
    "encode_tools",
    "encode_without_thoughts",
    "marked",
    "wire_id",
]

_log = logging.getLogger(__name__)

NAME = "anthropic"
LONGEST_ID = 64  # characters; longer ones come from elsewhere and are shortened
LONGEST_NAME = 128
PDF = "application/pdf"

PLACEHOLDER_TOOL = encode_json(
    [
        {
            "name": "no_tool",
            "description": "Not available.",
            "input_schema": {"type": "object", "properties": {}},
        }
    ]
)
"""For a request without tools whose conversation has calls: the API wants to be told of some tool."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_UNIONS = ("anyOf", "oneOf", "allOf")

_USER = b'{"role":"user","content":['
_ASSISTANT = b'{"role":"assistant","content":['
_RESULTS = _USER + b'{"type":"tool_result"'
_THOUGHTS = (_ASSISTANT + b'{"type":"thinking"', _ASSISTANT + b'{"type":"redacted_thinking"')
_ROLE_AT = 9  # where the first letter of the role stands
_RUNS = re.compile(rb"u{2,}|a{2,}")


def _said(text: str) -> bytes:
    return _USER + encode_json({"type": "text", "text": text}) + b"]}"


_OPENING = _said("(What was said before is not shown.)")
_GO_ON = _said("Go on.")


# --- one message ------------------------------------------------------------------------------


def encode_message(message: NeutralMessage) -> bytes:
    """The message as the API takes it; empty bytes when nothing of it can be sent."""
    return _encode(message, replays=True)


def encode_without_thoughts(message: NeutralMessage) -> bytes:
    """The same, leaving out what the model thought."""
    return _encode(message, replays=False)


def _encode(message: NeutralMessage, *, replays: bool) -> bytes:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    is_answer = message["role"] == "assistant"
    wire = _answer(blocks, replays=replays) if is_answer else _question(blocks)
    if not wire:
        return b""
    return (_ASSISTANT if is_answer else _USER) + b",".join(encode_json(block) for block in wire) + b"]}"


def _answer(blocks: list[dict[str, Any]], *, replays: bool) -> list[dict[str, Any]]:
    """Thoughts stand where they stood in the text, and never last, which the API refuses."""
    text = "".join(block["text"] for block in blocks if block.get("type") == "text")
    wire: list[dict[str, Any]] = []
    at = 0
    for block in blocks if replays else ():
        if block.get("type") == "reasoning" and (thought := _thought(block)):
            until = min(max(int(block["data"].get("text_before") or 0), at), len(text))
            wire += [*_text(text[at:until]), thought]
            at = until
    wire += _text(text[at:])
    wire += [_tool_use(block) for block in blocks if block.get("type") == "tool_use"]
    while wire and wire[-1]["type"] in ("thinking", "redacted_thinking"):
        wire.pop()
    return wire


def _text(text: str) -> list[dict[str, Any]]:
    """As a block; the API takes none without a visible character."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _thought(block: dict[str, Any]) -> dict[str, Any] | None:
    """What this API itself has signed; it takes thoughts of nobody else."""
    data = block.get("data") or {}
    if data.get("provider") != NAME:
        return None
    if data.get("redacted"):
        return {"type": "redacted_thinking", "data": data["redacted"]}
    if data.get("signature"):
        return {"type": "thinking", "thinking": block.get("text", ""), "signature": data["signature"]}
    return None


def _tool_use(block: dict[str, Any]) -> dict[str, Any]:
    arguments = block.get("input") or {}
    # A name that a model made up would be refused with the whole history, at every request from then on.
    name = _NOT_IN_NAMES.sub("_", block["name"])[:LONGEST_NAME] or "unknown"
    return {
        "type": "tool_use",
        "id": wire_id(block["id"]),
        "name": name,
        "input": arguments if isinstance(arguments, dict) else {"raw": arguments},
    }


def wire_id(call_id: str) -> str:
    """An id that the API takes, the same for the same `call_id` at every request, and different for different ones."""
    if _ID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_NOT_IN_NAMES.sub('_', call_id)[: LONGEST_ID - 17]}_{digest}"


def _question(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results come first: they must follow their calls at once."""
    results = [_tool_result(block) for block in blocks if block.get("type") == "tool_result"]
    parts = [block for block in blocks if block.get("type") != "tool_result"]
    wire = [*results, *_parts(parts)]
    if not wire and any(part.get("type") != "text" for part in parts):
        return _text("(An attachment that this model cannot take was left out.)")
    return wire


def _tool_result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content") or ""
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id(block["tool_use_id"])}
    shown = (content if content.strip() else "") if isinstance(content, str) else _parts(content)
    if block.get("is_error"):
        wire["is_error"] = True
        shown = shown or "(no message)"  # an error without content is refused
    if shown:
        wire["content"] = shown
    return wire


def _parts(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    wire: list[dict[str, Any]] = []
    left_out: list[str] = []
    for block in blocks:
        kind = block.get("type", "")
        if kind == "text":
            wire += _text(block["text"])
        elif kind == "image_url" and (source := _source(block["image_url"]["url"], "image/jpeg")):
            wire.append({"type": "image", "source": source})
        elif kind == "document" and (document := _document(block["document"])):
            wire.append(document)
        else:
            left_out.append(kind)
    if left_out:
        _log.warning("Left out of a message, since Anthropic's API does not take it: %s", ", ".join(left_out))
    return wire


def _document(document: dict[str, Any]) -> dict[str, Any] | None:
    """A PDF; other documents go as text."""
    source = _source(document["url"], PDF)
    if source is None or source.get("media_type", PDF) != PDF:
        return None
    wire = {"type": "document", "source": source}
    return {**wire, "title": document["name"]} if document.get("name") else wire


def _source(url: str, usual_type: str) -> dict[str, str] | None:
    if url[:5].lower() == "data:":
        head, comma, data = url[5:].partition(",")
        media_type = head.partition(";")[0].strip().lower() if comma else ""
        data = data if comma else head
        return {"type": "base64", "media_type": media_type or usual_type, "data": data} if data else None
    if url[:8].lower() == "https://" or url[:7].lower() == "http://":
        return {"type": "url", "url": url}
    return None


# --- the whole conversation -------------------------------------------------------------------


def conversation(messages: list[bytes]) -> list[bytes]:
    """The messages so that the roles alternate, beginning and ending with the user."""
    roles = bytes([message[_ROLE_AT] for message in messages])
    if b"uu" in roles or b"aa" in roles:
        messages = _merged(messages, roles)
    if not messages or messages[0].startswith(_ASSISTANT):
        messages = [_OPENING, *messages]
    if messages[-1].startswith(_ASSISTANT):
        messages = [*messages, _GO_ON]
    return messages


def _merged(messages: list[bytes], roles: bytes) -> list[bytes]:
    merged: list[bytes] = []
    at = 0
    for run in _RUNS.finditer(roles):
        merged += messages[at : run.start()]
        merged.append(_as_one(messages[run.start() : run.end()]))
        at = run.end()
    return merged + messages[at:]


def _as_one(run: list[bytes]) -> bytes:
    lead = _USER if run[0].startswith(_USER) else _ASSISTANT
    ordered = sorted(run, key=lambda message: not message.startswith(_RESULTS))
    return lead + b",".join(message[len(lead) : -2] for message in ordered) + b"]}"


def marked(messages: list[bytes], cache_control: bytes) -> list[bytes]:
    """A conversation with a cache breakpoint after its last two messages of the user.

    The last one writes what the next request reads; the one before it is where this request finds what the request
    before wrote, however many blocks came since.
    """
    messages = list(messages)
    for index in (len(messages) - 1, len(messages) - 3):
        if index >= 0:
            messages[index] = messages[index][:-3] + b',"cache_control":' + cache_control + b"}]}"
    return messages


def begins_without_thought(messages: list[bytes]) -> bool:
    """Whether the model is at work with tools, and its answer so far does not begin with a thought.

    With a budget for thinking the API refuses such a conversation. It comes from a model of another provider, or from
    a request without thinking.
    """
    at = len(messages) - 1
    if not messages[at].startswith(_RESULTS):
        return False
    while at >= 2 and messages[at].startswith(_RESULTS):
        at -= 2
    return not messages[at + 1].startswith(_THOUGHTS)


def calls_tools(messages: list[bytes]) -> bool:
    """Whether there is a call in the conversation."""
    return any(message.startswith(_RESULTS) for message in messages)


def encode_tools(tools: Iterable[ToolSchema], cache_control: bytes = b"") -> bytes:
    """The tools as a JSON array, in the order of their names, perhaps with a cache breakpoint after the last one."""
    encoded = [tool.encoded(NAME, _encode_tool) for tool in sorted(tools, key=lambda tool: tool.name)]
    if encoded and cache_control:
        encoded[-1] = encoded[-1][:-1] + b',"cache_control":' + cache_control + b"}"
    return b"[" + b",".join(encoded) + b"]"


def _encode_tool(tool: ToolSchema) -> bytes:
    schema = {"type": "object", **(tool.input_schema or {"properties": {}})}
    # At the top level the API takes no unions; what fits none of them is noticed when the call is checked.
    schema = {name: value for name, value in schema.items() if name not in _UNIONS}
    return encode_json({"name": tool.name, "description": tool.description, "input_schema": schema})
