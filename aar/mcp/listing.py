"""What a server lists, in our messages: bounded, and without characters that steer a terminal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any

from aar.messages.mcp import McpPrompt, McpResource, McpServer, McpTool

__all__ = ["PAGES", "TOOLS", "prompt_of", "resource_of", "tools_of"]

PAGES = 100  # of a list; one that never ends would be read for ever
TOOLS = 512  # of one server: each is told to the model with every request
DESCRIPTION = 10_000  # characters
SCHEMA = 100_000  # characters as JSON

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

logger = logging.getLogger(__name__)


def tools_of(server: McpServer, found: Sequence[Any]) -> tuple[McpTool, ...]:
    """The tools that can be used, the first of each name. What is left out is logged."""
    tools: dict[str, McpTool] = {}
    for one in found:
        if one.name in tools:
            continue
        if len(tools) == TOOLS:
            logger.warning("MCP server %s has more than %d tools: the others are left out", server.name, TOOLS)
            break
        schema = one.input_schema or {"type": "object", "properties": {}}
        if len(json.dumps(schema, default=str)) > SCHEMA:
            logger.warning("MCP server %s: the tool %s is left out, its schema is too long", server.name, one.name)
            continue
        tools[one.name] = McpTool(
            name=one.name,
            description=_clean(one.description, DESCRIPTION),
            input_schema={"type": "object", **schema},
            is_read_only=bool(server.trust_annotations and one.annotations and one.annotations.read_only_hint),
        )
    return tuple(tools.values())


def resource_of(one: Any) -> McpResource:
    return McpResource(
        uri=str(one.uri),
        name=_clean(one.name, 500),
        description=_clean(one.description, DESCRIPTION),
        mime_type=_clean(one.mime_type, 500),
    )


def prompt_of(one: Any) -> McpPrompt:
    arguments = one.arguments or []
    return McpPrompt(
        name=one.name,
        description=_clean(one.description, DESCRIPTION),
        arguments=tuple(argument.name for argument in arguments),
        required=tuple(argument.name for argument in arguments if argument.required),
    )


def _clean(text: str | None, limit: int) -> str:
    cleaned = _STEERING.sub(" ", text or "")
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"
