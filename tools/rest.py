"""Calls of a JSON API, each bounded in time and size."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

import httpx2
import trio

from tools.bodies import read_up_to
from tools.failing import ServiceError, reason_of

__all__ = ["Rest"]

MAX_ANSWER = 10_000_000  # bytes
MAX_TOLD = 500  # characters of an error's body


@dataclass(frozen=True)
class Rest:
    """An API at `base_url`. `name` is how errors call it; `verify`: whether or how its certificate is checked.

    A redirect is an error: following it would take the token of `headers` to another address.
    """

    name: str
    base_url: str
    timeout: float
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    verify: bool | SSLContext = True

    async def call(self, method: str, path: str, *, timeout: float | None = None, **request: Any) -> Any:
        """What the API answers, decoded; None for an empty answer. `params` and `json` as in httpx2.

        Raises:
            ServiceError: it cannot be reached, takes longer than `timeout` seconds, or answers no 2xx.
        """
        seconds = self.timeout if timeout is None else timeout
        try:
            with trio.fail_after(seconds):
                status, body = await self._exchange(method, path, seconds, request)
        except trio.TooSlowError:
            raise ServiceError(f"{self.name} did not answer within {seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ServiceError(f"{self.name} at {self.base_url} cannot be reached: {reason_of(error)}") from error
        text = body.decode("utf-8", errors="replace")
        if not 200 <= status < 300:
            raise ServiceError(f"{self.name} API error {status}: {text[:MAX_TOLD]}")
        return self._decoded(text)

    async def _exchange(self, method: str, path: str, seconds: float, request: dict[str, Any]) -> tuple[int, bytes]:
        url = self.base_url.rstrip("/") + path
        async with (
            httpx2.AsyncClient(verify=self.verify, headers=self.headers, timeout=seconds) as client,
            client.stream(method, url, **request) as response,
        ):
            body = await read_up_to(response, MAX_ANSWER)
            if len(body) > MAX_ANSWER:
                raise ServiceError(f"{self.name} answered with more than {MAX_ANSWER:,} bytes")
            return response.status_code, body

    def _decoded(self, text: str) -> Any:
        if not text.strip():
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise ServiceError(f"{self.name} answered with no JSON: {text[:MAX_TOLD]}") from error
