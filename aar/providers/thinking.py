"""Telling what a model thinks from what it says, for servers that send both as one text.

Two notations are known: `<think>...</think>`, and the channel form, `<|channel>thought`, a newline, ..., `<channel|>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ThinkingRouter",
    "extract_channel_tokens",
    "extract_think_tags",
    "extract_thinking",
    "reasoning_of",
    "reasoning_piece",
]

THINK_OPENER, THINK_CLOSER = "<think>", "</think>"
CHANNEL_OPENER, CHANNEL_CLOSER = "<|channel>thought", "<channel|>"

# A stream waits for the newline, since "<|channel>thoughtful" may still be text. Every marker has its only "<" at
# its start, which is what makes looking for an unfinished one at the end of a buffer a single search.
_CLOSER_OF = {THINK_OPENER: THINK_CLOSER, CHANNEL_OPENER + "\n": CHANNEL_CLOSER}


def extract_think_tags(text: str) -> tuple[str, list[str]]:
    """The text without its `<think>` blocks, and the blocks. An unclosed block reaches to the end."""
    return _cut_blocks(text, THINK_OPENER, THINK_CLOSER)


def extract_channel_tokens(text: str) -> tuple[str, list[str]]:
    """The text without its channel blocks, and the blocks. Here the newline after the opener may be missing."""
    return _cut_blocks(text, CHANNEL_OPENER, CHANNEL_CLOSER)


def extract_thinking(text: str) -> tuple[str, list[str]]:
    """Both notations: channel blocks come first in the list."""
    text, from_channel = extract_channel_tokens(text)
    text, from_tags = extract_think_tags(text)
    return text, from_channel + from_tags


def _cut_blocks(text: str, opener: str, closer: str) -> tuple[str, list[str]]:
    blocks: list[str] = []
    while (start := text.find(opener)) >= 0:
        inner = start + len(opener)
        end = text.find(closer, inner)
        block = text[inner:] if end < 0 else text[inner:end]
        rest = "" if end < 0 else text[end + len(closer) :]
        text = (text[:start] + rest).strip()
        if block := block.strip():
            blocks.append(block)
    return text, blocks


def reasoning_of(message: Any) -> str:
    """What a whole message says in its reasoning fields, stripped.

    An object is asked for `reasoning_details` first, a mapping for `reasoning_content` and `reasoning`.
    """
    if isinstance(message, Mapping):
        return _plain(message) or _details(message.get("reasoning_details"))
    fields = {name: getattr(message, name, None) for name in ("reasoning_content", "reasoning", "reasoning_details")}
    return _details(fields["reasoning_details"]) or _plain(fields)


def reasoning_piece(delta: Mapping[str, Any]) -> str:
    """What one piece of a stream adds, as it is: spaces at its edges belong to the text."""
    for name in ("reasoning_content", "reasoning"):
        value = delta.get(name)
        if value and isinstance(value, str):
            return value
    return "".join(_texts(delta.get("reasoning_details")))


def _plain(fields: Mapping[str, Any]) -> str:
    for name in ("reasoning_content", "reasoning"):
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _details(details: Any) -> str:
    return "\n".join(_texts(details)).strip()


def _texts(details: Any) -> list[str]:
    if not isinstance(details, list):
        return []
    texts = [_field(item, "summary") or _field(item, "text") for item in details]
    return [text for text in texts if text and isinstance(text, str)]


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


class ThinkingRouter:
    """Splits a streamed text into what is said and what is thought, however it is cut into pieces.

    A piece that may be the start of a marker is held back until it is decided.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closer = ""

    def feed(self, chunk: str) -> tuple[str, str]:
        """`(text, reasoning)` that this chunk decides."""
        if not self._held and not self._closer and "<" not in chunk:
            return chunk, ""
        buffer = self._held + chunk
        said: list[str] = []
        thought: list[str] = []
        while True:
            start, marker = self._next_marker(buffer)
            (thought if self._closer else said).append(buffer[:start])
            if not marker:
                break
            buffer = buffer[start + len(marker) :]
            self._closer = "" if self._closer else _CLOSER_OF[marker]
        self._held = buffer[start:]
        return "".join(said), "".join(thought)

    def flush(self) -> tuple[str, str]:
        """What is still held back, at the end of the stream. The router is as new afterwards."""
        held, inside = self._held, bool(self._closer)
        self._held = self._closer = ""
        return ("", held) if inside else (held, "")

    def _next_marker(self, buffer: str) -> tuple[int, str]:
        """Where the next marker starts, and the marker; without one, where the part to hold back starts."""
        markers = (self._closer,) if self._closer else tuple(_CLOSER_OF)
        found = [(at, marker) for marker in markers if (at := buffer.find(marker)) >= 0]
        if found:
            return min(found)
        last = buffer.rfind("<")
        if last >= 0 and any(marker.startswith(buffer[last:]) for marker in markers):
            return last, ""
        return len(buffer), ""
