"""Lines of JSON-RPC 2.0: bytes to messages and back. Imports next to nothing: the first answer waits for it."""

from __future__ import annotations

import json
from typing import Any

from aar.errors import TransportError

__all__ = [
    "CANCELLED",
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "NOT_FOUND",
    "NO_SUCH_METHOD",
    "PARSE_ERROR",
    "Message",
    "RpcError",
    "decoded",
    "encoded",
    "error_answer",
    "is_request_id",
]

LONGEST_ERROR = 4000  # characters; errors repeat what they are about
DEEPEST = 100  # levels of data that cannot be sent as it is

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_SUCH_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NOT_FOUND = -32002
CANCELLED = -32800

Message = dict[str, Any]


class RpcError(TransportError):
    """What a request is answered with instead of a result; the text is for the person at the other end.

    `request_id` is that of a message that is no valid request, as far as it has one.
    """

    request_id: Any = None

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def as_error(self) -> Message:
        text = str(self)
        text = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"
        error: Message = {"code": self.code, "message": text}
        return {**error, "data": {"details": text}} if self.code == INTERNAL else error


def decoded(line: bytes) -> Message:
    """The message of one line. Raises `RpcError` for what is no JSON, or no JSON-RPC message."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"This line is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise RpcError(INVALID_REQUEST, "A message is one JSON object; there are no batches.")
    return found


def is_request_id(value: Any) -> bool:
    """Texts, numbers and null may name a request."""
    if isinstance(value, float):
        return value - value == 0  # 1e999 is read as a number without end, and could not be said again
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def encoded(message: Message) -> bytes:
    """One line. What JSON or UTF-8 cannot say (NaN, halves of surrogate pairs, endless depth) is replaced."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    except (ValueError, RecursionError):
        text = json.dumps(_sayable(message, DEEPEST), ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    return data + b"\n"


def error_answer(request_id: Any, error: RpcError) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.as_error()}


def _sayable(value: Any, depth: int) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _sayable(item, depth - 1) for key, item in value.items()} if depth else "…"
    if isinstance(value, list | tuple):
        return [_sayable(item, depth - 1) for item in value] if depth else "…"
    return value
