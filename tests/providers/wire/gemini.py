"""Gemini's generateContent, as its documentation has it."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.providers.conftest import SentRequest
from tests.providers.wire.form import Answer, Entry, Findings, WireFormat, events, is_base64, plain_name

__all__ = ["GenerateContentFormat"]

_OPTIONAL = "tools toolConfig safetySettings systemInstruction generationConfig cachedContent"
_GENERATION = (
    "stopSequences responseMimeType responseSchema responseJsonSchema responseModalities candidateCount "
    "maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty thinkingConfig mediaResolution"
)
_SCHEMA = (
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"
)
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse")
_IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
WITHOUT = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")  # documented in their place


class GenerateContentFormat(WireFormat):
    name = "gemini"
    key_header = ("x-goog-api-key", "{}")

    def __init__(self, key: str, *, signs: bool = True) -> None:
        """`signs` is for a model that wants signatures at its calls, as from Gemini 3 on."""
        super().__init__(key)
        self._signs = signs
        self._signed: dict[str, bool] = {}  # whether a call stood beside a signature

    def wants_stream(self, request: SentRequest) -> bool:
        return "streamGenerateContent" in request.path

    # --- what it takes ---

    def check(self, body: Any, found: Findings) -> None:
        if not found.keys("the body", body, "contents", _OPTIONAL):
            return
        found.keys("generationConfig", body.get("generationConfig", {}), "", _GENERATION)
        self._tools(body.get("tools", []), found)
        contents = body["contents"]
        if not found.need(isinstance(contents, list) and contents, "no contents"):
            return
        roles = [content.get("role") for content in contents]
        expected = ["user", "model"] * len(roles)
        found.need(roles == expected[: len(roles)], f"the roles do not alternate, beginning with the user: {roles}")
        found.need(roles[-1] == "user", "the conversation does not end with the user")
        waiting: list[tuple[Any, Any]] = []
        for content in contents:
            found.keys("content", content, "role parts")
            found.need(content["parts"], "a content without parts")
            for part in content["parts"]:
                self._part(part, content["role"], found)
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            if content["role"] == "model":
                waiting = [(call["name"], call.get("id")) for call in calls]
                self._signatures(content["parts"], found)
            else:
                given = [(result["name"], result.get("id")) for result in results]
                found.need(given == waiting, f"function calls {waiting} are answered by {given}")

    def _tools(self, tools: Any, found: Findings) -> None:
        for tool in tools:
            found.keys("tool", tool, "functionDeclarations")
            names = [function["name"] for function in tool["functionDeclarations"]]
            found.need(names == sorted(set(names)), f"the tools are not in the order of their names: {names}")
            for function in tool["functionDeclarations"]:
                found.keys("function", function, "name description", "parameters response behavior")
                found.need(_NAME.fullmatch(function["name"]), f"function name {function['name']!r}")
                if "parameters" in function:
                    found.need(function["parameters"].get("properties"), "an object schema without properties")
                    self._schema(function["parameters"], found)

    def _schema(self, schema: Any, found: Findings) -> None:
        found.keys("schema", schema, "", _SCHEMA)
        inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
        for one in [*inner, schema["items"]] if "items" in schema else inner:
            self._schema(one, found)

    def _part(self, part: Any, role: str, found: Findings) -> None:
        kinds = [name for name in _DATA if name in part]
        found.need(len(kinds) == 1, f"a part with {kinds or 'no data'}")
        found.keys("part", part, "", " ".join(_DATA) + " thought thoughtSignature")
        found.need(not part.get("thought"), "a thought is sent back")
        match kinds[:1]:
            case ["text"]:
                found.need(part["text"] or "thoughtSignature" in part, "a part with empty text")
            case ["inlineData"]:
                found.keys("inlineData", part["inlineData"], "mimeType data")
                found.need(part["inlineData"]["mimeType"] in _IMAGES, "an image of another type")
                found.need(is_base64(part["inlineData"]["data"]), "an image that is no base64")
            case ["functionCall"]:
                found.need(role == "model", "a call of the user")
                found.keys("functionCall", part["functionCall"], "name args", "id")
                found.need(_NAME.fullmatch(part["functionCall"]["name"]), "a function name with other characters")
                found.need(isinstance(part["functionCall"]["args"], dict), "args that are no object")
            case ["functionResponse"]:
                found.need(role == "user", "a result of the model")
                found.keys("functionResponse", part["functionResponse"], "name response", "id")
                found.need(isinstance(part["functionResponse"]["response"], dict), "a response that is no object")

    def _signatures(self, parts: list[Any], found: Findings) -> None:
        calls = [part for part in parts if "functionCall" in part]
        if self._signs and calls:
            found.need(calls[0].get("thoughtSignature"), "function call is missing a thought_signature")
        for part in parts:
            signature = part.get("thoughtSignature")
            if signature is None or signature in WITHOUT:
                continue
            is_own = is_base64(signature) and self._signed.get(signature) == ("functionCall" in part)
            found.need(is_own, "a signature that was not given here, or in another place")

    # --- a plain view ---

    def messages(self, body: Any) -> list[Any]:
        return list(body["contents"])

    def outline(self, body: Any) -> list[Entry]:
        said: list[Entry] = []
        for content in body["contents"]:
            role = "assistant" if content["role"] == "model" else "user"
            for part in content["parts"]:
                if part.get("text"):
                    said.append((role, part["text"]))
                elif "inlineData" in part:
                    said.append(("image", part["inlineData"]["mimeType"], part["inlineData"]["data"]))
                elif "functionCall" in part:
                    said.append(("call", plain_name(part["functionCall"]["name"]), part["functionCall"]["args"]))
                elif "functionResponse" in part:
                    said.append(("result", part["functionResponse"]["response"]["content"]))
        return said

    # --- what it gives ---

    def streamed(self, answer: Answer) -> list[bytes]:
        parts = self._parts(answer)
        head = {"modelVersion": "gemini", "responseId": self.fresh("r")}
        made: list[Any] = [
            {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **head} for part in parts
        ]
        made.append({"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": _USAGE, **head})
        return events(made)

    def whole(self, answer: Answer) -> Any:
        candidate = {"content": {"parts": self._parts(answer), "role": "model"}, "finishReason": "STOP"}
        return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "gemini", "responseId": "r"}

    def _parts(self, answer: Answer) -> list[Any]:
        parts: list[Any] = [{"text": answer.thought, "thought": True}] if answer.thought else []
        parts += [{"text": answer.text}] if answer.text else []
        for index, (name, arguments) in enumerate(answer.calls):
            part: Any = {"functionCall": {"name": name, "args": arguments}}
            if self._signs and index == 0:
                part["thoughtSignature"] = self._sign(beside_call=True)
            parts.append(part)
        if self._signs and answer.text and not answer.calls:
            parts.append({"text": "", "thoughtSignature": self._sign(beside_call=False)})
        return parts

    def _sign(self, *, beside_call: bool) -> str:
        signature = base64.b64encode(self.fresh("signature of ").encode()).decode()
        self._signed[signature] = beside_call
        return signature

    def error(self, status: int, message: str) -> Any:
        names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
        return {"error": {"code": status, "message": message, "status": names.get(status, "UNAVAILABLE")}}


_USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17}
