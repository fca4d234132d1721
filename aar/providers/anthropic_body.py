"""Anthropic's Messages API: the body of a request, from settings and a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from aar.errors import InvalidSetting
from aar.messages.provider import ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers import anthropic_wire as wire
from aar.providers.openai_wire import encode_json

__all__ = ["MessageBody", "Shape", "reshaped"]

DEFAULT_MAX_TOKENS = 32_000  # the API wants a limit; where the model allows less, it says how much
LEAST_THINKING = 1024  # tokens; the API refuses a smaller budget

# What is Aar's own in `provider.extra`, stands there for another adapter, or has a place of its own in a request.
_NOT_SENT = frozenset(
    {
        *("api", "auth_header", "betas", "cache", "cache_ttl", "endpoint", "extra_headers", "use_environment"),
        *("timeout", "read_timeout", "first_byte_timeout", "idle_timeout", "max_tokens_field", "stream_endpoint"),
        *("keep_alive", "num_ctx", "n_ctx", "thinking_budget", "include_thoughts", "json_schema_def"),
        *("response_format", "reasoning_effort"),
        *("messages", "model", "max_tokens", "stream", "system", "tools"),
    }
)
_TOO_MANY_TOKENS = re.compile(r"max_tokens: \d+ > (\d+)")
_THOUGHT_REFUSED = re.compile(
    r"signature.{0,80}thinking|thinking.{0,80}(?:signature|cannot be modified)|expected .?thinking", re.IGNORECASE
)


class Shape(NamedTuple):
    """What a request may have. Learned from what the server refuses."""

    has_temperature: bool = True
    max_output: int | None = None
    has_thoughts: bool = True


def reshaped(shape: Shape, status: int, text: str) -> Shape | None:
    """How the request may be changed so that the server takes it, if its refusal says so."""
    if status != 400:
        return None
    if shape.has_temperature and "temperature" in text:
        return shape._replace(has_temperature=False)
    if (found := _TOO_MANY_TOKENS.search(text)) and 0 < int(found[1]) < (shape.max_output or 2**63):
        return shape._replace(max_output=int(found[1]))
    if shape.has_thoughts and _THOUGHT_REFUSED.search(text):
        return shape._replace(has_thoughts=False)
    return None


class MessageBody:
    """Makes the bodies of a provider's requests. Raises `InvalidSetting` for a `thinking` that cannot be one."""

    def __init__(self, config: ProviderConfig, *, has_tools: bool) -> None:
        self._config = config
        self._has_tools = has_tools
        sent = {name: value for name, value in config.extra.items() if _is_sent(name)}
        self._options = sent | _output_format(config)
        self._limit = config.max_tokens or DEFAULT_MAX_TOKENS
        self._thinking = _thinking(config.extra)
        self._cache_control = _cache_control(config.extra)

    @property
    def output_limit(self) -> int:
        """Tokens of an answer by the settings. Thinking is output, and `max_tokens` may mean the answer alone."""
        budget = self._thinking[1]
        return self._limit + budget if self._limit <= budget else self._limit

    def encode(self, request: ProviderRequest, shape: Shape) -> bytes:
        """The body as JSON. Messages are encoded once, however often their conversation is asked about."""
        if shape.has_thoughts:
            messages = request.messages.encoded(wire.NAME, wire.encode_message)
        else:
            messages = request.messages.encoded(f"{wire.NAME} without thoughts", wire.encode_without_thoughts)
        messages = wire.conversation(messages)
        options = self._request_options(request, shape, messages)
        tools = self._tools(request, messages)
        if not tools:
            options.pop("tool_choice", None)
        elif not request.tools:
            options["tool_choice"] = {"type": "none"}
        if self._cache_control:
            messages = wire.marked(messages, self._cache_control)
        # The conversation comes first and grows at its end: equal starts are equal bytes. It may be big: one join.
        rest = encode_json(options)[1:-1] + _system(request.system, self._cache_control) + tools
        return b"".join([b'{"messages":[', b",".join(messages), b"],", rest, b"}"])

    def _tools(self, request: ProviderRequest, messages: list[bytes]) -> bytes:
        if not self._has_tools:
            return b""
        if request.tools:
            return b',"tools":' + wire.encode_tools(request.tools, self._cache_control)
        return b',"tools":' + wire.PLACEHOLDER_TOOL if wire.calls_tools(messages) else b""

    def _request_options(self, request: ProviderRequest, shape: Shape, messages: list[bytes]) -> dict[str, Any]:
        limit = request.max_tokens or self.output_limit
        options: dict[str, Any] = {"model": self._config.model, "max_tokens": limit, "stream": True}
        kind, budget = self._thinking
        if self._config.temperature > 0 and kind == "disabled":
            options["temperature"] = self._config.temperature
        options |= self._options
        if not shape.has_temperature:
            options.pop("temperature", None)
        if kind == "enabled" and (not shape.has_thoughts or wire.begins_without_thought(messages)):
            del options["thinking"]  # the API would refuse; from the next prompt on the model thinks again
            options["max_tokens"] = min(limit, self._limit)
        elif limit <= budget:  # only where the request has a limit of its own, which is above all settings
            options |= _with_less_thinking(options.pop("thinking"), limit)
        if shape.max_output is not None:
            options["max_tokens"] = min(options["max_tokens"], shape.max_output)
        return options


def _with_less_thinking(thinking: dict[str, Any], limit: int) -> dict[str, Any]:
    """Half of the limit for thoughts and half for the answer; none where that is less than the API takes."""
    budget = limit // 2
    return {"thinking": {**thinking, "budget_tokens": budget}} if budget >= LEAST_THINKING else {}


def _is_sent(name: str) -> bool:
    return name not in _NOT_SENT and not name.startswith("supports_")


def _thinking(extra: Mapping[str, Any]) -> tuple[str, int]:
    """The kind of thinking, and its budget in tokens, 0 where there is none."""
    thinking = extra.get("thinking") or {"type": "disabled"}
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    budget = thinking.get("budget_tokens", 0) if isinstance(thinking, dict) else None
    if not isinstance(kind, str) or not isinstance(budget, int):
        raise InvalidSetting(
            'provider.extra.thinking must be an object, such as {"type": "adaptive"} or '
            '{"type": "enabled", "budget_tokens": 4096}'
        )
    return kind, budget if kind == "enabled" else 0


def _output_format(config: ProviderConfig) -> dict[str, Any]:
    """The schema that the answer has to follow, where there is one."""
    if config.response_format != "json_schema" or not config.json_schema:
        return {}
    schema = config.json_schema.get("schema", config.json_schema)  # with or without the wrapper that OpenAI wants
    given = config.extra.get("output_config") or {}
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}, **given}}


def _cache_control(extra: Mapping[str, Any]) -> bytes:
    """The mark of a cache breakpoint; empty when there are to be none, or the request has a mark of its own."""
    if extra.get("cache", True) is False or extra.get("cache_control"):
        return b""
    ttl = extra.get("cache_ttl")
    return encode_json({"type": "ephemeral", "ttl": str(ttl)} if ttl else {"type": "ephemeral"})


def _system(text: str, control: bytes) -> bytes:
    if not text.strip():
        return b""
    if not control:
        return b',"system":' + encode_json(text)
    return b',"system":[' + encode_json({"type": "text", "text": text})[:-1] + b',"cache_control":' + control + b"}]"
