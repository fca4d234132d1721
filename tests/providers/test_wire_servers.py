"""The servers that other tests rely on: they take what is right and refuse what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.providers.wire.form import Answer, Findings
from tests.providers.wire.servers import NAMES, new_formats

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "ls", "description": "", "parameters": {}}}


def anthropic(answer: dict[str, Any]) -> Any:
    call_id = answer["content"][-1]["id"]
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            USER,
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "a"}]},
        ],
        "tools": [{"name": "ls", "input_schema": {"type": "object"}}],
    }


def openai(answer: dict[str, Any]) -> Any:
    message = {name: value for name, value in answer["choices"][0]["message"].items() if name != "reasoning_content"}
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "a"}
    if len(result["tool_call_id"]) > 40:
        message["tool_calls"][0]["id"] = result["tool_call_id"] = "short"
    return {"model": "m", "messages": [USER, message, result], "tools": [TOOL]}


def responses(answer: dict[str, Any]) -> Any:
    items = [{key: value for key, value in item.items() if value is not None} for item in answer["output"]]
    result = {"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "a"}
    return {"model": "m", "store": False, "input": [USER, *items, result]}


def gemini(answer: dict[str, Any]) -> Any:
    parts = [part for part in answer["candidates"][0]["content"]["parts"] if not part.get("thought")]
    result = {"functionResponse": {"name": "ls", "response": {"content": "a"}}}
    hi = {"role": "user", "parts": [{"text": "hi"}]}
    return {"contents": [hi, {"role": "model", "parts": parts}, {"role": "user", "parts": [result]}]}


def ollama(answer: dict[str, Any]) -> Any:
    return {"model": "m", "messages": [USER, answer["message"], {"role": "tool", "content": "a"}], "tools": [TOOL]}


BODIES = {
    "anthropic": anthropic,
    "openai": openai,
    "responses": responses,
    "gemini": gemini,
    "ollama": ollama,
    "generic": openai,
}


def set_in(*path: Any) -> Callable[[Any], None]:
    """A change: the last of `path` is put where the others lead."""

    def change(body: Any) -> None:
        for step in path[:-2]:
            body = body[step]
        body[path[-2]] = path[-1]

    return change


def without(*path: Any) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        del body[path[-1]]

    return change


WRONG: list[tuple[str, Callable[[Any], None], str]] = [
    *((name, set_in("supports_tools", True), "the body has unknown supports_tools") for name in NAMES),
    ("anthropic", without("messages", 0), "the roles do not alternate"),
    ("anthropic", without("messages", 2), "does not end with the user"),
    ("anthropic", set_in("messages", 2, "content", "and?"), "are answered by []"),
    ("anthropic", set_in("messages", 1, "content", 0, "signature", "c2ln"), "not signed here"),
    ("anthropic", set_in("messages", 1, "content", 0, "thinking", "hm!"), "or was changed"),
    ("anthropic", set_in("messages", 1, "content", 2, "id", "call:1"), "tool_use.id 'call:1'"),
    ("anthropic", set_in("messages", 1, "content", 1, "text", " "), "a text block without text"),
    ("anthropic", without("tools"), "calls in the conversation, and no tools"),
    ("openai", without("messages", 2), "are not answered at the end"),
    ("openai", set_in("messages", 2, "tool_call_id", "other"), "a result for 'other'"),
    ("openai", set_in("messages", 2, USER), "are not answered before a message of user"),
    ("openai", set_in("messages", 1, "reasoning_content", "hm"), "has unknown reasoning_content"),
    ("openai", set_in("messages", 1, "tool_calls", 0, "id", "x" * 41), "a call id of 41 characters"),
    ("openai", set_in("messages", 1, "tool_calls", 0, "function", "arguments", "{"), "arguments that are no object"),
    ("responses", without("input", 4), "no tool output found"),
    ("responses", without("input", 1), "without its required reasoning item"),
    ("responses", set_in("input", 1, "encrypted_content", "other"), "not given here"),
    ("responses", set_in("input", 3, "id", "fc_other"), "was not given here"),
    ("responses", set_in("input", 2, {"role": "assistant", "content": "x"}), "an answer without its type"),
    ("gemini", set_in("contents", 0, "role", "model"), "the roles do not alternate"),
    ("gemini", set_in("contents", 2, "parts", [{"text": "and?"}]), "are answered by []"),
    ("gemini", set_in("contents", 2, "parts", 0, "functionResponse", "name", "cat"), "are answered by [('cat', None)]"),
    ("gemini", without("contents", 1, "parts", 1, "thoughtSignature"), "missing a thought_signature"),
    ("gemini", set_in("contents", 1, "parts", 1, "thoughtSignature", "c2ln"), "not given here"),
    ("ollama", set_in("messages", 1, "thinking", "what another one thought"), "a thought of somebody else"),
    ("ollama", without("messages", 2), "are not answered at the end"),
    ("ollama", set_in("messages", 0, "images", ["data:image/png;base64,AAAA"]), "no base64"),
]


def findings_of(name: str, change: Callable[[Any], None] | None = None) -> list[str]:
    form = new_formats()[name]
    body = copy.deepcopy(BODIES[name](form.whole(Answer("hm", "I look.", (("ls", {"p": 1}),)))))
    if change:
        change(body)
    found = Findings()
    form.check(body, found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_as_documented_is_taken(name: str) -> None:
    assert findings_of(name) == []


@pytest.mark.parametrize(("name", "change", "complaint"), WRONG, ids=[f"{name}: {text}" for name, _, text in WRONG])
def test_what_a_vendor_would_refuse_is_refused(name: str, change: Callable[[Any], None], complaint: str) -> None:
    assert any(complaint in text for text in findings_of(name, change))
