"""Chat completions, as OpenAI documents them and as servers that imitate them mostly are."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.providers.wire.form import Answer, Entry, Findings, WireFormat, data_uri, events, is_object, plain_name

__all__ = ["ChatFormat", "ImitationFormat"]

_OPTIONAL = (
    "audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities n "
    "parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort "
    "response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice "
    "tools top_logprobs top_p user verbosity web_search_options"
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_ID = 40


class ChatFormat(WireFormat):
    name = "openai"

    # --- what it takes ---

    def check(self, body: Any, found: Findings) -> None:
        if not found.keys("the body", body, "model messages", _OPTIONAL):
            return
        found.need(not {"max_tokens", "max_completion_tokens"} <= body.keys(), "both names of the limit")
        found.need(body.get("stream") or "stream_options" not in body, "stream_options without stream")
        self._tools(body, found)
        found.need(isinstance(body["messages"], list) and body["messages"], "no messages")
        waiting: list[str] = []
        for message in body["messages"]:
            role = message.get("role")
            found.need(role == "tool" or not waiting, f"calls {waiting} are not answered before a message of {role}")
            if role == "tool":
                found.keys("tool message", message, "role tool_call_id content")
                found.need(isinstance(message["content"], str), "a result that is no text")
                if found.need(message["tool_call_id"] in waiting, f"a result for {message['tool_call_id']!r}"):
                    waiting.remove(message["tool_call_id"])
            elif role == "assistant":
                waiting = self._answer(message, found)
            elif found.need(role in ("system", "developer", "user"), f"a message of {role!r}"):
                found.keys(f"{role} message", message, "role content")
                self._content(message["content"], found)
        found.need(not waiting, f"calls {waiting} are not answered at the end")
        found.need(body["messages"][-1]["role"] in ("user", "tool"), "the conversation ends with the assistant")

    def _tools(self, body: Any, found: Findings) -> None:
        tools = body.get("tools") or []
        found.need(tools or not {"tools", "tool_choice"} & body.keys(), "an empty list of tools, or a choice of none")
        names = [tool["function"]["name"] for tool in tools]
        found.need(names == sorted(set(names)), f"the tools are not in the order of their names: {names}")
        for tool in tools:
            found.keys("tool", tool, "type function")
            found.keys("function", tool["function"], "name", "description parameters strict")
            found.need(_NAME.fullmatch(tool["function"]["name"]), f"tool name {tool['function']['name']!r}")

    def _answer(self, message: Any, found: Findings) -> list[str]:
        found.keys("assistant message", message, "role", "content tool_calls name refusal")
        content = message.get("content")
        found.need(content is None or isinstance(content, str), "an answer that is no text")
        calls = message.get("tool_calls")
        found.need(content is not None or calls, "an answer with neither text nor calls")
        found.need(calls is None or calls, "an empty list of calls")
        for call in calls or ():
            found.keys("call", call, "id type function")
            found.keys("function", call["function"], "name arguments")
            found.need(0 < len(call["id"]) <= LONGEST_ID, f"a call id of {len(call['id'])} characters")
            found.need(_NAME.fullmatch(call["function"]["name"]), f"function name {call['function']['name']!r}")
            found.need(is_object(call["function"]["arguments"]), "arguments that are no object")
        ids = [call["id"] for call in calls or ()]
        found.need(len(set(ids)) == len(ids), f"one answer uses an id twice: {ids}")
        return ids

    def _content(self, content: Any, found: Findings) -> None:
        if isinstance(content, str):
            return
        found.need(isinstance(content, list) and content, "a message without content")
        for part in content:
            if part.get("type") == "text":
                found.keys("part", part, "type text")
            elif found.need(part.get("type") == "image_url", f"a part of type {part.get('type')!r}"):
                found.keys("image_url", part["image_url"], "url", "detail")
                found.need(part["image_url"].get("detail", "auto") in ("auto", "low", "high"), "an unknown detail")
                url = part["image_url"]["url"]
                found.need(data_uri(url) or re.match(r"https?://", url), f"an image at {url:.40}")

    # --- a plain view ---

    def messages(self, body: Any) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def outline(self, body: Any) -> list[Entry]:
        said: list[Entry] = []
        for message in self.messages(body):
            content = message["content"]
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
            role = "result" if message["role"] == "tool" else message["role"]
            for part in parts:
                if part["type"] == "text":
                    said.append((role, part["text"]))
                else:
                    said.append(("image", *(data_uri(part["image_url"]["url"]) or ("", part["image_url"]["url"]))))
            for call in message.get("tool_calls") or ():
                function = call["function"]
                said.append(("call", plain_name(function["name"]), json.loads(function["arguments"])))
        return said

    # --- what it gives ---

    def call_id(self, name: str, index: int) -> str:
        return self.fresh("call_")

    def thought(self, text: str) -> dict[str, str]:
        """The vendor tells nothing of what its models think."""
        return {}

    def streamed(self, answer: Answer) -> list[bytes]:
        deltas: list[Any] = [{"role": "assistant", "content": None}]
        deltas += [self.thought(answer.thought)] if answer.thought else []
        deltas += [{"content": piece} for piece in (answer.text[:3], answer.text[3:]) if piece]
        for index, call in enumerate(self._calls(answer)):
            text = call["function"]["arguments"]
            head = {"index": index, **call, "function": {**call["function"], "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in (text[:4], text[4:])
            ]
        head = {"id": self.fresh("chatcmpl-"), "object": "chat.completion.chunk", "model": "gpt"}
        made = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None}
            for delta in deltas
        ]
        made.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}], "usage": None})
        made.append({**head, "choices": [], "usage": _USAGE})
        return events(made, done=True)

    def whole(self, answer: Answer) -> Any:
        message: Any = {"role": "assistant", "content": answer.text or None, **self.thought(answer.thought)}
        if calls := self._calls(answer):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return {"id": self.fresh("chatcmpl-"), "model": "gpt", "choices": [choice], "usage": _USAGE}

    def _calls(self, answer: Answer) -> list[Any]:
        return [
            {
                "id": self.call_id(name, index),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(answer.calls)
        ]

    def error(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "error_of_the_server", "param": None, "code": None}}


class ImitationFormat(ChatFormat):
    """A server that speaks like OpenAI. It tells its thoughts, and its ids are long, odd, and the same each time."""

    name = "generic"

    def call_id(self, name: str, index: int) -> str:
        return f"functions.{name}:{index}" + "-of-this-answer" * 5

    def thought(self, text: str) -> dict[str, str]:
        return {"reasoning_content": text}


_USAGE = {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"
