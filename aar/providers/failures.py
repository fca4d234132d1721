"""From what goes wrong on the way to a model to one of our errors, and from there to a sentence for people."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from aar.errors import (
    AnswerCut,
    BadProviderReply,
    ContentRefused,
    ContextTooLong,
    MissingPackage,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)

__all__ = ["as_provider_error", "error_for_status", "explain", "is_retryable", "retry_after_seconds"]

BODY_LIMIT = 400  # characters of a server's answer that an error repeats

# Substrings of class names, tried in this order on the class and then on its bases. The vendors' own clients raise
# classes of their own; naming them here keeps their packages out of the process until they are used.
_TIMEOUTS = (
    "ReadTimeout",
    "WriteTimeout",
    "PoolTimeout",
    "ConnectTimeout",
    "APITimeout",
    "TimeoutError",
    "TooSlowError",
)
_CONNECTS = ("ConnectError", "ConnectionError", "ConnectionRefused", "ProxyError", "gaierror")
_CUTS = ("ProtocolError", "ReadError", "WriteError", "CloseError", "ConnectionReset", "ConnectionAborted", "BrokenPipe")
_DENIALS = ("AuthenticationError", "PermissionDenied")

_TOO_LONG = re.compile(
    r"exceed_context_size|context[_ ]length|maximum context|context window|context size"
    r"|prompt is too long|too many (?:input )?tokens|token limit|input is too long",
    re.IGNORECASE,
)
_BAD_HISTORY = re.compile(
    r"failed to parse (?:tool call|messages|input)|tool call arguments as json|json\.exception|template",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content[_ ](?:filter|policy|management)|responsible ?ai|safety system", re.IGNORECASE)


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ProviderError) and error.retryable


def as_provider_error(error: BaseException, provider: str) -> ProviderError:
    """`error` as one of ours, with `error` as its cause. One of ours is given back as it is, with its provider."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, ProviderError):
        error.provider = error.provider or provider
        return error
    mapped = _translate(error, provider)
    mapped.__cause__ = error
    return mapped


def explain(error: ProviderError) -> str:
    """One sentence for the person who waits for the answer."""
    match error:
        case ProviderTimeout():
            return "Request timed out — the provider took too long to respond. You can try again."
        case ProviderUnauthorized():
            return "Authentication failed — check your API key."
        case ProviderRateLimited():
            return "Rate limit exceeded — wait a moment, then try again."
        case AnswerCut():
            return f"Provider returned an unexpected response ({_class_name(error)}). You can try again."
        case ProviderUnavailable(status=None):
            return (
                "Could not connect to the provider — check that the server URL is correct and the service is running."
            )
        case MissingPackage():
            return _detail(error)
    if error.status is not None:
        return f"Provider returned an error: {_detail(error)}"
    return f"Provider error ({_class_name(error)}): {_detail(error)}"


def error_for_status(
    status: int, body: str | bytes, headers: Mapping[str, str] | None = None, provider: str = ""
) -> ProviderError:
    """The error that an HTTP answer other than 2xx stands for.

    Only 408, 429 and 5xx may be tried again, and of the last not those that complain about the history: they
    would come back for ever.
    """
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    detail = describe_body(text)
    message = f"{provider.capitalize() or 'The provider'} returned HTTP {status}: {detail}".rstrip(": ")
    wait = retry_after_seconds(headers or {})
    common: dict[str, Any] = {"provider": provider, "status": status}
    if status in (401, 403):
        return ProviderUnauthorized(message, **common)
    if status == 429:
        return ProviderRateLimited(message, retry_after=wait, **common)
    if status in (400, 413, 422, 500) and _TOO_LONG.search(text):
        return ContextTooLong(message, **common)
    if status == 400 and _REFUSED.search(text):
        return ContentRefused(message, **common)
    if status == 408:
        return ProviderTimeout(message, retry_after=wait, **common)
    if status >= 500:
        return ProviderUnavailable(message, retryable=not _BAD_HISTORY.search(text), retry_after=wait, **common)
    return ProviderError(message, **common)


def describe_body(body: str) -> str:
    """What a server said, as one short piece of text: its error message, the title of its page, or the start."""
    text = body.strip()
    if text[:1] == "<":
        title = re.search(r"<(?:title|h1)[^>]*>\s*(.*?)\s*</", text, re.IGNORECASE | re.DOTALL)
        page = " ".join(title.group(1).split()) if title else ""
        return f"a web page instead of an answer ({page})"[:BODY_LIMIT] if page else "a web page instead of an answer"
    return text[:BODY_LIMIT]


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long the server asks us to wait. Understands seconds, milliseconds and dates; `None` without a wish."""
    found = {name.lower(): value for name, value in headers.items()}
    milliseconds = _number(found.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = found.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    until = _timestamp(value)
    if until is None:
        return None
    # Measured by the server's own clock when it tells the time, since ours may be wrong.
    now = _timestamp(found.get("date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,9}(\.\d*)?", value.strip()):
        return None
    return float(value)


def _timestamp(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, IndexError, OverflowError):
        return None


def _translate(error: BaseException, provider: str) -> ProviderError:
    detail = str(error).strip() or type(error).__name__
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return _from_sdk(error, status, detail, provider)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return BadProviderReply(f"The answer is not JSON: {detail}", provider=provider)
    names = [base.__name__ for base in type(error).__mro__]
    for parts, kind in (
        (_TIMEOUTS, ProviderTimeout),
        (_CUTS, AnswerCut),
        (_CONNECTS, ProviderUnavailable),
        (_DENIALS, ProviderUnauthorized),
        (("RateLimit",), ProviderRateLimited),
        (("TransportError", "NetworkError", "OSError"), ProviderUnavailable),
    ):
        if any(part in name for name in names for part in parts):
            return kind(detail, provider=provider)
    return ProviderError(detail, provider=provider)


def _from_sdk(error: BaseException, status: int, detail: str, provider: str) -> ProviderError:
    response = getattr(error, "response", None)
    mapped = error_for_status(status, detail, getattr(response, "headers", None), provider)
    mapped.args = (detail,)
    return mapped


def _class_name(error: ProviderError) -> str:
    return type(error.__cause__ or error).__name__


def _detail(error: ProviderError) -> str:
    return str(error).strip() or type(error).__name__
