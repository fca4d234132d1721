"""Ollama's /api/chat, as its documentation has it. Ollama itself overlooks much of what is refused here."""

from __future__ import annotations

import json
from typing import Any

from tests.providers.conftest import SentRequest
from tests.providers.wire.form import Answer, Entry, Findings, WireFormat, is_base64, plain_name

__all__ = ["OllamaFormat"]

_OPTIONAL = "tools format options stream think keep_alive truncate shift logprobs top_logprobs"
_OPTIONS = (
    "num_keep seed num_predict top_k top_p min_p typical_p repeat_last_n temperature repeat_penalty presence_penalty "
    "frequency_penalty stop num_ctx num_batch num_gpu main_gpu use_mmap num_thread"
)


class OllamaFormat(WireFormat):
    name = "ollama"
    kind = "application/x-ndjson"
    CARD = {"model_info": {"llama.context_length": 8192}, "capabilities": ["completion", "tools", "thinking", "vision"]}

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._thoughts: set[str] = set()

    def wants_stream(self, request: SentRequest) -> bool:
        return bool(request.json.get("stream", True))

    # --- what it takes ---

    def check(self, body: Any, found: Findings) -> None:
        if not found.keys("the body", body, "model messages", _OPTIONAL):
            return
        found.keys("options", body.get("options", {}), "", _OPTIONS)
        for tool in body.get("tools") or ():
            found.keys("tool", tool, "type function")
            found.keys("function", tool["function"], "name description parameters")
        found.need(body["messages"], "no messages")
        waiting: list[str] = []
        for message in body["messages"]:
            role = message.get("role")
            found.need(role == "tool" or not waiting, f"calls of {waiting} are not answered before a message of {role}")
            found.need(isinstance(message.get("content"), str), "a message whose content is no text")
            match role:
                case "system":
                    found.keys("system", message, "role content")
                case "user":
                    found.keys("user", message, "role content", "images")
                    found.need(all(map(is_base64, message.get("images", ()))), "an image that is no base64")
                case "assistant":
                    waiting = self._answer(message, found)
                case "tool":
                    found.keys("tool message", message, "role content", "tool_name tool_call_id")
                    if found.need(waiting, "a result without its call"):
                        waiting.pop(0)
                case _:
                    found.append(f"a message of {role!r}")
        found.need(not waiting, f"calls of {waiting} are not answered at the end")
        found.need(body["messages"][-1]["role"] in ("user", "tool"), "the conversation ends with the assistant")

    def _answer(self, message: Any, found: Findings) -> list[str]:
        found.keys("assistant", message, "role content", "thinking tool_calls")
        found.need(message.get("thinking", "") in {"", *self._thoughts}, "a thought of somebody else")
        calls = message.get("tool_calls", [])
        for call in calls:
            found.keys("call", call, "function", "id type")
            found.keys("function", call["function"], "name arguments", "index")
            found.need(isinstance(call["function"]["arguments"], dict), "arguments that are no object")
        return [call["function"]["name"] for call in calls]

    # --- a plain view ---

    def messages(self, body: Any) -> list[Any]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def outline(self, body: Any) -> list[Entry]:
        said: list[Entry] = []
        for message in self.messages(body):
            role = "result" if message["role"] == "tool" else message["role"]
            if message["content"]:
                said.append((role, message["content"]))
            said += [("image", "image/png", image) for image in message.get("images", ())]
            for call in message.get("tool_calls", ()):
                said.append(("call", plain_name(call["function"]["name"]), call["function"]["arguments"]))
        return said

    # --- what it gives ---

    def streamed(self, answer: Answer) -> list[bytes]:
        pieces: list[Any] = [{"thinking": answer.thought, "content": ""}] if answer.thought else []
        pieces += [{"content": piece} for piece in (answer.text[:3], answer.text[3:]) if piece]
        pieces += [{"content": "", "tool_calls": [call]} for call in self._calls(answer)]
        lines = [{"model": "llama", "message": {"role": "assistant", **piece}, "done": False} for piece in pieces]
        self._thoughts.add(answer.thought.strip())
        last = {"model": "llama", "message": {"role": "assistant", "content": ""}, **_LAST}
        return [json.dumps(line).encode() + b"\n" for line in [*lines, last]]

    def whole(self, answer: Answer) -> Any:
        message: Any = {"role": "assistant", "content": answer.text}
        if answer.thought:
            message["thinking"] = answer.thought
        if calls := self._calls(answer):
            message["tool_calls"] = calls
        self._thoughts.add(answer.thought.strip())
        return {"model": "llama", "message": message, **_LAST}

    def _calls(self, answer: Answer) -> list[Any]:
        return [{"function": {"name": name, "arguments": arguments}} for name, arguments in answer.calls]

    def error(self, status: int, message: str) -> Any:
        return {"error": message}


_LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 7}
