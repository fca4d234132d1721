"""OpenAI's chat completions, as the adapter over the vendor's package asks for them."""

from __future__ import annotations

from typing import Any

from aar.messages.provider import ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers.failures import error_in_answer
from aar.providers.openai_fields import Fields
from aar.providers.openai_settings import asked_format, limit_of, passed_on, reasons
from aar.providers.openai_stream import ChatStream
from aar.providers.openai_wire import encode_json, encode_tools, encoded_messages, parse_answer
from aar.providers.output_limits import capped, usual_limit

__all__ = ["ChatApi"]

_LIMITS = ("max_completion_tokens", "max_tokens")
OPTIONAL = frozenset({"images", "prompt_cache_key", "stream_options", "temperature"})


class ChatApi:
    """Bodies for `/chat/completions`, and readers of what comes back."""

    path = "/chat/completions"

    def __init__(self, config: ProviderConfig, provider: str, *, is_vendor: bool) -> None:
        """`is_vendor` says that the server is OpenAI's own."""
        self._config = config
        self._provider = provider
        self._is_vendor = is_vendor
        self._sends_tools = bool(config.extra.get("supports_tools", True))
        self._splits_tags = bool(config.extra.get("supports_reasoning", False))
        self._passed = passed_on(config, is_vendor=is_vendor)
        self._format = asked_format(config, self._passed)

    @property
    def output_limit(self) -> int:
        return usual_limit(self._config, self._passed, *_LIMITS)

    def fields(self) -> Fields:
        """What the first request tries. Models that reason refuse the old name of the limit, other servers the new."""
        fixed = self._config.extra.get("max_tokens_field")
        usual = "max_completion_tokens" if reasons(self._config) else "max_tokens"
        return Fields(fixed or usual, OPTIONAL, may_rename=not fixed)

    def body(self, request: ProviderRequest, fields: Fields, *, streaming: bool) -> bytes:
        limit = 0 if self._passed.keys() & _LIMITS else limit_of(self._config, request)
        messages = encoded_messages(request.messages, with_images="images" in fields.optional)
        if request.system:
            messages.insert(0, encode_json({"role": "system", "content": request.system}))
        options: dict[str, Any] = {
            "model": self._config.model or None,
            fields.limit: limit or None,
            "temperature": self._config.temperature or None,
            "stream": streaming or None,
            "stream_options": {"include_usage": True} if streaming else None,
            "response_format": self._format,
            "prompt_cache_key": request.session_id if self._is_vendor and request.session_id else None,
        } | self._passed
        options = capped(options, request.max_tokens, *_LIMITS)
        left_out = OPTIONAL - fields.optional
        sent = {name: value for name, value in options.items() if value is not None and name not in left_out}
        tools = b',"tools":' + encode_tools(request.tools) if request.tools and self._sends_tools else b""
        # The conversation comes first and grows at its end: equal starts are equal bytes.
        return b'{"messages":[' + b",".join(messages) + b"]," + encode_json(sent)[1:-1] + tools + b"}"

    def reading(self) -> ChatStream:
        return ChatStream(provider=self._provider, model=self._config.model, splits_tags=self._splits_tags)

    def parsed(self, answer: Any) -> ProviderResponse:
        if isinstance(answer, dict) and (answer.get("error") or answer.get("object") == "error"):
            raise error_in_answer(answer, self._provider)
        return parse_answer(answer, provider=self._provider, model=self._config.model, splits_tags=self._splits_tags)
