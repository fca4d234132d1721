"""What adapters over HTTP have in common, whatever form an answer has: asking, and errors that name the server."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from aar.errors import BadProviderReply, ProviderError
from aar.messages.provider import ProviderRequest, ProviderResponse, StreamDelta
from aar.providers.base import Assembly, Provider, replay
from aar.providers.bodies import ERROR_LIMIT
from aar.providers.failures import as_provider_error, describe_body, timed_out
from aar.providers.http import CONNECT_TIMEOUT, is_loopback
from aar.providers.secrets import Secrets

__all__ = ["AnsweringProvider"]

_log = logging.getLogger(__name__)

A = TypeVar("A")


class AnsweringProvider(Provider, Generic[A]):
    """An adapter sets `endpoint` and `_secrets` and gives `_answer`, and what it takes to read an answer."""

    endpoint: str  # the URL that is asked, as error messages show it
    _secrets: Secrets

    @abstractmethod
    def _answer(self, request: ProviderRequest, *, streaming: bool) -> AbstractAsyncContextManager[A]:
        """Post `request`; the block has an answer with status 200, its body unread. Raises `ProviderError`."""

    @abstractmethod
    def _is_stream(self, answer: A) -> bool:
        """Whether the answer comes piece by piece. Some servers cannot stream every request, or stream all of them."""

    @abstractmethod
    def _deltas(self, answer: A) -> AsyncGenerator[StreamDelta, None]:
        """What a stream says, as it comes. Raises `ProviderError`."""

    @abstractmethod
    async def _whole(self, answer: A) -> ProviderResponse:
        """An answer that came in one piece. Raises `ProviderError`."""

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        with self._own_errors():
            async with self._answer(request, streaming=False) as answer:
                if not self._is_stream(answer):
                    return await self._whole(answer)
                assembly = Assembly()
                async with aclosing(self._deltas(answer)) as deltas:
                    async for delta in deltas:
                        assembly.add(delta)
                return assembly.response()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        with self._own_errors():
            async with self._answer(request, streaming=True) as answer:
                if self._is_stream(answer):
                    async with aclosing(self._deltas(answer)) as deltas:
                        async for delta in deltas:
                            yield delta
                else:
                    for delta in replay(await self._whole(answer)):
                        yield delta

    @contextmanager
    def _own_errors(self) -> Generator[None, None, None]:
        """Errors leave this block as `ProviderError`, without a secret."""
        import httpx2

        try:
            yield
        except ProviderError as error:
            error.provider = self.name
            error.advice = self._secrets.hide(error.advice)
            self._secrets.hide_in(error)
            raise
        except httpx2.ConnectTimeout as error:
            raise timed_out(self.name, CONNECT_TIMEOUT, f"no connection to {self._server}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            found = self._not_reached(error)
            self._secrets.hide_in(found)
            raise found from error

    def _not_reached(self, error: Exception) -> ProviderError:
        """What an error of the connection stands for."""
        found = as_provider_error(error, self.name)
        found.args = (f"{found} ({self._server})",)
        return found

    def _parsed_json(self, body: bytes) -> Any:
        """Raises `BadProviderReply`."""
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            said = describe_body(body[:ERROR_LIMIT].decode(errors="replace"))
            hint = " (check provider.base_url)" if body.lstrip()[:1] == b"<" else ""
            raise BadProviderReply(f"{self._server} answered with something that is no JSON: {said}{hint}") from error

    def _warn_of_an_open_key(self, api_key: str) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme == "http" and api_key and not is_loopback(parts.hostname or ""):
            _log.warning("The key goes to %s unencrypted: use https://", self._server)

    @property
    def _server(self) -> str:
        """The endpoint as it may be shown: without a password or a query."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
