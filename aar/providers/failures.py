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
    MissingKey,
    MissingPackage,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from aar.groups import alone

__all__ = [
    "as_provider_error",
    "describe_body",
    "ended",
    "error_for_status",
    "error_in_answer",
    "explain",
    "is_retryable",
    "label",
    "retry_after_seconds",
    "timed_out",
]

BODY_LIMIT = 400  # characters of a server's answer that an error repeats
HEAD_LIMIT = 4000  # characters of a web page in which its title is looked for

# Substrings of class names, tried in this order on the class and then on its bases. The vendors' own clients raise
# classes of their own; naming them here keeps their packages out of the process until they are used.
_KINDS: tuple[tuple[tuple[str, ...], type[ProviderError], str], ...] = (
    (
        ("ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectTimeout", "APITimeout", "TimeoutError", "TooSlowError"),
        ProviderTimeout,
        "request timed out",
    ),
    (("LocalProtocolError",), ProviderError, "request cannot be sent"),  # our own mistake: it would come back
    (
        (
            "ProtocolError",
            "ReadError",
            "WriteError",
            "CloseError",
            "ConnectionReset",
            "ConnectionAborted",
            "BrokenPipe",
        ),
        AnswerCut,
        "network error",
    ),
    (
        ("ConnectError", "ConnectionError", "NetworkError", "TransportError", "OSError"),
        ProviderUnavailable,
        "network error",
    ),
    (("AuthenticationError", "PermissionDenied"), ProviderUnauthorized, ""),
    (("RateLimit",), ProviderRateLimited, ""),
)

_UNTRUSTED = (
    "The certificate of the server is not trusted — if it is your own, name the file with the certificate of its "
    "issuer in the environment variable SSL_CERT_FILE."
)

# Patterns are text until an error needs them: compiling all of them takes longer than importing this module.
_TOO_LONG = (
    r"(?i)exceed_context_size|context[_ ]length|maximum context|context window|context size"
    r"|context limit|request_too_large|prompt is too long|too many (?:input )?tokens|token limit|input is too long"
    r"|input token count"
)
# What comes back at every try: a history that the server cannot read, an account without credit.
_HOPELESS = (
    r"(?i)insufficient_quota|failed to parse (?:tool call|messages|input)|arguments as json|json\.exception|template"
)
_UNSUPPORTED = r"(?i)unsupported[_ ](?:parameter|value)|unrecognized request argument|extra inputs"
_WRONG_KEY = r"(?i)api[_ ]key[_ ](?:not[_ ]valid|invalid|expired)"  # Gemini says so with status 400
_REFUSED = r"(?i)content[_ ](?:filter|policy|management)|responsible ?ai|safety system"

_SHORTER = (
    "Set context_window, so that the oldest messages are left out, or go on with a model that has a longer window."
)

_STATUS_BY_WORD = (
    (r"(?i)rate.?limit|too many requests|insufficient_quota", 429),
    (r"(?i)authentication|unauthori[sz]ed|permission|invalid.{0,5}api.?key", 401),
    (r"(?i)invalid_request|bad_request", 400),
    (_TOO_LONG, 400),
)
_LABELS = {"generic": "Generic provider", "local": "The local model server", "openai": "OpenAI"}
_KEY_VARIABLES = {name: f"{name.upper()}_API_KEY" for name in ("anthropic", "gemini", "generic", "openai")}


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ProviderError) and error.retryable


def as_provider_error(error: BaseException, provider: str) -> ProviderError:
    """`error` as one of ours, with `error` as its cause. One of ours is given back as it is, with its provider."""
    error = alone(error)
    if isinstance(error, ProviderError):
        error.provider = error.provider or provider
        return error
    mapped = _translate(error, provider)
    mapped.__cause__ = error
    return mapped


def explain(error: ProviderError) -> str:
    """One sentence for the person who waits for the answer."""
    if error.advice:
        return error.advice
    match error:
        case ProviderTimeout():
            return "Request timed out — the provider took too long to respond. You can try again."
        case MissingPackage() | MissingKey():
            return _detail(error)
        case ProviderUnauthorized():
            return "Authentication failed — check your API key."
        case ProviderRateLimited():
            return "Rate limit exceeded — wait a moment, then try again."
        case AnswerCut() | BadProviderReply(retryable=True):
            return f"Provider returned an unexpected response ({_class_name(error)}). You can try again."
        case ProviderUnavailable(status=None):
            return (
                "Could not connect to the provider — check that the server URL is correct and the service is running."
            )
    if isinstance(error, ContextTooLong):
        return f"Provider returned an error: {_detail(error).rstrip('.')}. {_SHORTER}"
    if error.status is not None:
        return f"Provider returned an error: {_detail(error)}"
    return f"Provider error ({_class_name(error)}): {_detail(error)}"


def ended(text: str) -> str:
    """The text with a full stop, so that another sentence may follow."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def error_for_status(
    status: int, body: str | bytes, headers: Mapping[str, str] | None = None, provider: str = ""
) -> ProviderError:
    """The error that an HTTP answer other than 2xx stands for.

    Only 408, 429 and 5xx may be tried again, and of the last not those that complain about the history: they
    would come back for ever.
    """
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    kind, what = _kind_of_status(status, text)
    message = f"{label(provider)} {what.format(status=status)}: {describe_body(text)}".rstrip(": ")
    if kind is ProviderUnauthorized and (variable := _KEY_VARIABLES.get(provider)):
        message = f"{message} (check {variable} or provider.api_key)"
    error = kind(message, provider=provider, status=status)
    if error.retryable:
        error.retryable = not re.search(_HOPELESS, text)
        error.retry_after = retry_after_seconds(headers or {})
    return error


def _kind_of_status(status: int, text: str) -> tuple[type[ProviderError], str]:
    if status in (401, 403) or (status == 400 and re.search(_WRONG_KEY, text)):
        return ProviderUnauthorized, "refused the key (HTTP {status})"
    if status == 429:
        return ProviderRateLimited, "rate limit exceeded (HTTP {status})"
    if status in (400, 413, 422, 500) and re.search(_TOO_LONG, text):
        return ContextTooLong, "context limit exceeded (HTTP {status})"
    if status == 400 and re.search(_REFUSED, text):
        return ContentRefused, "refused the content (HTTP {status})"
    if status in (400, 422) and re.search(_UNSUPPORTED, text):
        return ProviderError, "rejected an unsupported parameter (HTTP {status})"
    if status == 408:
        return ProviderTimeout, "returned HTTP {status}"
    if status >= 500:
        return ProviderUnavailable, "returned HTTP {status}"
    return ProviderError, "returned HTTP {status}"


def error_in_answer(body: Mapping[str, Any], provider: str) -> ProviderError:
    """The error that a server reports inside an answer that began with success."""
    found = body.get("error") or body
    fields: Mapping[str, Any] = found if isinstance(found, Mapping) else {"message": str(found)}
    text = json.dumps(fields, default=str)
    error = error_for_status(_status_of(fields, text), text, provider=provider)
    error.args = (f"{label(provider)} reported an error: {describe_body(text)}",)
    return error


def _status_of(fields: Mapping[str, Any], text: str) -> int:
    code = fields.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    for pattern, status in _STATUS_BY_WORD:
        if re.search(pattern, text):
            return status
    return 500


def timed_out(provider: str, seconds: float, detail: str = "") -> ProviderTimeout:
    """The error for a server that was silent for `seconds`."""
    text = f"{label(provider)} request timed out after {seconds:g}s"
    return ProviderTimeout(f"{text}: {detail}" if detail else text, provider=provider)


def label(provider: str) -> str:
    """What error messages call a provider."""
    return _LABELS.get(provider) or provider.capitalize() or "The provider"


def describe_body(body: str) -> str:
    """What a server said, in at most 400 characters: its error message, the title of its page, or the start."""
    text = body.strip()
    if text[:1] == "<":
        title = re.search(r"<(?:title|h1)[^>]*>\s*(.*?)\s*</", text[:HEAD_LIMIT], re.IGNORECASE | re.DOTALL)
        page = " ".join(title.group(1).split()) if title else ""
        text = f"a web page instead of an answer ({page})" if page else "a web page instead of an answer"
    return (_message_in(text) or text)[:BODY_LIMIT]


def _message_in(text: str) -> str:
    try:
        body = json.loads(text) if text[:1] == "{" else None
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(body, str):
            break
        body = body.get(name, body) if isinstance(body, dict) else None
    return body.strip() if isinstance(body, str) else ""


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
        return BadProviderReply(f"{label(provider)} answered with something that is no JSON: {detail}")
    if "CERTIFICATE_VERIFY_FAILED" in detail:
        untrusted = ProviderUnavailable(f"{label(provider)} network error: {detail}", provider=provider)
        untrusted.advice, untrusted.retryable = _UNTRUSTED, False
        return untrusted
    names = [base.__name__ for base in type(error).__mro__]
    for parts, kind, what in _KINDS:
        if any(part in name for name in names for part in parts):
            return kind(f"{label(provider)} {what}: {detail}" if what else detail, provider=provider)
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
