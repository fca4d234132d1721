"""What a request to Ollama looks like: its options, and what it may hold of tools, thinking and images."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from aar.errors import InvalidSetting
from aar.messages.provider import ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.ollama_wire import answer_format, encode_message, encode_message_without_images
from aar.providers.openai_wire import encode_json, encode_tools
from aar.providers.output_limits import capped

__all__ = [
    "OUTPUT_LIMIT",
    "Form",
    "Given",
    "asked_format",
    "encode_body",
    "form_of",
    "image_bytes",
    "less",
    "own_window",
]

CODEC, BLIND_CODEC = "ollama", "ollama-blind"  # under these names a history keeps the bytes of its messages
OUTPUT_LIMIT = "num_predict"
SMALLEST_WINDOW = 4096  # tokens: the least that makes sense for an agent

_OURS = {
    "api",
    "auth_header",
    "endpoint",
    "extra_headers",
    "first_byte_timeout",
    "idle_timeout",
    "json_schema_def",
    "keep_alive",
    "read_timeout",
    "response_format",
    "think",
    "timeout",
    "truncate",
    "use_environment",
}  # in `extra`, and no options of a model

_NO_IMAGES = re.compile(r"missing data required for image|does not support (?:images?|vision)", re.IGNORECASE)
_NO_MEMORY = re.compile(r"requires more system memory|out of memory|failed to allocate", re.IGNORECASE)


class Form(NamedTuple):
    """What a request may hold. `largest` is the window that the machine has the memory for, where that is known."""

    tools: bool
    think: bool | str | None
    images: bool
    largest: int | None = None


class Given(NamedTuple):
    """A change of the form, and the sentence that tells of it."""

    change: dict[str, Any]
    text: str


def form_of(config: ProviderConfig) -> Form:
    """What the settings wish for. Raises `InvalidSetting`."""
    extra = config.extra
    think = extra.get("think", True if extra.get("supports_reasoning") else None)
    if think is not None and not isinstance(think, bool | str):
        raise InvalidSetting("provider.extra.think must be true, false or a level such as low, medium, high")
    think = None if think == "" else think
    return Form(bool(extra.get("supports_tools", True)), think, bool(extra.get("supports_vision", True)))


def own_window(config: ProviderConfig) -> int | None:
    """`extra.num_ctx`, where `null` leaves it to the server, else `context_window`. Raises `InvalidSetting`."""
    if "num_ctx" not in config.extra:
        return config.context_window or None
    window = config.extra["num_ctx"]
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
        raise InvalidSetting("provider.extra.num_ctx must be a number of tokens, or null for the server's own")
    return window


def encode_body(
    config: ProviderConfig, request: ProviderRequest, form: Form, *, window: int | None, streaming: bool
) -> bytes:
    """The body of a request, the same bytes for the same conversation."""
    codec, encode = (CODEC, encode_message) if form.images else (BLIND_CODEC, encode_message_without_images)
    messages = request.messages.encoded(codec, encode)
    if request.system:
        messages.insert(0, encode_json({"role": "system", "content": request.system}))
    extra = config.extra
    fields = {
        "model": config.model,
        "stream": streaming,
        "options": _options(config, request, window),
        "keep_alive": extra.get("keep_alive", "5m"),
        "format": answer_format(*asked_format(config)),
        "think": form.think,
        "truncate": extra.get("truncate"),
    }
    sent = encode_json({name: value for name, value in fields.items() if value is not None})
    tools = b',"tools":' + encode_tools(request.tools) if request.tools and form.tools else b""
    # The conversation comes first and grows at its end: equal starts are equal bytes.
    return b'{"messages":[' + b",".join(messages) + b"]," + sent[1:-1] + tools + b"}"


def asked_format(config: ProviderConfig) -> tuple[str, dict[str, Any]]:
    kind = config.response_format or str(config.extra.get("response_format") or "text")
    return kind, config.json_schema or config.extra.get("json_schema_def") or {}


def _options(config: ProviderConfig, request: ProviderRequest, window: int | None) -> dict[str, Any]:
    limit = config.max_tokens if request.max_tokens is None else request.max_tokens
    options: dict[str, Any] = {
        "temperature": config.temperature or None,
        OUTPUT_LIMIT: limit or None,
        **{name: value for name, value in config.extra.items() if name not in _OURS and name[:9] != "supports_"},
        "num_ctx": window,
    }
    options = capped(options, request.max_tokens, OUTPUT_LIMIT)
    return {name: value for name, value in options.items() if value is not None}


def image_bytes(request: ProviderRequest) -> int:
    """How much of a request is images: they cost the window a few hundred tokens each, whatever their size."""
    return sum(
        len(block["image_url"]["url"])
        for message in request.messages
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block.get("type") == "image_url"
    )


def less(form: Form, status: int, text: str, window: int | None) -> Given | None:
    """What to do without after this error; `None` when nothing helps. `window` is given when it may be made smaller."""
    if status < 500 and form.tools and "does not support tools" in text:
        return Given({"tools": False}, "it cannot call tools, so it can talk and not act")
    if status < 500 and form.think and "think" in text:
        if isinstance(form.think, str) and "does not support thinking" not in text:
            return Given({"think": True}, f"it does not know the thinking level {form.think!r}")
        return Given({"think": None}, "it does not think")
    if form.images and _NO_IMAGES.search(text):
        return Given({"images": False}, "it sees no images: they are left out")
    if window and window >= 2 * SMALLEST_WINDOW and _NO_MEMORY.search(text):
        return Given({"largest": window // 2}, f"too little memory for {window:,} tokens: trying {window // 2:,}")
    return None
