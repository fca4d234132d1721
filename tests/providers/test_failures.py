from __future__ import annotations

import socket
from pathlib import Path

import httpx2
import pytest
import trio

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
from aar.providers.base import as_provider_error, error_for_status, explain, is_retryable, timed_out
from aar.providers.failures import error_in_answer, retry_after_seconds

TIMED_OUT = "Request timed out — the provider took too long to respond. You can try again."
NO_CONNECTION = "Could not connect to the provider — check that the server URL is correct and the service is running."
CUT = "Provider returned an unexpected response ({}). You can try again."
NO_KEY = "Authentication failed — check your API key."
TOO_OFTEN = "Rate limit exceeded — wait a moment, then try again."


class APIError(Exception):
    """The classes of the vendors' clients, as far as their names go."""


class APIConnectionError(APIError): ...


class APITimeoutError(APIConnectionError): ...


class APIStatusError(APIError):
    def __init__(self, message: str, status_code: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response = httpx2.Response(status_code, headers=headers)


class AuthenticationError(APIError): ...


class PermissionDeniedError(APIError): ...


class RateLimitError(APIStatusError): ...


@pytest.mark.covers("LOOP-17")
@pytest.mark.parametrize(
    ("error", "text", "recoverable"),
    [
        (httpx2.ReadTimeout(""), TIMED_OUT, True),
        (httpx2.WriteTimeout(""), TIMED_OUT, True),
        (httpx2.PoolTimeout(""), TIMED_OUT, True),
        (httpx2.ConnectTimeout(""), TIMED_OUT, True),
        (APITimeoutError("slow"), TIMED_OUT, True),
        (TimeoutError(), TIMED_OUT, True),
        (trio.TooSlowError(), TIMED_OUT, True),
        (timed_out("generic", 60.0), TIMED_OUT, True),
        (httpx2.ConnectError("refused"), NO_CONNECTION, True),
        (httpx2.NetworkError("gone"), NO_CONNECTION, True),
        (ConnectionError("gone"), NO_CONNECTION, True),
        (ConnectionRefusedError(111, "refused"), NO_CONNECTION, True),
        (socket.gaierror(-2, "Name or service not known"), NO_CONNECTION, True),
        (APIConnectionError("gone"), NO_CONNECTION, True),
        (ProviderUnavailable("gone"), NO_CONNECTION, True),
        (httpx2.RemoteProtocolError("cut"), CUT.format("RemoteProtocolError"), True),
        (
            httpx2.LocalProtocolError("odd"),
            "Provider error (LocalProtocolError): Generic provider request cannot be sent: odd",
            False,
        ),
        (httpx2.ReadError("reset"), CUT.format("ReadError"), True),
        (ConnectionResetError(104, "reset"), CUT.format("ConnectionResetError"), True),
        (AnswerCut("cut"), CUT.format("AnswerCut"), True),
        (AuthenticationError("no"), NO_KEY, False),
        (PermissionDeniedError("no"), NO_KEY, False),
        (ProviderUnauthorized("no"), NO_KEY, False),
        (RateLimitError("slow down", 429), TOO_OFTEN, True),
        (ProviderRateLimited("slow down"), TOO_OFTEN, True),
        (APIStatusError("overloaded", 529), "Provider returned an error: overloaded", True),
        (APIStatusError("odd request", 400), "Provider returned an error: odd request", False),
        (ValueError("odd"), "Provider error (ValueError): odd", False),
        (ValueError(), "Provider error (ValueError): ValueError", False),
        (BadProviderReply("no choices"), "Provider error (BadProviderReply): no choices", False),
        (MissingPackage("pip install it"), "pip install it", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_failure_has_its_sentence_and_its_flag(error: Exception, text: str, recoverable: bool) -> None:
    found = as_provider_error(error, "generic")
    assert (explain(found), is_retryable(found), found.provider) == (text, recoverable, "generic")


def test_an_adapter_that_knows_better_advice_has_the_word() -> None:
    error = ProviderUnavailable("refused", provider="ollama")
    error.advice = "Start the server."
    assert explain(error) == "Start the server."


def test_the_failure_that_was_translated_stays_its_cause() -> None:
    error = httpx2.ConnectError("refused")
    assert as_provider_error(error, "generic").__cause__ is error


def test_one_of_ours_comes_back_as_it_is_also_out_of_a_group() -> None:
    ours = ProviderRateLimited("slow down", provider="openai")
    assert as_provider_error(ExceptionGroup("", [ExceptionGroup("", [ours])]), "generic") is ours
    assert ours.provider == "openai"


def test_what_is_not_ours_is_never_retryable() -> None:
    assert not is_retryable(ConnectionError())


@pytest.mark.covers("GEN-09", "AURA-54")
@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable", "text"),
    [
        (401, "no", ProviderUnauthorized, False, "refused the key (HTTP 401): no {hint}"),
        (403, "", ProviderUnauthorized, False, "refused the key (HTTP 403) {hint}"),
        (408, "", ProviderTimeout, True, "returned HTTP 408"),
        (
            429,
            '{"error":{"message":"slow down"}}',
            ProviderRateLimited,
            True,
            "rate limit exceeded (HTTP 429): slow down",
        ),
        (
            429,
            '{"error":{"message":"pay","code":"insufficient_quota"}}',
            ProviderRateLimited,
            False,
            "rate limit exceeded (HTTP 429): pay",
        ),
        (
            400,
            '{"error":{"code":"context_length_exceeded","message":"too long"}}',
            ContextTooLong,
            False,
            "context limit exceeded (HTTP 400): too long",
        ),
        (
            400,
            "the maximum context length is 4096",
            ContextTooLong,
            False,
            "context limit exceeded (HTTP 400): the maximum context length is 4096",
        ),
        (
            400,
            "unsupported parameter: x",
            ProviderError,
            False,
            "rejected an unsupported parameter (HTTP 400): unsupported parameter: x",
        ),
        (
            400,
            '{"error":{"code":"content_filter","message":"not this"}}',
            ContentRefused,
            False,
            "refused the content (HTTP 400): not this",
        ),
        (400, '{"detail":"odd"}', ProviderError, False, "returned HTTP 400: odd"),
        (404, '{"error":"no such model"}', ProviderError, False, "returned HTTP 404: no such model"),
        (500, "x" * 500, ProviderUnavailable, True, "returned HTTP 500: " + "x" * 400),
        (
            502,
            "<html><head><title>502 Bad\n Gateway</title></head></html>",
            ProviderUnavailable,
            True,
            "returned HTTP 502: a web page instead of an answer (502 Bad Gateway)",
        ),
        (503, "<!doctype html>", ProviderUnavailable, True, "returned HTTP 503: a web page instead of an answer"),
        (529, '{"broken', ProviderUnavailable, True, 'returned HTTP 529: {"broken'),
    ],
    ids=lambda value: str(value)[:24],
)
def test_each_status_has_its_error(
    status: int, body: str, kind: type[ProviderError], retryable: bool, text: str
) -> None:
    error = error_for_status(status, body, {}, "generic")
    text = "Generic provider " + text.replace("{hint}", "(check GENERIC_API_KEY or provider.api_key)")
    assert (type(error), str(error), error.retryable, error.status, error.provider) == (
        kind,
        text,
        retryable,
        status,
        "generic",
    )


@pytest.mark.covers("AURA-54")
@pytest.mark.parametrize(
    ("name", "status", "kind", "retryable"),
    [
        ("error-401.json", 401, ProviderUnauthorized, False),
        ("error-503-loading.json", 503, ProviderUnavailable, True),
        ("error-bad-body.json", 400, ProviderError, False),
        ("error-context-overflow-stream.json", 400, ContextTooLong, False),
        ("error-history-bad-arguments.json", 500, ProviderUnavailable, False),
        ("error-history-empty-arguments.json", 500, ProviderUnavailable, False),
        ("error-tool-grammar.json", 400, ProviderError, False),
        ("error-unknown-path.json", 404, ProviderError, False),
    ],
)
def test_recorded_errors_are_told_apart(
    name: str, status: int, kind: type[ProviderError], retryable: bool, recorded: Path
) -> None:
    error = error_for_status(status, (recorded / name).read_bytes(), {}, "generic")
    assert (type(error), error.retryable) == (kind, retryable)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_the_wait_that_a_server_asks_for_is_kept(status: int) -> None:
    assert error_for_status(status, "", {"Retry-After": "7"}, "generic").retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"retry-after": "3", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_a_wait_is_read_from_seconds_milliseconds_and_dates(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


@pytest.mark.parametrize(
    ("body", "kind", "retryable", "text"),
    [
        ({"error": {"message": "busy", "code": 503}}, ProviderUnavailable, True, "busy"),
        ({"error": {"message": "slow", "type": "rate_limit_error"}}, ProviderRateLimited, True, "slow"),
        ({"error": {"message": "no", "type": "authentication_error"}}, ProviderUnauthorized, False, "no"),
        ({"error": {"message": "odd", "type": "invalid_request_error"}}, ProviderError, False, "odd"),
        ({"error": {"message": "the context window is full"}}, ContextTooLong, False, "the context window is full"),
        ({"error": "it broke"}, ProviderUnavailable, True, "it broke"),
        ({"object": "error", "message": "odd", "code": "400"}, ProviderError, False, "odd"),
    ],
)
def test_an_error_inside_an_answer_is_told_apart_like_one_outside(
    body: dict[str, object], kind: type[ProviderError], retryable: bool, text: str
) -> None:
    error = error_in_answer(body, "generic")
    assert (type(error), error.retryable, str(error)) == (
        kind,
        retryable,
        f"Generic provider reported an error: {text}",
    )


def test_a_time_out_says_after_how_long() -> None:
    assert str(timed_out("generic", 60.0, "silence")) == "Generic provider request timed out after 60s: silence"


def test_a_conversation_that_is_too_long_comes_with_what_to_do_about_it() -> None:
    error = ContextTooLong("OpenAI returned HTTP 400: maximum context length is 8192 tokens.", status=400)
    assert explain(error) == (
        "Provider returned an error: OpenAI returned HTTP 400: maximum context length is 8192 tokens. "
        "Set context_window, so that the oldest messages are left out, or go on with a model that has a longer window."
    )
