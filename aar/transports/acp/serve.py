"""`aar acp`: the process that an editor starts. Its first answer does not wait for the rest of Aar.

Editors show nothing until `initialize` is answered, so that is done before anything heavy is imported, this program's
event loop included.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

from aar.transports.acp.frames import RpcError, decoded, encoded, is_request_id
from aar.transports.acp.handshake import Greeting, capabilities_of, initialize_result
from aar.transports.program.signals import leave_on_signals
from aar.transports.stdio.lines import LineBuffer

if TYPE_CHECKING:
    from pathlib import Path

    from aar.transports.program.flags import SettingFlags

__all__ = ["acp"]

MOST_GREETING = 1024 * 1024  # bytes; a first line that is longer is none, and left for the event loop to bound


def acp(*, flags: SettingFlags, mcp: Path | None = None) -> int:
    """Serve one client over standard input and output until it leaves. Answers with the exit code, 0.

    `mcp` is a file of MCP servers that every session gets, instead of the user's own.
    """
    leave_on_signals(code=0)
    try:
        greeting = _greet()
    except OSError:  # nobody is there to read the answer, or to say anything
        return 0
    from aar.transports.acp.process import serve_process

    return serve_process(flags, mcp, greeting)


def _greet() -> Greeting:
    """Answer the first line if that is a proper `initialize`; everything else is left for the event loop.

    These reads and the write wait in the kernel: nothing else is running yet.
    """
    buffer, size = LineBuffer(), 0
    while size < MOST_GREETING:
        data = _read()
        buffer.feed(data)
        size += len(data)
        if not data or b"\n" in data:
            break
    lines = buffer.lines()
    first = next(lines, None)
    if first is None:
        return Greeting(received=buffer.rest())
    rest = buffer.rest()
    try:
        message = decoded(first)
        is_proper = message.get("jsonrpc") == "2.0" and message.get("method") == "initialize" and "id" in message
        if not is_proper or not is_request_id(message["id"]) or not isinstance(message.get("params"), dict):
            return Greeting(received=first + b"\n" + rest)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": initialize_result(message["params"])}
    except RpcError:
        return Greeting(received=first + b"\n" + rest)
    _write(encoded(answer))
    return Greeting(capabilities_of(message["params"]), rest)


def _read() -> bytes:
    while True:
        try:
            return os.read(0, 65_536)
        except BlockingIOError:  # whoever started us shares this descriptor and made it so
            select.select([0], [], [])


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:
            select.select([], [1], [])
