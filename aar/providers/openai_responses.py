"""OpenAI's Responses API: from our messages to its items, and bodies for its requests.

Nothing is kept on the server: every request carries the whole conversation. What a model thought comes back encrypted,
and goes out again in the place where it stood, so that the next step does not begin from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from aar.messages.provider import NeutralMessage, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.messages.tools import ToolSchema
from aar.providers.base import Assembly
from aar.providers.openai_fields import Fields
from aar.providers.openai_responses_stream import ResponseStream
from aar.providers.openai_settings import asked_format, limit_of, passed_on, reasons
from aar.providers.openai_wire import (
    encode_json,
    result_text,
    warn_of_lost_part,
    wire_arguments,
    wire_call_id,
    wire_name,
    without_images,
)
from aar.providers.output_limits import capped, usual_limit

__all__ = ["ResponsesApi", "encode_items", "encode_tools"]

Block = dict[str, Any]

CODEC = "openai-responses"
LIMIT = "max_output_tokens"
LEAST_OUTPUT = 16  # tokens; a smaller limit is refused
ENCRYPTED = "reasoning.encrypted_content"
OPTIONAL = frozenset(
    {
        "images",
        "include",
        "prompt_cache_key",
        "reasoning.summary",
        "replayed reasoning",
        "stream_options",
        "temperature",
    }
)


class ResponsesApi:
    """Bodies for `/responses`, and readers of what comes back."""

    path = "/responses"

    def __init__(self, config: ProviderConfig, provider: str, *, is_vendor: bool) -> None:
        """`is_vendor` says that the server is OpenAI's own."""
        self._config = config
        self._provider = provider
        self._is_vendor = is_vendor
        self._reasons = reasons(config)
        self._sends_tools = bool(config.extra.get("supports_tools", True))
        self._passed = passed_on(config, is_vendor=is_vendor)
        self._asked = self._passed.get("reasoning") or {}
        self._summary = "auto" if self._reasons and not self._asked else None
        if effort := self._passed.pop("reasoning_effort", None):
            self._asked = {"effort": effort, **self._asked}
        if summary := self._passed.pop("reasoning_summary", None):
            self._summary = summary
        self._text = self._answer_text()

    @property
    def output_limit(self) -> int:
        return usual_limit(self._config, self._passed, LIMIT)

    def fields(self) -> Fields:
        return Fields(LIMIT, OPTIONAL, may_rename=False)

    def body(self, request: ProviderRequest, fields: Fields, *, streaming: bool) -> bytes:
        model = self._config.model if "replayed reasoning" in fields.optional else ""
        with_images = "images" in fields.optional
        encode = partial(encode_items, provider=self._provider, model=model, with_images=with_images)
        codec = f"{CODEC}:{model}" if with_images else f"{CODEC}:{model} without images"
        items = request.messages.encoded(codec, encode)
        limit = limit_of(self._config, request)
        options: dict[str, Any] = {
            "model": self._config.model or None,
            "instructions": request.system or None,
            LIMIT: max(limit, LEAST_OUTPUT) if limit else None,
            "temperature": self._config.temperature or None,
            "stream": streaming or None,
            "stream_options": {"include_obfuscation": False} if streaming and self._is_vendor else None,
            "store": False,
            "include": [ENCRYPTED] if self._reasons else None,
            "prompt_cache_key": request.session_id if self._is_vendor and request.session_id else None,
        } | self._passed
        options = capped(options, max(request.max_tokens, LEAST_OUTPUT) if request.max_tokens else None, LIMIT)
        options |= {"reasoning": self._thinking(fields), "text": self._text}
        left_out = OPTIONAL - fields.optional
        sent = {name: value for name, value in options.items() if value is not None and name not in left_out}
        tools = b',"tools":' + encode_tools(request.tools) if request.tools and self._sends_tools else b""
        return b'{"input":[' + b",".join(items) + b"]," + encode_json(sent)[1:-1] + tools + b"}"

    def _thinking(self, fields: Fields) -> dict[str, Any] | None:
        summary = self._summary if "reasoning.summary" in fields.optional else None
        return (self._asked | ({"summary": summary} if summary else {})) or None

    def _answer_text(self) -> dict[str, Any] | None:
        asked = asked_format(self._config, self._passed) or self._passed.pop("response_format", None)
        text: dict[str, Any] = {}
        if asked:
            # Here the schema stands beside its name, not below it.
            text["format"] = {"type": asked["type"], **asked.get("json_schema", {})}
        if verbosity := self._passed.pop("verbosity", None):
            text["verbosity"] = verbosity
        return (text | (self._passed.get("text") or {})) or None

    def reading(self) -> ResponseStream:
        return ResponseStream(provider=self._provider, model=self._config.model)

    def parsed(self, answer: Any) -> ProviderResponse:
        reading = self.reading()
        assembly = Assembly()
        for delta in [reading.take_whole(answer), *reading.end()]:
            assembly.add(delta)
        return assembly.response()


# --- messages ---------------------------------------------------------------------------------


def encode_items(message: NeutralMessage, *, provider: str, model: str, with_images: bool = True) -> bytes:
    """The items of one message, joined by commas; empty when it has none.

    What `model` of `provider` thought is among them; other models could not read it.
    """
    if not with_images:
        message = without_images(message)
    return b",".join(encode_json(item) for item in _items(message, provider, model))


def _items(message: NeutralMessage, provider: str, model: str) -> list[Block]:
    role, content = message["role"], message["content"]
    if role == "assistant" and isinstance(content, str):
        return [_answer(content)]
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if role == "assistant":
        return _assistant(content, provider, model)
    results = [block for block in content if block.get("type") == "tool_result"]
    if results:
        return [_result(block) for block in results]
    parts = [part for block in content if (part := _part(block))]
    return [{"role": role, "content": parts}] if parts else []


def _result(block: Block) -> Block:
    call_id = wire_call_id(block["tool_use_id"])
    return {"type": "function_call_output", "call_id": call_id, "output": result_text(block)}


def _part(block: Block) -> Block | None:
    if block.get("type") == "text":
        return {"type": "input_text", "text": block["text"]}
    if block.get("type") == "image_url":
        image = block["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail") or "auto"}
    warn_of_lost_part(block)
    return None


def _assistant(blocks: list[Block], provider: str, model: str) -> list[Block]:
    text = " ".join(block["text"] for block in blocks if block.get("type") == "text")
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    plans = (block["data"]["output"] for block in blocks if _is_own(block, provider, model))
    for plan in plans:
        if woven := _woven(plan, text, calls):
            return woven
    return [*([_answer(text)] if text else []), *calls]


def _answer(text: str) -> Block:
    """What was said, as an item without an id. OpenAI does without its type, llama.cpp does not."""
    return {"type": "message", "role": "assistant", "content": text}


def _call(block: Block) -> Block:
    return {
        "type": "function_call",
        "call_id": wire_call_id(block["id"]),
        "name": wire_name(block["name"]),
        "arguments": wire_arguments(block.get("input")),
    }


def _is_own(block: Block, provider: str, model: str) -> bool:
    if block.get("type") != "reasoning" or not model:
        return False
    data = block.get("data") or {}
    return (data.get("provider"), data.get("model")) == (provider, model) and isinstance(data.get("output"), list)


def _woven(output: Iterable[Block], text: str, calls: list[Block]) -> list[Block]:
    """The items of an answer as they came: thoughts where they stood, the text and the calls filled in.

    Empty when the answer was changed since, so that text and calls do not fit into it any more.
    """
    woven: list[Block] = []
    waiting = iter(calls)
    for entry in output:
        match entry["type"]:
            case "reasoning":
                woven.append(entry)
            case "message":
                said, text = text[: entry["size"]], text[entry["size"] :].removeprefix("\n\n")
                if len(said) != entry["size"]:
                    return []
                woven.append(_message(entry, said))
            case _:
                call = next(waiting, None)
                if call is None:
                    return []
                woven.append({**call, "id": entry["id"]} if entry["id"] else call)
    if text or next(waiting, None) is not None:
        return []
    while woven and woven[-1].get("type") == "reasoning":
        woven.pop()  # a thought that nothing follows is refused
    return woven


def _message(entry: Block, said: str) -> Block:
    phase = {"phase": entry["phase"]} if entry.get("phase") else {}
    part = {"type": "output_text", "text": said, "annotations": []}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [part], **phase}
    return {**message, "id": entry["id"]} if entry["id"] else {**_answer(said), **phase}


# --- tools ------------------------------------------------------------------------------------


def encode_tools(tools: Iterable[ToolSchema]) -> bytes:
    """The tools as a JSON array, in the order of their names."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    return b"[" + b",".join(tool.encoded(CODEC, _encode_tool) for tool in ordered) + b"]"


def _encode_tool(tool: ToolSchema) -> bytes:
    schema = tool.input_schema or {"type": "object", "properties": {}}
    return encode_json(
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": schema,
            "strict": False,
        }
    )
