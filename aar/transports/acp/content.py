"""The blocks of a prompt as the one text that the model gets."""

from __future__ import annotations

from typing import Any

from aar.transports.acp.params import refused

__all__ = ["prompt_text"]


def prompt_text(blocks: Any) -> str:
    """The blocks joined by newlines, in their order. Raises `RpcError` for what is no prompt."""
    if not isinstance(blocks, list) or not blocks:
        raise refused("prompt must be a list of content blocks")
    text = "\n".join(_block_text(block) for block in blocks)
    if not text.strip():
        raise refused("The prompt is empty.")
    return text


def _block_text(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    match kind:
        case "text":
            return _required(block, "text")
        case "resource_link":
            return f"[resource: {_required(block, 'uri')}]"
        case "resource":
            return _resource_text(block.get("resource"))
        case "image" | "audio":
            return f"[{kind}]"
    raise refused(f"Unknown kind of content block: {kind!r}")


def _resource_text(resource: Any) -> str:
    if not isinstance(resource, dict):
        raise refused("A resource block must have a resource")
    uri, text = _required(resource, "uri"), resource.get("text")
    return f"[{uri}]\n{text}" if isinstance(text, str) else f"[resource: {uri}]"


def _required(block: dict[str, Any], name: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise refused(f"A content block needs a text for {name}")
    return value
