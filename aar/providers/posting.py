"""What providers have in common that post one request and get events or one JSON body for it."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import trio

from aar.errors import BadProviderReply, ProviderError
from aar.messages.provider import ProviderRequest, ProviderResponse, StreamDelta
from aar.providers.base import Assembly, Provider, replay
from aar.providers.bodies import ERROR_LIMIT, read_body
from aar.providers.failures import as_provider_error, describe_body, timed_out
from aar.providers.http import CONNECT_TIMEOUT, is_loopback, open_chunks
from aar.providers.secrets import Secrets
from aar.providers.sse import SseParser

if TYPE_CHECKING:
    import httpx2

__all__ = ["AnswerReading", "PostingProvider"]

_log = logging.getLogger(__name__)

TRAILER_TIMEOUT = 2.0  # seconds to wait for usage once the answer is finished
DRAIN_TIMEOUT = 0.05  # seconds to wait for the end of the body, so that the connection can be used again


class AnswerReading(Protocol):
    """Reads one streamed answer. `finish` is not empty once the answer is whole, `is_over` when nothing can follow."""

    finish: str
    is_over: bool

    def read(self, events: list[str]) -> StreamDelta:
        """What these events say; an empty delta when they say nothing. Raises `ProviderError`."""

    def end(self) -> list[StreamDelta]:
        """The last deltas. Raises `AnswerCut` when the answer is not finished."""


class PostingProvider(Provider):
    """An adapter over HTTP sets `endpoint` and `_secrets` and gives `_answer`, `_reading` and `_parsed`."""

    endpoint: str  # the URL that is posted to, as error messages show it
    _secrets: Secrets

    @abstractmethod
    def _answer(self, request: ProviderRequest, *, streaming: bool) -> AbstractAsyncContextManager[httpx2.Response]:
        """Post `request`; the block has an answer with status 200, its body unread. Raises `ProviderError`."""

    @abstractmethod
    def _reading(self) -> AnswerReading:
        """A reader for one streamed answer."""

    @abstractmethod
    def _parsed(self, answer: Any) -> ProviderResponse:
        """An answer that came in one piece. Raises `ProviderError`."""

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        with self._own_errors():
            async with self._answer(request, streaming=False) as response:
                if not _is_stream(response):
                    return await self._whole(response)
                assembly = Assembly()
                async with aclosing(self._deltas(response)) as deltas:
                    async for delta in deltas:
                        assembly.add(delta)
                return assembly.response()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        with self._own_errors():
            async with self._answer(request, streaming=True) as response:
                if _is_stream(response):
                    async with aclosing(self._deltas(response)) as deltas:
                        async for delta in deltas:
                            yield delta
                else:
                    # Some servers cannot stream every request and answer in one piece.
                    for delta in replay(await self._whole(response)):
                        yield delta

    @contextmanager
    def _own_errors(self) -> Generator[None, None, None]:
        import httpx2

        try:
            yield
        except ProviderError as error:
            error.provider = self.name
            self._secrets.hide_in(error)
            raise
        except httpx2.ConnectTimeout as error:
            raise timed_out(self.name, CONNECT_TIMEOUT, f"no connection to {self._server}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            found = as_provider_error(error, self.name)
            found.args = (f"{found} ({self._server})",)
            self._secrets.hide_in(found)
            raise found from error

    async def _deltas(self, response: httpx2.Response) -> AsyncGenerator[StreamDelta, None]:
        reading = self._reading()
        parser = SseParser()
        async with open_chunks(response) as chunks:
            async for chunk in chunks:
                yield reading.read(parser.feed(chunk))
                if reading.finish or reading.is_over:
                    break
            for delta in await _read_trailer(reading, parser, chunks):
                yield delta
        for delta in reading.end():
            yield delta

    async def _whole(self, response: httpx2.Response) -> ProviderResponse:
        return self._parsed(await self._json(response))

    async def _json(self, response: httpx2.Response) -> Any:
        body = await read_body(response)
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


async def _read_trailer(reading: AnswerReading, parser: SseParser, chunks: AsyncIterator[bytes]) -> list[StreamDelta]:
    """What may follow the end of the answer: usage, `[DONE]`, the end of the body. None of it is worth an error."""
    import httpx2

    deltas: list[StreamDelta] = []
    try:
        with trio.move_on_after(TRAILER_TIMEOUT):
            while not reading.is_over:
                chunk = await anext(chunks, b"")
                deltas.append(reading.read(parser.feed(chunk) if chunk else parser.finish()))
                if not chunk:
                    break
        with trio.move_on_after(DRAIN_TIMEOUT):
            while await anext(chunks, b""):
                pass
    except (httpx2.HTTPError, ProviderError):
        if not reading.finish and not reading.is_over:
            raise
    return [delta for delta in deltas if delta.text or delta.reasoning_delta]


def _is_stream(response: httpx2.Response) -> bool:
    return "json" not in (kind := response.headers.get("content-type", "").lower()) and "html" not in kind
