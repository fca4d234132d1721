"""Worker: one model call, with its retries and its limits on silence.

Fragments are merged here, where they are born: the first one of a step passes at once, later ones at most every
30 ms, so a fast model costs its readers no more than a slow one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import trio

from aar.errors import ProviderError, ProviderTimeout
from aar.messages.events import Notice, StepRestarted, StreamChunk
from aar.messages.provider import ProviderRequest, ProviderResponse, StreamDelta
from aar.providers.base import Assembly, Provider, as_provider_error, explain

__all__ = ["CallItem", "RetryPolicy", "provider_call"]

MERGE_WINDOW = 0.03  # seconds between two chunks that readers see
READ_AHEAD = 64 * 1024  # characters that may wait for the reader before the connection is left alone
LONGEST_RETRY_AFTER = 60.0  # seconds; a server that wants more is given up, and the user told when to come back

CallItem = StreamChunk | StepRestarted | Notice | ProviderResponse

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts` in all, the first included. `stopping` cuts the wait before a retry short."""

    attempts: int
    stopping: trio.Event

    def delay_after(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds until the next attempt, or `None` to give up. `attempt` counts from 1."""
        if not error.retryable or attempt >= self.attempts:
            return None
        wanted = error.retry_after or 0.0
        if wanted > LONGEST_RETRY_AFTER:
            return None
        return max(2.0 ** (attempt - 1) * random.uniform(0.5, 1.5), wanted)


@trio.as_safe_channel
async def provider_call(
    provider: Provider, request: ProviderRequest, policy: RetryPolicy, *, streaming: bool
) -> AsyncGenerator[CallItem, None]:
    """Chunks as they come, and last the whole `ProviderResponse`. Raises `ProviderError` when it gives up."""
    attempt = 1
    while True:
        try:
            async with aclosing(_attempt(provider, request, streaming)) as items:
                async for item in items:
                    yield item
            return
        except ProviderError as error:
            delay = policy.delay_after(error, attempt)
            if delay is None:
                logger.warning("giving up on %s after attempt %d: %s", provider.name, attempt, error)
                logger.debug("the failure was", exc_info=error)
                raise
            logger.info("attempt %d at %s failed, next in %.1f s: %s", attempt, provider.name, delay, error)
            text = f"{explain(error)} Trying again in {delay:.0f} s ({attempt + 1} of {policy.attempts})."
            failed = error
        yield Notice(kind="retry", text=text, data={"attempt": attempt, "delay": delay})
        with trio.move_on_after(delay):
            await policy.stopping.wait()
        if policy.stopping.is_set():
            raise failed
        attempt += 1
        yield StepRestarted()


async def _attempt(
    provider: Provider, request: ProviderRequest, streaming: bool
) -> AsyncGenerator[StreamChunk | ProviderResponse, None]:
    intake = _Intake()
    is_streamed = streaming and provider.supports_streaming
    pump = _pump_stream if is_streamed else _pump_whole
    failure: ProviderError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, provider, request, intake)
        try:
            while True:
                await intake.stirred_or_silent(provider.first_byte_timeout, provider.idle_timeout)
                if intake.has_text:
                    yield intake.take_text()
                elif intake.ended.is_set():
                    break
        except trio.TooSlowError:
            failure = _silence(provider, intake)
        nursery.cancel_scope.cancel()
    if is_streamed:
        while intake.has_text:
            yield intake.take_text()
        yield StreamChunk(finished=True)
    failure = failure or intake.failure
    if failure is not None:
        raise failure
    yield intake.response or intake.assembly.response()


class _Intake:
    """Between the task that reads the wire and the one that hands out chunks."""

    def __init__(self) -> None:
        self.assembly = Assembly()
        self.response: ProviderResponse | None = None
        self.failure: ProviderError | None = None
        self.ended = trio.Event()
        self.was_heard = False
        self._heard_at = trio.current_time()
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._size = 0
        self._stirred = trio.Event()
        self._drained = trio.Event()
        self._not_before = float("-inf")

    # --- the reading side ---

    def take(self, delta: StreamDelta) -> None:
        self.was_heard = True
        self._heard_at = trio.current_time()
        self.assembly.add(delta)
        if delta.text or delta.reasoning_delta:
            if not self._size:
                self._stirred.set()
            self._size += len(delta.text) + len(delta.reasoning_delta)
            self._text.append(delta.text)
            self._thoughts.append(delta.reasoning_delta)

    async def room(self) -> None:
        while self._size > READ_AHEAD:
            self._drained = trio.Event()
            await self._drained.wait()
            self._heard_at = trio.current_time()

    def end(self) -> None:
        self.ended.set()
        self._stirred.set()

    # --- the handing-out side ---

    @property
    def has_text(self) -> bool:
        return self._size > 0

    def take_text(self) -> StreamChunk:
        chunk = StreamChunk(text="".join(self._text), reasoning_text="".join(self._thoughts))
        self._text, self._thoughts, self._size = [], [], 0
        if not self.ended.is_set():
            self._stirred = trio.Event()
        self._not_before = trio.current_time() + MERGE_WINDOW
        self._drained.set()
        return chunk

    async def stirred_or_silent(self, first_byte: float | None, idle: float | None) -> None:
        """Until there is text that may go out, or the end. Raises `TooSlowError` after too long a silence."""
        if self.has_text or self.ended.is_set():
            with trio.move_on_at(self._not_before):
                await self.ended.wait()
            return
        while not self._stirred.is_set():
            allowed = idle if self.was_heard else first_byte
            deadline = float("inf") if allowed is None else self._heard_at + allowed
            if trio.current_time() >= deadline:
                raise trio.TooSlowError
            with trio.move_on_at(deadline):
                await self._stirred.wait()
        if not self.ended.is_set():
            with trio.move_on_at(self._not_before):
                await self.ended.wait()


async def _pump_stream(provider: Provider, request: ProviderRequest, intake: _Intake) -> None:
    try:
        async with aclosing(provider.stream(request)) as deltas:
            async for delta in deltas:
                intake.take(delta)
                if delta.done:
                    break
                await intake.room()
    except Exception as error:  # a wall: adapters and vendors' clients raise whatever they like
        intake.failure = as_provider_error(error, provider.name)
    finally:
        intake.end()


async def _pump_whole(provider: Provider, request: ProviderRequest, intake: _Intake) -> None:
    try:
        intake.response = await provider.complete(request)
    except Exception as error:  # the same wall
        intake.failure = as_provider_error(error, provider.name)
    finally:
        intake.end()


def _silence(provider: Provider, intake: _Intake) -> ProviderTimeout:
    if intake.was_heard:
        return ProviderTimeout(f"{provider.name} said nothing for {provider.idle_timeout:g} s", provider=provider.name)
    limit = provider.first_byte_timeout
    return ProviderTimeout(f"{provider.name} sent nothing within {limit:g} s", provider=provider.name)
