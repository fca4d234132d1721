"""Help and version without importing anything that takes time: the texts are written ahead, see `write_help.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from aar._version import __version__

__all__ = ["FOLDER", "prepared_text"]

FOLDER = os.path.join(os.path.dirname(__file__), "help_texts")


def prepared_text(arguments: Sequence[str]) -> str | None:
    """What `--help`, `help`, `--version`, `version` or no argument print; `None` when there is something to do."""
    words = list(arguments)
    if words in (["--version"], ["version"]):
        return f"aar {__version__}\n"
    if words[:1] == ["help"]:
        words = ["--help"] if words == ["help"] else [*words[1:], "--help"]
    if "--" in words:
        words = words[: words.index("--")]
    if words and "--help" not in words:
        return None
    return _text_of([word for word in words if word != "--help"])


def _text_of(words: Sequence[str]) -> str | None:
    """The text of the longest command that these words start with."""
    for count in (2, 1):
        if len(words) >= count and all(word.isalpha() for word in words[:count]):
            text = _read(" ".join(words[:count]))
            if text is not None:
                return text
    return None if words and not words[0].startswith("-") else _read("aar")


def _read(name: str) -> str | None:
    try:
        with open(os.path.join(FOLDER, name.replace(" ", "-") + ".txt"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
