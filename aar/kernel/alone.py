"""At a wall, an error that is the only one of its group goes on alone: the caller should not need `except*`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import trio

from aar.errors import RestartLimit
from aar.groups import leaves

__all__ = ["OF_A_NURSERY", "errors_alone"]

OF_A_NURSERY = "Exceptions from Trio nursery"  # the message of the groups that Trio's nurseries raise


@contextmanager
def errors_alone() -> Iterator[None]:
    """Raise the one error inside a group instead of the group.

    A group of several errors stays one, and so does `RestartLimit`, which tells the story of a whole tree.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        found = [leaf for leaf in leaves(group) if not isinstance(leaf, trio.Cancelled)]
        if len(found) != 1 or isinstance(found[0], RestartLimit) or not _is_of_nurseries(group):
            raise
        _raise_as_it_is(found[0])


def _raise_as_it_is(error: BaseException) -> NoReturn:
    """Without the group as its context, and with the context that it had."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


def _is_of_nurseries(group: BaseExceptionGroup[BaseException]) -> bool:
    """A group that the program made itself means something to it, and stays."""
    return group.message == OF_A_NURSERY and all(
        _is_of_nurseries(error) for error in group.exceptions if isinstance(error, BaseExceptionGroup)
    )
