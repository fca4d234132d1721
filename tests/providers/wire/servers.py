"""One server on loopback that is all vendors at once: the first part of a path says which one is spoken to."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aar.messages.settings import ProviderConfig
from tests.providers.conftest import Connection, ModelServer, SentRequest
from tests.providers.wire.anthropic import MessagesFormat
from tests.providers.wire.form import Answer, WireFormat
from tests.providers.wire.gemini import GenerateContentFormat
from tests.providers.wire.ollama import OllamaFormat
from tests.providers.wire.openai_chat import ChatFormat, ImitationFormat
from tests.providers.wire.openai_responses import ResponsesFormat

__all__ = ["ADAPTERS", "NAMES", "Vendors", "new_formats", "thinking_config"]

Play = Callable[[Connection, WireFormat], Awaitable[None]]

_FORMATS: tuple[type[WireFormat], ...] = (
    MessagesFormat,
    ChatFormat,
    ResponsesFormat,
    GenerateContentFormat,
    OllamaFormat,
    ImitationFormat,
)
NAMES = [form.name for form in _FORMATS]
"""The formats: one for each adapter, and a second one for openai."""

ADAPTERS = {name: "openai" if name == "responses" else name for name in NAMES}
"""The adapter that speaks each format."""

_THINKING: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    "openai": {},
    "responses": {"api": "responses", "supports_reasoning": True},
    "gemini": {"thinking_budget": 2048},
    "ollama": {"think": True},
    "generic": {"supports_reasoning": True},
}
_MODELS = {"gemini": "gemini-3-pro-preview", "openai": "gpt-4o"}


def new_formats() -> dict[str, WireFormat]:
    return {form.name: form(key=f"key-of-{form.name}") for form in _FORMATS}


def thinking_config(name: str, *, thinks: bool = True, **changes: Any) -> ProviderConfig:
    """Settings for the adapter that speaks this format and a model that thinks."""
    extra = dict(_THINKING[name] if thinks else {"api": "responses"} if name == "responses" else {})
    settings = {
        "name": ADAPTERS[name],
        "model": _MODELS.get(name, f"{name}-vision"),
        "extra": extra | changes.pop("extra", {}),
    }
    return ProviderConfig(**settings | changes)


class Vendors:
    """Plays `replies` in their order, whoever is asked, and refuses as the vendor would what the vendor would refuse.

    A reply is an answer, a status of a refusal, or a function that is given the connection. The last one is repeated.
    """

    def __init__(self, server: ModelServer) -> None:
        self.url = server.url
        self.formats = new_formats()
        self.findings: list[str] = []
        self.asked: list[tuple[str, SentRequest]] = []
        self.replies: deque[Answer | int | Play] = deque()
        self.before_answer: Callable[[], Awaitable[None]] | None = None
        self._server = server
        server.plays(self._play)

    def config(self, name: str, *, thinks: bool = True, **changes: Any) -> ProviderConfig:
        """Settings for the adapter that speaks this format, to be answered here."""
        root = f"{self.url}/{name}"
        changes = {"api_key": self.formats[name].key} | changes
        if name == "gemini":
            extra = {"sdk_base_url": root} | changes.pop("extra", {})
            return thinking_config(name, thinks=thinks, extra=extra, **changes)
        if name not in ("anthropic", "ollama"):
            root += "/v1"
        return thinking_config(name, thinks=thinks, **{"base_url": root} | changes)

    def outlines(self, start: int = 0) -> list[tuple[str, list[Any]]]:
        """What was asked of whom, in no vendor's words."""
        return [(name, self.formats[name].outline(sent.json)) for name, sent in self.asked[start:]]

    async def _play(self, connection: Connection) -> None:
        sent = self._server.requests[-1]
        form = self.formats[sent.path.split("/")[1]]
        if sent.path.endswith("/api/show"):
            await _whole(connection, 200, OllamaFormat.CARD)
            return
        self.asked.append((form.name, sent))
        if found := form.findings(sent):
            self.findings += [f"{form.name}: {text}" for text in found]
            await _whole(connection, 400, form.error(400, "; ".join(found)))
            return
        if self.before_answer is not None:
            await self.before_answer()
        await self._reply(connection, form, sent)

    async def _reply(self, connection: Connection, form: WireFormat, sent: SentRequest) -> None:
        reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, int):
            await _whole(connection, reply, form.error(reply, f"status {reply}"))
        elif not isinstance(reply, Answer):
            await reply(connection, form)
        elif form.wants_stream(sent):
            await pieces(connection, form, form.streamed(reply))
            await connection.end()
        else:
            await _whole(connection, 200, form.whole(reply))


async def pieces(connection: Connection, form: WireFormat, sent: Sequence[bytes]) -> None:
    await connection.begin(200, form.kind)
    for piece in sent:
        await connection.send(piece)


async def _whole(connection: Connection, status: int, body: Any) -> None:
    await connection.begin(status, "application/json")
    await connection.send(json.dumps(body).encode())
    await connection.end()
