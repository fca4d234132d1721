"""What the wire formats of models have in common: answers to play, rules to hold, and one plain view of a request."""

from __future__ import annotations

import base64
import binascii
import json
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.providers.conftest import SentRequest

__all__ = [
    "Answer",
    "Entry",
    "Findings",
    "WireFormat",
    "data_uri",
    "events",
    "is_base64",
    "is_object",
    "plain_name",
    "read_json",
]

Entry = tuple[Any, ...]
"""One thing that was said: ("user", text), ("image", media type, base64), ("assistant", text),
("call", name, arguments) or ("result", text)."""


@dataclass(frozen=True)
class Answer:
    """What a model says: a thought, a text, calls as (name, arguments)."""

    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


class Findings(list[str]):
    """What a vendor would refuse in a request."""

    def need(self, holds: object, text: str) -> bool:
        if not holds:
            self.append(text)
        return bool(holds)

    def keys(self, where: str, value: Any, required: str, optional: str = "") -> bool:
        """`value` is an object with these keys and no others."""
        if not self.need(isinstance(value, dict), f"{where} is no object: {value!r:.80}"):
            return False
        missing = set(required.split()) - value.keys()
        unknown = value.keys() - set(required.split()) - set(optional.split())
        self.need(not missing, f"{where} has no {', '.join(sorted(missing))}")
        self.need(not unknown, f"{where} has unknown {', '.join(sorted(unknown))}")
        return not missing


class WireFormat:
    """One vendor's format: what it takes, what it gives. An instance remembers what it gave, so that it knows what
    may come back to it and what is somebody else's.
    """

    name = ""
    kind = "text/event-stream"  # the content type of its streams
    key_header = ("authorization", "Bearer {}")

    def __init__(self, key: str) -> None:
        self.key = key
        self.given = 0

    def fresh(self, prefix: str = "") -> str:
        """An id that this server has not given before."""
        self.given += 1
        return f"{prefix}{self.name}{self.given:06d}"

    def findings(self, request: SentRequest) -> list[str]:
        """Why this server would refuse the request; empty when it would not."""
        found = Findings()
        name, form = self.key_header
        expected = form.format(self.key) if self.key else None
        found.need(request.headers.get(name) == expected, f"another key in the header {name}")
        found.need(request.headers.get("content-type") == "application/json", "content-type is not application/json")
        try:
            body = read_json(request.body)
        except ValueError as error:
            return [*found, f"no JSON: {error}"]
        try:
            self.check(body, found)
        except (AttributeError, KeyError, IndexError, TypeError) as error:  # the check itself fell over the body
            found.append(f"another shape altogether: {error!r}")
        return found

    @abstractmethod
    def check(self, body: Any, found: Findings) -> None:
        """Add to `found` what is wrong with a body."""

    @abstractmethod
    def messages(self, body: Any) -> list[Any]:
        """The conversation of a body as it stands there, without the system prompt and marks for caches."""

    @abstractmethod
    def outline(self, body: Any) -> list[Entry]:
        """The same in no vendor's words."""

    def wants_stream(self, request: SentRequest) -> bool:
        return bool(request.json.get("stream"))

    @abstractmethod
    def streamed(self, answer: Answer) -> list[bytes]:
        """The pieces of a streamed answer."""

    @abstractmethod
    def whole(self, answer: Answer) -> Any:
        """The answer as one JSON body."""

    @abstractmethod
    def error(self, status: int, message: str) -> Any:
        """The JSON body of a refusal."""


def read_json(text: str | bytes) -> Any:
    """JSON as servers read it that are not written in Python. Raises `ValueError`."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def is_object(text: str) -> bool:
    """Whether this is the JSON of an object."""
    try:
        return isinstance(read_json(text), dict)
    except ValueError:
        return False


def events(chunks: list[Any], *, named: bool = False, done: bool = False) -> list[bytes]:
    """Chunks as server-sent events; `named` after their `type`."""
    made = []
    for chunk in chunks:
        head = f"event: {chunk['type']}\n" if named else ""
        made.append(f"{head}data: {json.dumps(chunk)}\n\n".encode())
    return [*made, b"data: [DONE]\n\n"] if done else made


def is_base64(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        return False


def data_uri(url: str) -> tuple[str, str] | None:
    """The media type and the payload of a data URI of an image."""
    found = re.fullmatch(r"data:(image/(?:png|jpeg|gif|webp));base64,(.+)", url)
    return (found[1], found[2]) if found and is_base64(found[2]) else None


def plain_name(name: str) -> str:
    """The name of a tool as every vendor would take it: formats differ in the characters that they allow."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)
