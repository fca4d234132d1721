"""Bodies of answers that are not streams: read to their end, and no further than is sane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from aar.errors import BadProviderReply
from aar.providers.http import open_chunks
from aar.providers.leftovers import ERROR_LIMIT, ERROR_TIMEOUT

if TYPE_CHECKING:
    import httpx2

__all__ = ["BODY_LIMIT", "ERROR_LIMIT", "drain", "error_text", "read_body"]

BODY_LIMIT = 64 * 1024 * 1024  # bytes of an answer that is not streamed
DRAIN_TIMEOUT = 0.05  # seconds to wait for the end of a body, so that the connection can be used again


async def read_body(response: httpx2.Response, limit: int = BODY_LIMIT) -> bytes:
    """The whole body. Raises `BadProviderReply` when it has more than `limit` bytes, and `httpx2.HTTPError`."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= limit and "content-encoding" not in response.headers:
        return await response.aread()  # no more can come than was announced
    body = bytearray()
    async with open_chunks(response) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                raise BadProviderReply(f"The answer has more than {limit:,} bytes")
    return bytes(body)


async def error_text(response: httpx2.Response) -> str:
    """The start of an error's body, or what came of it."""
    import httpx2

    if response.is_redirect:
        return f"redirected to {response.headers.get('location', 'nowhere')}: use that URL as base_url"
    body = bytearray()
    with suppress(httpx2.HTTPError), trio.move_on_after(ERROR_TIMEOUT):
        async with open_chunks(response) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > ERROR_LIMIT:
                    break
    return body[:ERROR_LIMIT].decode(errors="replace")


async def drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of an answer that is complete. It is not worth an error, nor a wait."""
    import httpx2

    with suppress(httpx2.HTTPError), trio.move_on_after(DRAIN_TIMEOUT):
        while await anext(chunks, b""):
            pass
