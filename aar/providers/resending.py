"""Kept connections that the server has closed meanwhile: the request goes out once more, on a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import trio

from aar.providers.error_bodies import ErrorBody

__all__ = ["ResendingTransport"]

STALE_TIMEOUT = 1.0  # seconds within which a kept connection that the server had closed already fails

_CUT = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)


class ResendingTransport(httpx2.AsyncHTTPTransport):
    """Sends a request again when a connection from an earlier one turns out to be closed.

    Only then: on a new connection, or after a while, the server may have worked on the request already. Of an error
    it hands out the start of the body.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_new = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal is_new
            is_new = is_new or event == "connection.connect_tcp.started"

        request.extensions = {**request.extensions, "trace": trace}
        began = trio.current_time()
        try:
            response = await super().handle_async_request(request)
        except _CUT:
            if is_new or trio.current_time() - began > STALE_TIMEOUT:
                raise
            response = await super().handle_async_request(request)
        if response.is_error and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = ErrorBody(response.stream)
        return response
