"""Settings of the OpenAI adapter: which API, where, which of the extra settings are part of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from aar.messages.provider import ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.addresses import with_scheme
from aar.providers.http import split_url
from aar.providers.openai_wire import response_format
from aar.providers.sdk import key_of

__all__ = ["Place", "asked_format", "limit_of", "passed_on", "place_of", "reasons", "sees"]

DEFAULT_URL = "https://api.openai.com/v1"

# Versions of Azure's older API, which has one address per deployment. The newer one needs none.
AZURE_CHAT_VERSION, AZURE_RESPONSES_VERSION = "2024-10-21", "2025-04-01-preview"

# Settings that are for Aar, those that only other providers know, and what Aar itself fills in. All others are sent.
_OURS = frozenset(
    {
        *("api", "endpoint", "auth_header", "extra_headers", "organization", "project", "use_environment"),
        *("azure_endpoint", "azure_deployment", "api_version"),
        *("supports_tools", "supports_reasoning", "supports_vision", "supports_audio"),
        *("timeout", "read_timeout", "first_byte_timeout", "idle_timeout", "max_tokens_field", "json_schema_def"),
        *("cache", "cache_ttl", "keep_alive", "num_ctx", "thinking_budget", "include_thoughts", "stream_endpoint"),
        *("input", "instructions", "messages", "model", "stream", "tools"),
        *("n_ctx", "threads", "gpu_layers", "start_timeout"),
    }
)
# Other providers' settings, which some hosts take and OpenAI refuses.
_UNKNOWN_TO_VENDOR = frozenset({"betas", "thinking", "top_k"})

_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9]|codex)(?!.*-chat)")
_SEES = re.compile(r".*(?:vision|4o)|gpt-[4-9]|o[1-9]")


class Place(NamedTuple):
    """Where requests go. `version` is not empty for Azure's older API, in which `deployment` is part of the address."""

    url: str
    key: str
    deployment: str = ""
    version: str = ""

    @property
    def is_vendor(self) -> bool:
        """Whether this is OpenAI itself, which takes everything that it documents."""
        return split_url(self.url).hostname == "api.openai.com"


def place_of(config: ProviderConfig, api: str, environ: Mapping[str, str]) -> Place:
    """Raises `InvalidSetting` for an address that is none. `environ` gives what the settings leave out."""
    extra = config.extra
    if endpoint := extra.get("azure_endpoint"):
        key = key_of(config, "AZURE_OPENAI_API_KEY", environ) or key_of(config, "OPENAI_API_KEY", environ)
        default = AZURE_RESPONSES_VERSION if api == "responses" else AZURE_CHAT_VERSION
        version = extra.get("api_version") or environ.get("OPENAI_API_VERSION") or default
        return Place(_url(str(endpoint)), key, str(extra.get("azure_deployment") or config.model), str(version))
    address = config.base_url or extra.get("endpoint") or environ.get("OPENAI_BASE_URL") or DEFAULT_URL
    return Place(_url(str(address)), key_of(config, "OPENAI_API_KEY", environ))


def _url(address: str) -> str:
    return re.sub(r"/(?:chat/completions|responses)/?$", "", with_scheme(address).rstrip("/"))


def reasons(config: ProviderConfig) -> bool:
    """Whether the model thinks before it answers: as the settings say, else by its name."""
    return bool(config.extra.get("supports_reasoning", _REASONS.match(config.model)))


def sees(config: ProviderConfig) -> bool:
    """Whether the model takes images: as the settings say, else by its name."""
    return bool(config.extra.get("supports_vision", _SEES.match(config.model)))


def passed_on(config: ProviderConfig, *, is_vendor: bool) -> dict[str, Any]:
    """What of the extra settings is part of every request, to OpenAI itself or to who only speaks like it."""
    unwanted = _OURS | _UNKNOWN_TO_VENDOR if is_vendor else _OURS
    return {name: value for name, value in config.extra.items() if name not in unwanted and value is not None}


def asked_format(config: ProviderConfig, passed: dict[str, Any]) -> dict[str, Any] | None:
    """The format that the answer should have. A word in `extra.response_format` is taken out of `passed`."""
    word = passed.get("response_format")
    if isinstance(word, str):
        del passed["response_format"]
    kind = config.response_format or (word if isinstance(word, str) else "")
    return response_format(kind, config.json_schema or config.extra.get("json_schema_def") or {})


def limit_of(config: ProviderConfig, request: ProviderRequest) -> int:
    """Tokens that the answer may have; 0 for no limit."""
    return config.max_tokens if request.max_tokens is None else request.max_tokens
