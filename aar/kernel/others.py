"""Code of others, such as tools and extensions: what it raises ends its own call, and nothing around it."""

from __future__ import annotations

import trio

__all__ = ["to_pass_on", "words_of"]

_FOR_ALL = (trio.Cancelled, KeyboardInterrupt, GeneratorExit)


def to_pass_on(error: BaseException) -> BaseException | None:
    """The part of an error that is meant for more than one call: a cancel, Ctrl+C.

    The rest ends at the wall around the call, also what is no `Exception`: `SystemExit`, `asyncio.CancelledError`.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(_FOR_ALL)
    return error if isinstance(error, _FOR_ALL) else None


def words_of(error: BaseException) -> str:
    """`Type: what it says`. Never raises, although errors of others may do so when they are asked."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return kind
    return f"{kind}: {text}" if text else kind
