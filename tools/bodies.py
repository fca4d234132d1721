"""Reading the body of an HTTP answer no further than is wanted."""

from __future__ import annotations

from contextlib import suppress

import httpx2
import trio

__all__ = ["read_up_to"]


async def read_up_to(response: httpx2.Response, limit: int) -> bytes:
    """The decoded body; of a longer one at most `limit` + 1 bytes, and the connection is dropped."""
    body = bytearray()
    pieces = response.aiter_bytes()
    try:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                break
        return bytes(body[: limit + 1])
    finally:
        # An inner generator of httpx2 is not closed with the outer one, and Trio complains of it. All of them end when
        # an exception comes from below: so what is left is read in a scope that is cancelled already.
        with trio.CancelScope() as unwinding, suppress(httpx2.HTTPError, httpx2.StreamError):
            unwinding.cancel()
            if not response.is_closed:
                async for _ in pieces:
                    pass
        await pieces.aclose()
