"""What a server lists, in our messages: bounded, and without characters that steer a terminal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from aar.messages.mcp import McpPrompt, McpResource, McpServer, McpTool

__all__ = ["ENTRIES", "Note", "PAGES", "TOOLS", "cleaned", "prompt_of", "resource_of", "tools_of"]

PAGES = 100  # of a list; one that never ends would be read for ever
ENTRIES = 5_000  # of a list, after which no further page is read
TOOLS = 512  # of one server: each is told to the model with every request
DESCRIPTION = 10_000  # characters
TOTAL = 1_000_000  # characters of all descriptions and schemas of one server

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Note = Callable[[object, str], None]
"""Is told the name of a tool and, as a clause, why it is left out."""

logger = logging.getLogger(__name__)


def _nobody(_: object, __: str) -> None:
    """Whoever wants to know reads the log."""


def tools_of(server: McpServer, found: Sequence[Any], note: Note = _nobody) -> tuple[McpTool, ...]:
    """The tools that can be used, the first of each name. What is left out is logged, and noted one by one."""
    tools: dict[str, McpTool] = {}
    excess = ""
    room = TOTAL
    for one in found:
        if one.name in tools:
            continue
        if excess:
            note(one.name, f"there are more than {excess}")
            continue
        room -= min(len(one.description or ""), DESCRIPTION) + len(json.dumps(one.input_schema, default=str))
        if len(tools) == TOOLS or room < 0:
            excess = f"{TOOLS} tools" if room >= 0 else f"{TOTAL:,} characters about its tools"
            logger.info("MCP server %s has more than %s: the others are left out", server.name, excess)
            note(one.name, f"there are more than {excess}")
            continue
        tools[one.name] = McpTool(
            name=one.name,
            description=cleaned(one.description, DESCRIPTION),
            input_schema={"type": "object", **(one.input_schema or {"properties": {}})},
            is_read_only=bool(server.trust_annotations and one.annotations and one.annotations.read_only_hint),
        )
    return tuple(tools.values())


def resource_of(one: Any) -> McpResource:
    return McpResource(
        uri=str(one.uri),
        name=cleaned(one.name, 500),
        description=cleaned(one.description, DESCRIPTION),
        mime_type=cleaned(one.mime_type, 500),
    )


def prompt_of(one: Any) -> McpPrompt:
    arguments = one.arguments or []
    return McpPrompt(
        name=one.name,
        description=cleaned(one.description, DESCRIPTION),
        arguments=tuple(argument.name for argument in arguments),
        required=tuple(argument.name for argument in arguments if argument.required),
    )


def cleaned(text: str | None, limit: int) -> str:
    """Without characters that steer a terminal, and not longer than `limit`."""
    kept = _STEERING.sub(" ", text or "")
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"
