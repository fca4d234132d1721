"""What a server says, as text of a bounded length. Nothing here needs the package `mcp`: blocks are told by shape."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["joined", "result_text", "text_of_block"]


def result_text(content: Sequence[Any], structured: Any, limit: int) -> str:
    """The blocks of a tool's result, one below the other; its structured form when that is all there is.

    At most one character longer than `limit`, so that whoever cuts it there sees that there was more.
    """
    text = joined((text_of_block(block) for block in content), limit)
    if not text and structured is not None and not content:
        text = json.dumps(structured, ensure_ascii=False, default=str)
    return text[: limit + 1]


def joined(texts: Iterable[str], limit: int) -> str:
    """Lines of text, no further than needed to see that there are more than `limit` characters."""
    return "\n".join(_within(texts, limit))[: limit + 1]


def _within(texts: Iterable[str], limit: int) -> Iterator[str]:
    room = limit + 1
    for text in texts:
        yield text[:room]
        room -= len(text) + 1
        if room < 0:
            return


def text_of_block(block: Any) -> str:
    """Text as it is, everything else as a line about it: what is no text would only fill the context."""
    match getattr(block, "type", ""):
        case "text":
            return str(block.text)
        case "image" | "audio" as kind:
            return f"[{kind}: {block.mime_type}]"
        case "resource":
            return _resource(block.resource)
        case "resource_link":
            return str(block.model_dump_json(by_alias=True, exclude_none=True))
        case _:
            return str(block)


def _resource(resource: Any) -> str:
    if hasattr(resource, "text"):
        return str(resource.text)
    if hasattr(resource, "blob"):
        return f"[blob resource: {resource.uri}]"
    return json.dumps(resource.model_dump(mode="json", by_alias=True, exclude_none=True), ensure_ascii=False)
