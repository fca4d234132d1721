"""Anthropic's Messages API, as its documentation has it."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.providers.wire.form import Answer, Entry, Findings, WireFormat, events, is_base64, plain_name

__all__ = ["MessagesFormat"]

_OPTIONAL = (
    "metadata stop_sequences stream system temperature thinking tool_choice tools top_k top_p cache_control "
    "output_config service_tier container context_management inference_geo"
)
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")


class MessagesFormat(WireFormat):
    name = "anthropic"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._signed: dict[str, str] = {}

    # --- what it takes ---

    def check(self, body: Any, found: Findings) -> None:
        if not found.keys("the body", body, "model messages max_tokens", _OPTIONAL):
            return
        found.need(isinstance(body["max_tokens"], int) and body["max_tokens"] > 0, "max_tokens is not positive")
        self._system(body.get("system"), found)
        self._tools(body, found)
        self._conversation(body["messages"], found)
        self._thinking(body, found)
        marks = str(body).count("'cache_control'")
        found.need(marks <= 4, f"{marks} blocks with cache_control, at most 4 are taken")

    def _system(self, system: Any, found: Findings) -> None:
        if isinstance(system, list):
            for block in system:
                found.keys("system block", block, "type text", "cache_control")
                found.need(block["text"].strip(), "system block without text")
        else:
            found.need(system is None or isinstance(system, str), "system is no text")

    def _tools(self, body: Any, found: Findings) -> None:
        tools = body.get("tools") or []
        names = [tool["name"] for tool in tools]
        found.need(len(set(names)) == len(names), "two tools of one name")
        found.need(names == sorted(names), "the tools are not in the order of their names")
        found.need(tools or "tool_choice" not in body, "tool_choice without tools")
        has_calls = any(block["type"] == "tool_use" for message in body["messages"] for block in _blocks(message))
        found.need(tools or not has_calls, "calls in the conversation, and no tools")
        for tool in tools:
            found.keys("tool", tool, "name input_schema", "description cache_control type strict")
            found.need(_NAME.fullmatch(tool["name"]), f"tool name {tool['name']!r}")
            found.need(tool["input_schema"].get("type") == "object", "input_schema of another type than object")
            found.need(not {"anyOf", "oneOf", "allOf"} & tool["input_schema"].keys(), "a union at the top of a schema")

    def _conversation(self, messages: Any, found: Findings) -> None:
        if not found.need(isinstance(messages, list) and messages, "no messages"):
            return
        roles = [message.get("role") for message in messages]
        expected = ["user", "assistant"] * len(roles)
        found.need(roles == expected[: len(roles)], f"the roles do not alternate, beginning with the user: {roles}")
        found.need(roles[-1] == "user", "the conversation does not end with the user")
        waiting: list[str] = []
        seen: set[str] = set()
        for message in messages:
            found.keys("message", message, "role content")
            content = message["content"]
            found.need(not isinstance(content, str) or content.strip(), "a message without text")
            found.need(isinstance(content, str) or content, "a message without blocks")
            if message["role"] == "assistant":
                waiting = self._answer(_blocks(message), found)
                found.need(not seen & set(waiting) and len(set(waiting)) == len(waiting), "an id is used twice")
                seen |= set(waiting)
            else:
                results = self._question(_blocks(message), found)
                found.need(sorted(results) == sorted(waiting), f"calls {waiting} are answered by {results}")

    def _answer(self, blocks: list[Any], found: Findings) -> list[str]:
        """Checks what a model said; the ids of its calls."""
        ids = []
        for block in blocks:
            match block.get("type"):
                case "text":
                    found.keys("text", block, "type text", "cache_control")
                    found.need(block["text"].strip(), "a text block without text")
                case "thinking":
                    found.keys("thinking", block, "type thinking signature")
                    is_own = self._signed.get(block["signature"]) == block["thinking"]
                    found.need(is_own, "a thought that was not signed here, or was changed")
                case "redacted_thinking":
                    found.keys("redacted_thinking", block, "type data")
                    found.need(block["data"] in self._signed, "a redacted thought of somebody else")
                case "tool_use":
                    found.keys("tool_use", block, "type id name input", "cache_control")
                    found.need(_ID.fullmatch(block["id"]), f"tool_use.id {block['id']!r}")
                    found.need(_NAME.fullmatch(block["name"]), f"tool_use.name {block['name']!r}")
                    found.need(isinstance(block["input"], dict), "tool_use.input is no object")
                    ids.append(block["id"])
                case kind:
                    found.append(f"an assistant block of type {kind!r}")
        found.need(not blocks or blocks[-1]["type"] not in _THOUGHTS, "an answer ends with a thought")
        return ids

    def _question(self, blocks: list[Any], found: Findings) -> list[str]:
        kinds = [block.get("type") for block in blocks]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        found.need(kinds[: len(results)] == ["tool_result"] * len(results), f"results do not come first: {kinds}")
        for block in blocks:
            match block.get("type"):
                case "text":
                    found.keys("text", block, "type text", "cache_control")
                    found.need(block["text"].strip(), "a text block without text")
                case "image":
                    found.keys("image", block, "type source", "cache_control")
                    self._image(block["source"], found)
                case "document":
                    found.keys("document", block, "type source", "cache_control title context citations")
                case "tool_result":
                    found.keys("tool_result", block, "type tool_use_id", "content is_error cache_control")
                    found.need(not block.get("is_error") or block.get("content"), "an error without content")
                case kind:
                    found.append(f"a user block of type {kind!r}")
        return [block["tool_use_id"] for block in results]

    def _image(self, source: Any, found: Findings) -> None:
        if source.get("type") == "url":
            found.keys("image source", source, "type url")
            found.need(re.match(r"https?://", source["url"]), "an image at no URL")
        else:
            found.keys("image source", source, "type media_type data")
            found.need(source["media_type"] in _IMAGES, f"an image of type {source['media_type']}")
            found.need(is_base64(source["data"]), "an image that is no base64")

    def _thinking(self, body: Any, found: Findings) -> None:
        thinking = body.get("thinking") or {"type": "disabled"}
        if thinking["type"] != "enabled":
            return
        found.keys("thinking", thinking, "type budget_tokens", "display")
        found.need(1024 <= thinking["budget_tokens"] < body["max_tokens"], "budget_tokens is not below max_tokens")
        found.need(body.get("temperature", 1) == 1, "a temperature beside thinking")
        # What the model has said since the last prompt is one answer, and that begins with a thought.
        at = len(body["messages"]) - 1
        while at >= 2 and _has_results(body["messages"][at]):
            at -= 2
        if at < len(body["messages"]) - 1:
            first = _blocks(body["messages"][at + 1])[0]["type"]
            found.need(first in _THOUGHTS, f"expected thinking, but the answer begins with {first}")

    # --- a plain view ---

    def messages(self, body: Any) -> list[Any]:
        return [
            {
                "role": message["role"],
                "content": [
                    {name: value for name, value in block.items() if name != "cache_control"}
                    for block in _blocks(message)
                ],
            }
            for message in body["messages"]
        ]

    def outline(self, body: Any) -> list[Entry]:
        said: list[Entry] = []
        for message in body["messages"]:
            for block in _blocks(message):
                match block["type"]:
                    case "text":
                        said.append((message["role"], block["text"]))
                    case "image":
                        said.append(("image", block["source"]["media_type"], block["source"]["data"]))
                    case "tool_use":
                        said.append(("call", plain_name(block["name"]), block["input"]))
                    case "tool_result":
                        said.append(("result", block.get("content", "")))
        return said

    # --- what it gives ---

    def streamed(self, answer: Answer) -> list[bytes]:
        blocks = self._content(answer)
        start = {"id": self.fresh("msg_"), "type": "message", "role": "assistant", "model": "claude", "content": []}
        made: list[Any] = [
            {"type": "message_start", "message": {**start, "usage": {"input_tokens": 10, "output_tokens": 1}}}
        ]
        for index, block in enumerate(blocks):
            empty, deltas = _in_pieces(block)
            made.append({"type": "content_block_start", "index": index, "content_block": empty})
            made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            made.append({"type": "content_block_stop", "index": index})
        made.append({"type": "ping"})
        ended = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
        made += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]
        return events(made, named=True)

    def whole(self, answer: Answer) -> Any:
        return {
            "id": self.fresh("msg_"),
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": self._content(answer),
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 7},
        }

    def _content(self, answer: Answer) -> list[Any]:
        blocks: list[Any] = []
        if answer.thought:
            signature = self.fresh("Sig+/") + "=="
            self._signed[signature] = answer.thought
            blocks.append({"type": "thinking", "thinking": answer.thought, "signature": signature})
        if answer.text:
            blocks.append({"type": "text", "text": answer.text})
        for name, arguments in answer.calls:
            blocks.append({"type": "tool_use", "id": self.fresh("toolu_"), "name": name, "input": arguments})
        return blocks

    def error(self, status: int, message: str) -> Any:
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _has_results(message: Any) -> bool:
    return any(block["type"] == "tool_result" for block in _blocks(message))


def _in_pieces(block: Any) -> tuple[Any, list[Any]]:
    match block["type"]:
        case "text":
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    text = json.dumps(block["input"])
    half = len(text) // 2
    return {**block, "input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:half], text[half:])
    ]
