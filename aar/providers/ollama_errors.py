"""What Ollama's errors mean for the person who waits, and what they can do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aar.errors import ProviderError, ProviderUnauthorized, ProviderUnavailable
from aar.providers.failures import describe_body, error_for_status
from aar.providers.ollama_wire import NAME

__all__ = ["failure", "is_unknown_model", "not_running"]

_UNKNOWN = re.compile(r"model.{0,300}not found|try pulling", re.IGNORECASE | re.DOTALL)
_TOO_BIG = re.compile(r"requires more system memory|out of memory|failed to allocate", re.IGNORECASE)
_LASTING = re.compile(r"missing data required|does not support|unknown model architecture", re.IGNORECASE)


def is_unknown_model(status: int, text: str) -> bool:
    """Whether the server does not have the model; otherwise a 404 means that it is no Ollama."""
    return status == 404 and bool(_UNKNOWN.search(text))


def failure(status: int, text: str, headers: Mapping[str, str], *, model: str, server: str) -> ProviderError:
    """The error that an answer other than 2xx stands for, with advice where there is any."""
    error = error_for_status(status, text, headers, NAME)
    if is_unknown_model(status, text):
        return _advised(
            error, f"Ollama has no model '{model}': get it with `ollama pull {model}`, or see `ollama list`."
        )
    if status in (404, 405) or text.lstrip()[:1] == "<":
        what = f"HTTP {status}: {describe_body(text)}"
        return _advised(error, f"{server} does not answer like Ollama ({what}): check provider.base_url.")
    if isinstance(error, ProviderUnauthorized):
        cure = "for its cloud models run `ollama signin`, else set provider.api_key"
        error.advice = f"Ollama at {server} refused the request: {cure}."
    if _TOO_BIG.search(text):
        error.retryable = False
        error.advice = (
            f"{describe_body(text)}: choose a smaller model, or a smaller window with provider.context_window."
        )
    if _LASTING.search(text):
        error.retryable = False
    return error


def _advised(error: ProviderError, text: str) -> ProviderError:
    error.args = (text,)
    error.advice = text
    return error


def not_running(server: str, detail: str, *, is_here: bool) -> ProviderUnavailable:
    """Nobody listens at the address."""
    if is_here:
        text = f"Ollama is not running at {server}: start it with `ollama serve`."
    else:
        text = f"No Ollama can be reached at {server} ({detail}): check provider.base_url, and that it runs there."
    error = ProviderUnavailable(text, provider=NAME)
    error.advice = text
    return error
