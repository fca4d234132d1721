"""Worker: one model call, with its retries and its limits on silence.

Fragments are merged here, where they are born: the first one of a step passes at once, later ones at most every
30 ms, so a fast model costs its readers no more than a slow one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import trio

from aar.errors import ProviderError, ProviderTimeout
from aar.kernel.alone import errors_alone
from aar.messages.events import Notice, StepRestarted, StreamChunk
from aar.messages.provider import ProviderRequest, ProviderResponse, StreamDelta
from aar.providers.base import Assembly, Provider, as_provider_error, ended, explain

__all__ = ["CallItem", "RetryPolicy", "provider_call"]

CLOSING_TIMEOUT = 2.0  # seconds for closing a stream whose answer is complete
MERGE_WINDOW = 0.03  # seconds between two chunks that readers see
READ_AHEAD = 64 * 1024  # characters that may wait for the reader before the connection is left alone
LONGEST_RETRY_AFTER = 60.0  # seconds; a server that wants more is given up, and the user told when to come back

CallItem = StreamChunk | StepRestarted | Notice | ProviderResponse

logger = logging.getLogger(__name__)


class RetryPolicy(NamedTuple):
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


@asynccontextmanager
async def provider_call(
    provider: Provider, request: ProviderRequest, policy: RetryPolicy, *, streaming: bool
) -> AsyncIterator[AsyncGenerator[CallItem, None]]:
    """Yields an iterator over chunks as they come, and last the whole `ProviderResponse`.

    The next item is produced when it is asked for. Iterating raises `ProviderError` when the call is given up;
    leaving the block ends it.
    """
    if not (streaming and provider.supports_streaming):
        async with aclosing(_Call(provider, request, policy, None).items()) as items:
            yield items
        return
    with errors_alone():
        async with trio.open_nursery() as nursery:
            call = _Call(provider, request, policy, nursery)
            async with aclosing(call.items()) as items:
                yield items
            if not call.is_complete:
                nursery.cancel_scope.cancel()


class _Call:
    """`nursery` is where a stream is read, beside the one who takes its chunks; without one nothing is streamed."""

    def __init__(
        self, provider: Provider, request: ProviderRequest, policy: RetryPolicy, nursery: trio.Nursery | None
    ) -> None:
        self._provider = provider
        self._request = request
        self._policy = policy
        self._nursery = nursery
        self.is_complete = False

    async def items(self) -> AsyncGenerator[CallItem, None]:
        attempt = 1
        while True:
            intake = _Intake()
            if self._nursery is not None:
                scope = trio.CancelScope()
                self._nursery.start_soon(self._pump, intake, scope)
                while await self._has_text(intake):
                    yield intake.take_text()
                if not intake.assembly.is_done:
                    scope.cancel()
                yield StreamChunk(finished=True)
            else:
                await self._ask_for_all(intake)
            if intake.failure is None:
                self.is_complete = True
                yield intake.response or intake.assembly.response()
                return
            delay = self._delay_after(intake.failure, attempt)
            why = ended(explain(intake.failure))
            text = f"{why} Trying again in {delay:.0f} s ({attempt + 1} of {self._policy.attempts})."
            yield Notice(kind="retry", text=text, data={"attempt": attempt, "delay": delay})
            with trio.move_on_after(delay):
                await self._policy.stopping.wait()
            if self._policy.stopping.is_set():
                raise intake.failure
            attempt += 1
            yield StepRestarted()

    def _delay_after(self, failure: ProviderError, attempt: int) -> float:
        """Seconds until the next attempt; raises the failure when there is none."""
        delay = self._policy.delay_after(failure, attempt)
        if delay is None:
            logger.info("giving up on %s after attempt %d: %s", self._provider.name, attempt, failure)
            logger.debug("the failure was", exc_info=failure)
            raise failure
        logger.info("attempt %d at %s failed, next in %.1f s: %s", attempt, self._provider.name, delay, failure)
        return delay

    async def _has_text(self, intake: _Intake) -> bool:
        """Wait until there is text to hand out (true), or nothing more will come (false)."""
        try:
            await intake.stirred_or_silent(self._provider.first_byte_timeout, self._provider.idle_timeout)
        except trio.TooSlowError:
            intake.failure = _silence(self._provider, intake)
        return intake.has_text

    async def _ask_for_all(self, intake: _Intake) -> None:
        """An answer in one piece needs no task of its own: there is nothing to hand out meanwhile."""
        limit = self._provider.answer_timeout
        with trio.move_on_after(float("inf") if limit is None else limit) as silence:
            try:
                intake.response = await self._provider.complete(self._request)
            except Exception as error:  # a wall, as below
                intake.failure = as_provider_error(error, self._provider.name)
        if silence.cancelled_caught:
            text = f"{self._provider.name} gave no answer within {limit:g} s"
            intake.failure = ProviderTimeout(text, provider=self._provider.name)

    async def _pump(self, intake: _Intake, scope: trio.CancelScope) -> None:
        with scope:
            try:
                async with aclosing(self._provider.stream(self._request)) as deltas:
                    async for delta in deltas:
                        intake.take(delta)
                        if delta.done:
                            intake.end()  # the answer is whole, whatever closing the stream still does
                            scope.deadline = trio.current_time() + CLOSING_TIMEOUT
                            break
                        await intake.room()
            except Exception as error:  # a wall: adapters and vendors' clients raise whatever they like
                if intake.assembly.is_done:
                    logger.info("closing a finished stream of %s failed", self._provider.name, exc_info=error)
                else:
                    intake.failure = intake.failure or as_provider_error(error, self._provider.name)
            finally:
                intake.end()


class _Intake:
    """Between the task that reads the wire and the one that hands out chunks."""

    def __init__(self) -> None:
        self.assembly = Assembly()
        self.response: ProviderResponse | None = None
        self.failure: ProviderError | None = None
        self.ended = trio.Event()
        self._heard_at = trio.current_time()
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._size = 0
        self._heard = trio.Event()
        self._stirred = trio.Event()
        self._drained = trio.Event()
        self._not_before = float("-inf")

    # --- the reading side ---

    def take(self, delta: StreamDelta) -> None:
        self._heard.set()
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
        self._heard.set()
        self._stirred.set()

    # --- the handing-out side ---

    @property
    def was_heard(self) -> bool:
        return self._heard.is_set()

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
                await (self._stirred if self.was_heard else self._heard).wait()  # the limit changes when it is heard
        if not self.ended.is_set():
            with trio.move_on_at(self._not_before):
                await self.ended.wait()


def _silence(provider: Provider, intake: _Intake) -> ProviderTimeout:
    if intake.was_heard:
        return ProviderTimeout(f"{provider.name} said nothing for {provider.idle_timeout:g} s", provider=provider.name)
    limit = provider.first_byte_timeout
    return ProviderTimeout(f"{provider.name} sent nothing within {limit:g} s", provider=provider.name)
