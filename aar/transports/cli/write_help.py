"""Writes the help texts ahead, so that showing them costs next to nothing: `python -m aar.transports.cli.write_help`.

To be run after every change of commands or flags.
"""

from __future__ import annotations

import textwrap
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from aar.transports.cli.app import COMMANDS, GROUPS, build_app
from aar.transports.cli.help import FOLDER

__all__ = ["Columns", "help_texts", "main"]

WIDTH = 96
_ORDER = {word: place for place, words in enumerate([*COMMANDS, *GROUPS]) for word in words.split()}
_MANY = {"run": "TASK", "sessions delete": "SESSION_ID..."}  # what may be several words
_FOOTERS = {
    "": (
        "`aar COMMAND --help` tells more about a command.",
        'Start with: aar run "What is in this folder?"',
    ),
    "run": (
        "Exit codes: 0 done, 1 error, 2 usage, 3 step limit, 4 timed out, 5 budget spent, 130 cancelled by Ctrl+C,",
        "143 ended by SIGTERM. Words with a leading @ name files that go along: @shot.png, @src/main.py.",
        "Questions are asked at the terminal. Where there is none the answer is no, unless --yes says otherwise.",
    ),
    "chat": ("While chatting: /model shows and switches models, /quit leaves.",),
}


class Columns:
    """A help formatter: names on the left, what they mean on the right, no colours and no boxes."""

    def __call__(self, console: Console, options: Any, panel: Any) -> None:
        """One panel: a title and its entries. `--help` says nothing about itself."""
        rows = [(self._label(entry), self._meaning(entry)) for entry in panel.entries]
        rows = [row for row in rows if row[0] not in ("--help", "--version")]
        if not rows:
            return
        left = min(max(len(label) for label, _ in rows), 34)
        rows.sort(key=lambda row: _ORDER.get(row[0], 0))
        lines = [f"{'Flags' if panel.title == 'Parameters' else panel.title}:"]
        for label, meaning in rows:
            lines += self._row(label, meaning, left)
        self._print(console, "\n".join([*lines, ""]))

    def render_usage(self, console: Console, options: Any, usage: Any) -> None:
        """The first line."""
        self._print(console, f"Usage: {_text(usage)}\n")

    def render_description(self, console: Console, options: Any, description: Any) -> None:
        """What the command is for."""
        self._print(console, f"{_text(description)}\n")

    @staticmethod
    def _row(label: str, meaning: str, left: int) -> list[str]:
        wrapped = textwrap.wrap(meaning, WIDTH - left - 4, break_on_hyphens=False) or [""]
        if len(label) > left:
            return [f"  {label}", *(f"  {'':{left}}  {line}" for line in wrapped)]
        return [f"  {label:{left}}  {wrapped[0]}".rstrip(), *(f"  {'':{left}}  {line}" for line in wrapped[1:])]

    @staticmethod
    def _label(entry: Any) -> str:
        names = [*entry.positive_shorts, *entry.positive_names, *entry.negative_names]
        label = ", ".join(names) or str(entry.positional_label or "")
        value = entry.metavar if names and not entry.choices else None
        return f"{label} {value}" if value else label

    @staticmethod
    def _meaning(entry: Any) -> str:
        meaning = _text(entry.description)
        if entry.choices:
            meaning += f" One of {', '.join(entry.choices)}."
        return meaning + (f" Default: {entry.default}." if entry.default else "")

    @staticmethod
    def _print(console: Console, text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def _text(value: Any) -> str:
    """The words of something that Rich can draw."""
    sheet = StringIO()
    Console(file=sheet, width=10_000, color_system=None).print(value or "", highlight=False, markup=False)
    return sheet.getvalue().strip()


def help_texts() -> dict[str, str]:
    """The text of `aar` (under an empty name) and of each command, by its words."""
    app = build_app()
    app.help_formatter = Columns()
    return {words: _rendered(app, words) for words in ("", *GROUPS, *COMMANDS)}


def _rendered(app: Any, words: str) -> str:
    sheet = StringIO()
    app.help_print(words.split(), console=Console(file=sheet, width=WIDTH, color_system=None))
    body = "\n".join(line.rstrip() for line in sheet.getvalue().strip().splitlines())
    body = body.replace("[ARGS...]", _MANY.get(words, "[ARGS...]"))
    footer = "\n".join(_FOOTERS.get(words, ()))
    return f"{body}\n\n{footer}\n" if footer else f"{body}\n"


def main() -> None:
    """Write all texts anew."""
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.txt"):
        file.unlink()
    for words, text in help_texts().items():
        (folder / f"{(words or 'aar').replace(' ', '-')}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
