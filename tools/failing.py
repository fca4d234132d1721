"""How a tool says what went wrong: expected trouble is a text for the model, bugs stay hidden from it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

__all__ = ["ServiceError", "reason_of", "told"]


P = ParamSpec("P")
R = TypeVar("R")


class ServiceError(Exception):
    """A server elsewhere refused, failed or did not answer; its text is meant for the model."""


def reason_of(error: BaseException) -> str:
    """The first words in a chain of errors: those of a failed TLS handshake have none but the innermost."""
    found: BaseException | None = error
    while found is not None:
        if str(found):
            return str(found)
        found = found.__cause__ or found.__context__
    return type(error).__name__


def told(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """The same tool, with `ValueError` and `ServiceError` told to the client as they are."""
    # Importing it takes a second, and whoever sends one message from the command line serves nobody.
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(function)
    async def tool(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return await function(*arguments, **named)
        except (ValueError, ServiceError) as error:
            raise ToolError(str(error)) from error

    return tool
