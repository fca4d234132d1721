"""A run as server-sent events. It belongs to whoever reads it: when the reader leaves, the run is cancelled."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from quart.wrappers.response import ResponseBody

from aar.transports.acp_http.encoding import encoded
from aar.transports.runs.run import Run
from aar.transports.runs.runs import Runs

__all__ = ["RunStream"]


class RunStream(ResponseBody):
    """Begins the run when the answer does. One frame per event; it ends behind the last."""

    def __init__(self, runs: Runs, run: Run) -> None:
        self._runs = runs
        self._run = run
        self._next = 0
        self._pieces: deque[bytes] = deque()

    async def __aenter__(self) -> RunStream:
        self._runs.begin(self._run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run.cancel()

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            found = await self._run.event(self._next)
            if found is None:
                raise StopAsyncIteration
            event, self._next = found
            first, *more = await encoded(event)
            self._pieces.extend([b"data: " + first, *more])
            self._pieces[-1] += b"\n\n"
        return self._pieces.popleft()
