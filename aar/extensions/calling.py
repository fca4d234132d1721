"""Calling code of others: in a thread when it is synchronous, within a time, and with an end that can be dealt with."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from aar.errors import ExtensionError
from aar.kernel.others import to_pass_on, words_of

__all__ = ["call", "call_within"]

logger = logging.getLogger(__name__)


async def call(function: Callable[..., Any], *arguments: Any, limiter: trio.CapacityLimiter, **named: Any) -> Any:
    """What `function` gives, awaited if need be.

    A synchronous one runs in a thread, which is abandoned when the caller is cancelled and counts in `limiter` until
    it really ends: it may wait or compute as it likes, and no session is held up. An asynchronous one runs on Trio and
    must not do so. Raises what it raises; what is no `Exception`, such as `SystemExit`, becomes an `ExtensionError`.
    """
    bound = partial(function, *arguments, **named)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        given = bound()
    else:
        given = await trio.to_thread.run_sync(_contained, bound, abandon_on_cancel=True, limiter=limiter)
    return await _awaited(given) if inspect.isawaitable(given) else given


async def _awaited(given: Awaitable[Any]) -> Any:
    """What is cancelled is cancelled and nothing else, whatever it raises on its way out."""
    try:
        return await given
    except Exception:
        raise
    except BaseException as error:
        passed_on = to_pass_on(error)
        if passed_on is None:
            raise _ended(error) from error
        if passed_on is not error:
            logger.info("an extension failed while it was cancelled", exc_info=error)
        raise passed_on from None


async def call_within(
    seconds: float,
    what: str,
    function: Callable[..., Any],
    *arguments: Any,
    limiter: trio.CapacityLimiter,
) -> Any:
    """The same with a time limit; whatever goes wrong is an `ExtensionError` that begins with `what`."""
    given: Any = None
    try:
        with trio.move_on_after(seconds) as limit:
            given = await call(function, *arguments, limiter=limiter)
    except Exception as error:  # a wall around the scope: what is cancelled may raise on its way out
        raise ExtensionError(f"{what}: {describe(error)}") from error
    if limit.cancelled_caught:
        raise ExtensionError(f"{what}: took longer than {seconds:g} s")
    return given


def describe(error: Exception) -> str:
    return str(error) or "ExtensionError" if isinstance(error, ExtensionError) else words_of(error)


def _contained(function: Callable[[], Any]) -> Any:
    """In a thread: what is meant to end the program ends an extension's call."""
    try:
        return function()
    except (Exception, trio.Cancelled):
        raise
    except BaseException as error:
        raise _ended(error) from error


def _ended(error: BaseException) -> ExtensionError:
    leaves = error.subgroup(SystemExit) if isinstance(error, BaseExceptionGroup) else None
    if leaves is not None or isinstance(error, SystemExit):
        return ExtensionError("it called sys.exit()")
    return ExtensionError(f"it raised {words_of(error)}")
