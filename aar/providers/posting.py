"""What providers have in common that post one request and get events or one JSON body for it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

import trio

from aar.errors import ProviderError
from aar.messages.provider import ProviderResponse, StreamDelta
from aar.providers.answering import AnsweringProvider
from aar.providers.bodies import read_body
from aar.providers.http import open_chunks
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


class PostingProvider(AnsweringProvider["httpx2.Response"]):
    """Answers are server-sent events or one JSON body. An adapter gives `_reading` and `_parsed` for them."""

    @abstractmethod
    def _reading(self) -> AnswerReading:
        """A reader for one streamed answer."""

    @abstractmethod
    def _parsed(self, answer: Any) -> ProviderResponse:
        """An answer that came in one piece. Raises `ProviderError`."""

    def _is_stream(self, answer: httpx2.Response) -> bool:
        return "json" not in (kind := answer.headers.get("content-type", "").lower()) and "html" not in kind

    async def _deltas(self, answer: httpx2.Response) -> AsyncGenerator[StreamDelta, None]:
        reading = self._reading()
        parser = SseParser()
        async with open_chunks(answer) as chunks:
            async for chunk in chunks:
                yield reading.read(parser.feed(chunk))
                if reading.finish or reading.is_over:
                    break
            for delta in await _read_trailer(reading, parser, chunks):
                yield delta
        for delta in reading.end():
            yield delta

    async def _whole(self, answer: httpx2.Response) -> ProviderResponse:
        return self._parsed(await self._json(answer))

    async def _json(self, answer: httpx2.Response) -> Any:
        return self._parsed_json(await read_body(answer))


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
