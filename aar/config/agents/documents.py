"""Markdown with front matter: settings between two lines `---`, then text."""

from __future__ import annotations

from typing import Any, NamedTuple

from aar.errors import ConfigError

__all__ = ["Document", "MISSING", "parse_document"]

MISSING = "Agents, modes and commands need packages that are not there: pip install 'aar-agent[agents]'"

_OFTEN_FIRST = ("description", "inherit", "tools", "safety", "provider", "model", "max_steps")
LARGEST_FRONT = 64 * 1024  # characters


class Document(NamedTuple):
    """`lines` has the line of each key, by its path; `body_line` is where the text begins."""

    settings: dict[str, Any]
    lines: dict[tuple[str, ...], int]
    body: str
    body_line: int


def parse_document(text: str, source: str) -> Document:
    """A file without front matter is all text. Raises `ConfigError` with file and line.

    Settings that only look like text are a mistake, too: rules among them would not hold, and nobody would know.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        first = next((at for at, line in enumerate(lines) if line.strip()), 0)
        if lines[first].rstrip() == "---" or lines[first].partition(":")[0] in _OFTEN_FIRST:
            raise ConfigError(f"{source}:{first + 1}: settings stand between two lines `---`, and the first is line 1.")
        return Document({}, {}, text.strip(), 1)
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        raise ConfigError(f"{source}:1: the front matter has no end: close it with a line `---`.")
    front = "\n".join(lines[1:end])
    if len(front) > LARGEST_FRONT:
        raise ConfigError(f"{source}:1: the front matter is larger than {LARGEST_FRONT // 1024} KB.")
    try:
        from aar.config.agents.strict_yaml import parse_yaml
    except ImportError as error:
        raise ConfigError(MISSING) from error
    found = parse_yaml(front, source, 2)
    return Document(found.value, found.lines, *_trimmed(lines, end + 1))


def _trimmed(lines: list[str], start: int) -> tuple[str, int]:
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:]).rstrip(), start + 1
