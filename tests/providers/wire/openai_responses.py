"""OpenAI's Responses API, as its documentation has it, for a conversation that the server does not keep."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.providers.wire.form import Answer, Entry, Findings, WireFormat, data_uri, events, is_object, plain_name

__all__ = ["ResponsesFormat"]

_OPTIONAL = (
    "background conversation include instructions max_output_tokens max_tool_calls metadata parallel_tool_calls "
    "previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier "
    "store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ResponsesFormat(WireFormat):
    name = "responses"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._given: dict[str, Any] = {}  # items by their ids
        self._thought_before: dict[str, str] = {}  # the id of an item: the thought that led to it

    # --- what it takes ---

    def check(self, body: Any, found: Findings) -> None:
        if not found.keys("the body", body, "model input", _OPTIONAL):
            return
        found.need(body.get("store") is False, "the server is asked to keep the conversation")
        found.need(body.get("max_output_tokens", 16) >= 16, "max_output_tokens below 16")
        found.need(body.get("stream") or "stream_options" not in body, "stream_options without stream")
        self._tools(body, found)
        items = body["input"]
        found.need(isinstance(items, list) and items, "no input")
        waiting: list[str] = []
        for index, item in enumerate(items):
            following = items[index + 1] if index + 1 < len(items) else None
            self._item(item, items[:index], following, waiting, found)
        found.need(not waiting, f"no tool output found for function calls {waiting}")

    def _tools(self, body: Any, found: Findings) -> None:
        tools = body.get("tools") or []
        names = [tool["name"] for tool in tools]
        found.need(names == sorted(set(names)), f"the tools are not in the order of their names: {names}")
        for tool in tools:
            found.keys("tool", tool, "type name parameters strict", "description")
            found.need(_NAME.fullmatch(tool["name"]), f"tool name {tool['name']!r}")

    def _item(self, item: Any, before: list[Any], following: Any, waiting: list[str], found: Findings) -> None:
        match item.get("type", "message"):
            case "message":
                found.need(not waiting, f"calls {waiting} are not answered before the next message")
                self._message(item, found)
            case "reasoning":
                found.keys("reasoning", item, "type summary encrypted_content", "id content status")
                given = self._given.get(item.get("id"), {})
                is_own = (item["encrypted_content"], item["summary"]) == (
                    given.get("encrypted_content"),
                    given.get("summary"),
                )
                found.need(is_own, "a thought that was not given here, or was changed")
                follows = (following or {}).get("type", "message" if following else "")
                is_answer = follows == "function_call" or (following or {}).get("role") == "assistant"
                found.need(is_answer, "reasoning without the item that followed it")
            case "function_call":
                self._call(item, found)
                found.need(item["call_id"] not in waiting, f"call id {item['call_id']!r} twice")
                waiting.append(item["call_id"])
            case "function_call_output":
                found.keys("function_call_output", item, "type call_id output", "id status")
                found.need(isinstance(item["output"], str), "an output that is no text")
                if found.need(item["call_id"] in waiting, f"no function call found for {item['call_id']!r}"):
                    waiting.remove(item["call_id"])
            case kind:
                found.append(f"an item of type {kind!r}")
        self._belongs(item, before, found)

    def _belongs(self, item: Any, before: list[Any], found: Findings) -> None:
        """An item that names its id is one of this server's, and wants the thought that it came from before it."""
        if not (own := item.get("id")):
            return
        found.need(own in self._given, f"an item with the id {own!r}, which was not given here")
        thought = self._thought_before.get(own)
        ids = [earlier.get("id") for earlier in before]
        found.need(thought is None or thought in ids, f"{item['type']} without its required reasoning item")

    def _message(self, item: Any, found: Findings) -> None:
        found.keys("message", item, "role content", "type id status phase")
        role, content = item["role"], item["content"]
        found.need(role in ("user", "assistant", "system", "developer"), f"a message of {role!r}")
        is_typed = role != "assistant" or item.get("type") == "message"
        found.need(is_typed, "an answer without its type, which llama.cpp does not take")
        if isinstance(content, str):
            return
        found.need(content, "a message without content")
        for part in content:
            match part.get("type"):
                case "output_text" if role == "assistant":
                    found.keys("output_text", part, "type text annotations", "logprobs")
                case "input_text" if role != "assistant":
                    found.keys("input_text", part, "type text")
                case "input_image" if role == "user":
                    found.keys("input_image", part, "type image_url detail", "file_id")
                    url = part["image_url"]
                    found.need(isinstance(url, str) and (data_uri(url) or url.startswith("http")), "an image of no URL")
                case kind:
                    found.append(f"a part of type {kind!r} from {role}")

    def _call(self, item: Any, found: Findings) -> None:
        found.keys("function_call", item, "type call_id name arguments", "id status")
        found.need(0 < len(item["call_id"]) <= 64, f"a call id of {len(item['call_id'])} characters")
        found.need(_NAME.fullmatch(item["name"]), f"function name {item['name']!r}")
        found.need(is_object(item["arguments"]), "arguments that are no object")

    # --- a plain view ---

    def messages(self, body: Any) -> list[Any]:
        return list(body["input"])

    def outline(self, body: Any) -> list[Entry]:
        said: list[Entry] = []
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    content = item["content"]
                    for part in [{"text": content}] if isinstance(content, str) else content:
                        if "text" in part:
                            said.append((item["role"], part["text"]))
                        else:
                            said.append(("image", *(data_uri(part["image_url"]) or ("", part["image_url"]))))
                case "function_call":
                    said.append(("call", plain_name(item["name"]), json.loads(item["arguments"])))
                case "function_call_output":
                    said.append(("result", item["output"]))
        return said

    # --- what it gives ---

    def streamed(self, answer: Answer) -> list[bytes]:
        response = self.whole(answer)
        bare = {**response, "status": "in_progress", "output": [], "usage": None}
        made: list[Any] = [{"type": "response.created", "response": bare}]
        for index, item in enumerate(response["output"]):
            made += [{"output_index": index, **event} for event in _item_events(item)]
        made.append({"type": "response.completed", "response": response})
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(made)]
        return events(numbered, named=True)

    def whole(self, answer: Answer) -> Any:
        items = self._items(answer)
        return {
            "id": self.fresh("resp_"),
            "object": "response",
            "model": "gpt",
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": items,
            "usage": {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17},
        }

    def _items(self, answer: Answer) -> list[Any]:
        items: list[Any] = []
        if answer.thought:
            summary = [{"type": "summary_text", "text": answer.thought}]
            sealed = self.fresh("sealed+")
            items.append(
                {"type": "reasoning", "id": self.fresh("rs_"), "summary": summary, "encrypted_content": sealed}
            )
        if answer.text:
            part = {"type": "output_text", "text": answer.text, "annotations": []}
            head = {"type": "message", "id": self.fresh("msg_"), "role": "assistant", "status": "completed"}
            items.append({**head, "content": [part]})
        for name, arguments in answer.calls:
            head = {"type": "function_call", "id": self.fresh("fc_"), "call_id": self.fresh("call_"), "name": name}
            items.append({**head, "arguments": json.dumps(arguments), "status": "completed"})
        self._given |= {item["id"]: item for item in items}
        if answer.thought:
            self._thought_before |= {item["id"]: items[0]["id"] for item in items[1:]}
        return items

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "error_of_the_server", "param": None, "code": None}}


def _item_events(item: Any) -> list[Any]:
    match item["type"]:
        case "reasoning":
            text = item["summary"][0]["text"]
            begun = {**item, "summary": [], "encrypted_content": None}
            deltas: list[Any] = [
                {"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}},
                {"type": "response.reasoning_summary_text.delta", "delta": text},
            ]
        case "message":
            text = item["content"][0]["text"]
            begun = {**item, "content": [], "status": "in_progress"}
            deltas = [
                {
                    "type": "response.content_part.added",
                    "content_index": 0,
                    "part": {"type": "output_text", "text": ""},
                },
                *({"type": "response.output_text.delta", "delta": piece} for piece in (text[:3], text[3:])),
            ]
        case _:
            text = item["arguments"]
            begun = {**item, "arguments": "", "status": "in_progress"}
            deltas = [
                *({"type": "response.function_call_arguments.delta", "delta": piece} for piece in (text[:4], text[4:])),
                {"type": "response.function_call_arguments.done", "arguments": text},
            ]
    return [
        {"type": "response.output_item.added", "item": begun},
        *({"item_id": item["id"], **delta} for delta in deltas),
        {"type": "response.output_item.done", "item": item},
    ]
