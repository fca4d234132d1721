"""Files with what somebody wants typed again: a list of prompts and slash commands, in YAML or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aar.errors import InvalidMessage

__all__ = ["read_inputs"]

MAX_BYTES = 1_000_000
MAX_ITEMS = 1_000


def read_inputs(path: Path) -> list[str]:
    """The items of a file, in order; call it in a thread. Raises `InvalidMessage`, which names the file."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidMessage(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise InvalidMessage(f"{path}: is larger than {MAX_BYTES / 1e6:g} MB")
    items = _parsed(path, content)
    if not isinstance(items, list) or not items or len(items) > MAX_ITEMS:
        raise InvalidMessage(f"{path}: is no list of 1 to {MAX_ITEMS} texts")
    for number, item in enumerate(items, 1):
        if not isinstance(item, str) or not item.strip():
            raise InvalidMessage(f"{path}: item {number} is no text: {str(item)[:60]!r}")
    return [item.strip() for item in items]


def _parsed(path: Path, content: bytes) -> Any:
    if path.suffix.lower() == ".json":
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InvalidMessage(f"{path}: is no JSON: {error}") from error
    try:
        import yaml
    except ImportError as error:
        raise InvalidMessage('lists in YAML need PyYAML: pip install "aar-agent[agents]", or use JSON') from error
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidMessage(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
