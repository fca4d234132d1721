"""What is not read of an answer: where reading stops, and how the rest is let go."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

import trio

__all__ = ["ERROR_LIMIT", "ERROR_TIMEOUT", "unwind"]

ERROR_LIMIT = 64 * 1024  # bytes of an error's body that are read
ERROR_TIMEOUT = 2.0  # seconds to wait for an error's body


async def unwind(chunks: AsyncGenerator[bytes, None]) -> None:
    """End a body that was not read to its end, and all generators below it."""
    import httpx2

    # One of httpx2's inner generators is not closed with the outer ones, and Trio complains of it. All of them
    # end when an exception comes from below, so the next read is one that is cancelled.
    with trio.CancelScope() as unwinding, suppress(httpx2.HTTPError, httpx2.StreamError):
        unwinding.cancel()
        async for _ in chunks:
            pass
