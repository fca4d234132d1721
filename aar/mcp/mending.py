"""What a server answers, made fit for the package, which would give up a whole list or result for one wrong field.

Only what Aar uses is kept of a tool. Its `outputSchema` is not: the package would check results against it on the loop,
with patterns that the server chose.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from aar.mcp.listing import Note

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["mended", "mended_result"]

SCHEMA = 100_000  # characters as JSON

_BLOCKS = {"text": str, "image": str, "audio": str, "resource": dict, "resource_link": str}
_FILLED = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}

logger = logging.getLogger(__name__)


@asynccontextmanager
async def mended(server: str, transport: AbstractAsyncContextManager[Any], note: Note) -> AsyncIterator[Any]:
    """The streams of a transport, with every answer passed through `mended_result`."""
    async with transport as (incoming, outgoing):
        yield _Mended(incoming, server, note), outgoing


def mended_result(result: dict[str, Any], server: str, note: Note) -> dict[str, Any]:
    """A list of tools without those that are none, logged and noted; a tool's result with what it must have."""
    if isinstance(tools := result.get("tools"), list):
        return {**result, "tools": [_tool(one) for one in tools if _is_tool(one, server, note)]}
    if result.keys() & {"structuredContent", "isError"} and not isinstance(result.get("content"), list | str):
        return {**result, "content": []}
    if isinstance(blocks := result.get("content"), list):
        return {**result, "content": [_block(one) for one in blocks]}
    return result


def _is_tool(one: Any, server: str, note: Note) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        logger.info("MCP server %s lists a tool without a name, which is left out", server)
        note(None, "nobody could call it")
        return False
    problem = _problem_of(one.get("inputSchema"))
    if problem:
        logger.info("MCP server %s: the tool %.100r is left out, its schema %s", server, one["name"], problem)
        note(one["name"], f"its schema {problem}")
    return not problem


def _problem_of(schema: Any) -> str:
    """Why no model may be told of it: providers refuse a whole request for one schema that is none."""
    import jsonschema_rs  # few sessions have servers

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "is not one of an object"
    if len(json.dumps(schema)) > SCHEMA:
        return "is too long"
    try:
        is_one = jsonschema_rs.meta.is_valid(schema)
    except (jsonschema_rs.ReferencingError, ValueError, TypeError):
        is_one = False
    return "" if is_one else "is no JSON Schema"


def _tool(one: dict[str, Any]) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": one["name"], "inputSchema": {"type": "object", **one["inputSchema"]}}
    if isinstance(one.get("description"), str):
        tool["description"] = one["description"]
    hints = one.get("annotations")
    if isinstance(hints, dict) and hints.get("readOnlyHint") is True:
        tool["annotations"] = {"readOnlyHint": True}
    return tool


def _block(one: Any) -> Any:
    """A block as it is when it is one that the package knows, else its JSON as text."""
    kind = one.get("type") if isinstance(one, dict) else None
    if not isinstance(kind, str) or kind not in _BLOCKS or not isinstance(one.get(_FILLED[kind]), _BLOCKS[kind]):
        return {"type": "text", "text": json.dumps(one, ensure_ascii=False, default=str)}
    return one


class _Mended:
    """A stream of messages. What it does not say is as in the stream behind it."""

    def __init__(self, stream: Any, server: str, note: Note) -> None:
        self._stream = stream
        self._server = server
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> SessionMessage | Exception:
        return _passed(await self._stream.receive(), self._server, self._note)

    def __aiter__(self) -> _Mended:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _passed(await self._stream.__anext__(), self._server, self._note)

    async def __aenter__(self) -> _Mended:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


def _passed(item: SessionMessage | Exception, server: str, note: Note) -> SessionMessage | Exception:
    result = getattr(getattr(item, "message", None), "result", None)
    if isinstance(result, dict):
        item.message.result = mended_result(result, server, note)  # type: ignore[union-attr]
    return item
