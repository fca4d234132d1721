"""Opening a session for somebody who may leave meanwhile: whoever leaves leaves nothing behind that nobody owns."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from aar.client import SessionHandle
from aar.transports.acp.calls import Call

__all__ = ["opened_for"]

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Opening:
    done: trio.Event = field(default_factory=trio.Event)
    handle: SessionHandle | None = None
    error: Exception | None = None
    settled: trio.Event = field(default_factory=trio.Event)  # the caller has it for good, or has left
    let_go: Callable[[], None] | None = None  # of the caller's lane, when it has left


@asynccontextmanager
async def opened_for(
    call: Call,
    nursery: trio.Nursery,
    open_it: Callable[[], Awaitable[SessionHandle]],
    give_back: Callable[[SessionHandle], Awaitable[None]],
) -> AsyncIterator[SessionHandle]:
    """The session that `open_it` brings; the caller's own once the block has been left in the ordinary way.

    Opening goes on in `nursery`, so a call that is cancelled is answered at once. If the block is left otherwise, the
    session is given back as soon as it is there, and until then nothing else begins in the call's lane. Raises what
    `open_it` raises.
    """
    opening = _Opening()
    nursery.start_soon(_hold, opening, open_it, give_back)
    is_taken = False
    try:
        await opening.done.wait()
        if opening.error is not None:
            raise opening.error
        assert opening.handle is not None
        yield opening.handle
        is_taken = True
    finally:
        if not is_taken:
            opening.let_go = call.keep()
        opening.settled.set()


async def _hold(
    opening: _Opening,
    open_it: Callable[[], Awaitable[SessionHandle]],
    give_back: Callable[[SessionHandle], Awaitable[None]],
) -> None:
    try:
        opening.handle = await open_it()
    except Exception as error:  # a wall: it is the caller's, and if there is none it must not end the others
        opening.error = error
    opening.done.set()
    await opening.settled.wait()
    if opening.let_go is None:
        return
    try:
        if opening.handle is not None:
            await give_back(opening.handle)
    except Exception as error:  # the same wall
        logger.error("a session that nobody waits for could not be given back", exc_info=error)
    finally:
        opening.let_go()
