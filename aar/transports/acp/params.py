"""What the parameters of a request must be. Each function raises `RpcError`, which names the parameter."""

from __future__ import annotations

import os
from typing import Any

import trio

from aar.transports.acp.frames import INVALID_PARAMS, RpcError

__all__ = ["entries_of", "folder_of", "optional_text", "refused", "text_of"]

LOOKING_TIMEOUT = 5.0  # seconds

Params = dict[str, Any]


def refused(text: str) -> RpcError:
    """The error for parameters that make no sense."""
    return RpcError(INVALID_PARAMS, text)


def text_of(params: Params, name: str) -> str:
    """A text that must be there."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise refused(f"{name} must be a text")
    return value


def optional_text(params: Params, name: str) -> str | None:
    value = params.get(name)
    if value is not None and not isinstance(value, str):
        raise refused(f"{name} must be a text")
    return value


async def folder_of(params: Params, threads: trio.CapacityLimiter) -> str:
    """The folder that a session works in: absolute, and there. A disk that does not answer has no folders."""
    cwd = text_of(params, "cwd")
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise refused(f"cwd must be an absolute path, not {cwd!r}")
    with trio.move_on_after(LOOKING_TIMEOUT):
        if await trio.to_thread.run_sync(os.path.isdir, cwd, abandon_on_cancel=True, limiter=threads):
            return cwd
        raise refused(f"cwd: there is no folder {cwd}")
    raise refused(f"cwd: {cwd} is on a disk that did not answer within {LOOKING_TIMEOUT:g} s")


def entries_of(params: Params) -> list[Any]:
    """The MCP servers that a client wants, as it names them."""
    told = params.get("mcpServers") or []
    if not isinstance(told, list):
        raise refused("mcpServers must be a list")
    return told
