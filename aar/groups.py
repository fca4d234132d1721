"""Exception groups, taken apart."""

from __future__ import annotations

from typing import overload

__all__ = ["alone", "leaves"]


def leaves(error: BaseException) -> list[BaseException]:
    """The errors inside a group, at any depth; an error alone is its own leaf."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]


@overload
def alone(error: Exception) -> Exception: ...
@overload
def alone(error: BaseException) -> BaseException: ...
def alone(error: BaseException) -> BaseException:
    """What nurseries have wrapped into groups of one. A group of several stays as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
