"""Bodies of errors, read no further than is sane, whoever reads them.

Vendors' packages read the whole body of an error before they raise it, however long it is and however long it takes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

import httpx2
import trio

from aar.providers.leftovers import ERROR_LIMIT, ERROR_TIMEOUT, unwind

__all__ = ["ErrorBody"]


class ErrorBody(httpx2.AsyncByteStream):
    """The first bytes of a body: as many as an error is worth, and as many as come within 2 seconds."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        deadline, left = trio.current_time() + ERROR_TIMEOUT, ERROR_LIMIT
        chunks = cast("AsyncGenerator[bytes, None]", aiter(self._stream))
        async with aclosing(chunks):
            while left > 0:
                chunk = b""
                with trio.move_on_at(deadline):
                    chunk = await anext(chunks, b"")
                if not chunk:
                    return
                yield chunk[:left]
                left -= len(chunk)
            await unwind(chunks)

    async def aclose(self) -> None:
        await self._stream.aclose()
