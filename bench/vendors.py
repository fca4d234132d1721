"""The answers of the bench server in each vendor's format, told apart by how the path ends.

Each format has a text, a call of `noop`, a chunk of a stream with a number in it, and what begins and ends a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CHAT", "FORMATS", "Format", "format_of"]

Object = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """`result` is what stands in a request once for each result; `text_of` is how a plain loop reads a chunk."""

    path: str
    result: bytes
    text: Object
    call: Callable[[int], Object]
    head: bytes
    chunk: bytes
    last: bytes
    text_of: Callable[[Object], str]
    kind: str = "text/event-stream"


def _sse(chunk: Object, *, named: bool = False) -> bytes:
    name = f"event: {chunk['type']}\n" if named else ""
    return f"{name}data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()


# --- chat completions -------------------------------------------------------------------------


def _chat(message: Object, finish: str) -> Object:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "x", "model": "m", "choices": [choice], "usage": usage}


def _chat_call(number: int) -> Object:
    function = {"name": "noop", "arguments": json.dumps({"n": number})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return _chat({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


CHAT = Format(
    path="",
    result=b'"tool_call_id"',
    text=_chat({"role": "assistant", "content": "Done."}, "stop"),
    call=_chat_call,
    head=b"",
    chunk=b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":" word%d"}}]}\n\n',
    last=b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    text_of=lambda chunk: chunk["choices"][0]["delta"].get("content") or "",
)


# --- Anthropic's messages ---------------------------------------------------------------------

_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
_MESSAGE_USAGE = {"input_tokens": 10, "output_tokens": 5}


def _message(stop: str, *blocks: Object) -> Object:
    return {**_MESSAGE, "content": list(blocks), "stop_reason": stop, "usage": _MESSAGE_USAGE}


def _messages_call(number: int) -> Object:
    return _message("tool_use", {"type": "tool_use", "id": f"toolu_{number}", "name": "noop", "input": {"n": number}})


MESSAGES = Format(
    path="/v1/messages",
    result=b'"tool_result"',
    text=_message("end_turn", {"type": "text", "text": "Done."}),
    call=_messages_call,
    head=_sse({"type": "message_start", "message": {**_MESSAGE, "content": [], "usage": _MESSAGE_USAGE}}, named=True)
    + _sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, named=True),
    chunk=b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":" word%d"}}\n\n',
    last=_sse({"type": "content_block_stop", "index": 0}, named=True)
    + _sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}, named=True)
    + _sse({"type": "message_stop"}, named=True),
    text_of=lambda chunk: chunk["delta"].get("text", "") if chunk["type"] == "content_block_delta" else "",
)


# --- OpenAI's responses -----------------------------------------------------------------------


def _response(item: Object) -> Object:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"id": "resp_1", "model": "m", "status": "completed", "error": None, "output": [item], "usage": usage}


def _said(text: str) -> Object:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _responses_call(number: int) -> Object:
    head = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return _response({**head, "name": "noop", "arguments": json.dumps({"n": number})})


RESPONSES = Format(
    path="/responses",
    result=b'"function_call_output"',
    text=_response(_said("Done.")),
    call=_responses_call,
    head=_sse({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}, named=True)
    + _sse({"type": "response.output_item.added", "output_index": 0, "item": {**_said(""), "content": []}}, named=True),
    chunk=b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_1",'
    b'"output_index":0,"content_index":0,"delta":" word%d","logprobs":[]}\n\n',
    last=_sse({"type": "response.output_item.done", "output_index": 0, "item": _said("as was streamed")}, named=True)
    + _sse({"type": "response.completed", "response": _response(_said("as was streamed"))}, named=True),
    text_of=lambda chunk: chunk["delta"] if chunk["type"] == "response.output_text.delta" else "",
)


# --- Gemini -----------------------------------------------------------------------------------


def _candidate(part: Object) -> Object:
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "x"}


GEMINI = Format(
    path="enerateContent",  # of generateContent and streamGenerateContent
    result=b'"functionResponse"',
    text=_candidate({"text": "Done."}),
    call=lambda number: _candidate({"functionCall": {"name": "noop", "args": {"n": number}}}),
    head=b"",
    chunk=b'data: {"candidates":[{"content":{"parts":[{"text":" word%d"}],"role":"model"},"index":0}],'
    b'"modelVersion":"m","responseId":"x"}\n\n',
    last=_sse(_candidate({"text": "."})),
    text_of=lambda chunk: chunk["candidates"][0]["content"]["parts"][0]["text"],
)


# --- Ollama -----------------------------------------------------------------------------------

_OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5}


def _ollama(**message: Any) -> Object:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, **_OLLAMA_END}


OLLAMA = Format(
    path="/api/chat",
    result=b'"role":"tool"',
    text=_ollama(content="Done."),
    call=lambda number: _ollama(tool_calls=[{"function": {"name": "noop", "arguments": {"n": number}}}]),
    head=b"",
    chunk=b'{"model":"m","message":{"role":"assistant","content":" word%d"},"done":false}\n',
    last=json.dumps(_ollama()).encode() + b"\n",
    text_of=lambda chunk: chunk["message"]["content"],
    kind="application/x-ndjson",
)

FORMATS = {
    "generic": CHAT,
    "openai": CHAT,
    "openai, responses": RESPONSES,
    "anthropic": MESSAGES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}
"""The format that each adapter speaks; openai speaks two."""


def format_of(path: str) -> Format:
    """The format that a request to this path is in: chat completions unless the path says another one."""
    bare = path.partition("?")[0]
    return next((form for form in (MESSAGES, RESPONSES, GEMINI, OLLAMA) if bare.endswith(form.path)), CHAT)
