"""Writes the help texts ahead, so that showing them costs next to nothing: `python -m aar.transports.cli.write_help`.

To be run after every change of commands or flags.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from aar.transports.cli.arguments import ABOUT, COMMANDS, GROUPS, parser_of
from aar.transports.cli.help import FOLDER

__all__ = ["help_texts", "main"]

WIDTH = 96
_FOOTERS = {
    "": """\
`aar COMMAND --help` tells more about a command.
Start with: aar run "What is in this folder?"
""",
    "run": """\
Exit codes: 0 done, 1 error, 2 usage, 3 step limit, 4 timed out, 5 budget spent,
130 cancelled by Ctrl+C, 143 ended by SIGTERM.
Words with a leading @ name files that go along: @shot.png, @src/main.py.
Questions are asked at the terminal. Without one the answer is no, unless --yes says otherwise.
""",
    "chat": "While chatting: /model shows and switches models, /quit leaves.\n",
}


def help_texts() -> dict[str, str]:
    """The text of `aar` (under an empty name) and of each command, by its words."""
    texts = {"": _group("aar COMMAND", ABOUT, [words for words in [*COMMANDS, *GROUPS] if " " not in words])}
    for name, (_, about) in GROUPS.items():
        texts[name] = _group(
            f"aar {name} COMMAND", about, [words for words in COMMANDS if words.startswith(f"{name} ")]
        )
    for words, (_, about) in COMMANDS.items():
        texts[words] = _command(words, about, parser_of(words)._actions)
    return {words: text + ("\n" + _FOOTERS[words] if words in _FOOTERS else "") for words, text in texts.items()}


def _group(usage: str, about: str, commands: Iterable[str]) -> str:
    lines = {words: (COMMANDS.get(words) or GROUPS[words])[1] for words in commands}
    rows = [(words.split()[-1], text) for words, text in lines.items()]
    return f"Usage: {usage}\n\n{about}\n\nCommands:\n{_columns(rows)}"


def _command(words: str, about: str, actions: Iterable[argparse.Action]) -> str:
    places = [action for action in actions if not action.option_strings]
    flags = [action for action in actions if action.option_strings]
    usage = " ".join([f"aar {words}", *(_place(action) for action in places), *(["[FLAGS]"] if flags else [])])
    text = f"Usage: {usage}\n\n{about}\n"
    if places:
        text += f"\nArguments:\n{_columns((str(action.metavar), _meaning(action)) for action in places)}"
    if flags:
        text += f"\nFlags:\n{_columns((_names(action), _meaning(action)) for action in flags)}"
    return text


def _place(action: argparse.Action) -> str:
    return f"{action.metavar}..." if action.nargs == "+" else str(action.metavar)


def _names(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    return f"{names} {action.metavar}" if action.metavar else names


def _meaning(action: argparse.Action) -> str:
    parts = [str(action.help)]
    if action.choices:
        parts.append(f"One of {', '.join(action.choices)}.")
    if action.default and action.choices:
        parts.append(f"Default: {action.default}.")
    return " ".join(parts)


def _columns(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{line}\n" for line in _lines(list(rows)))


def _lines(rows: list[tuple[str, str]]) -> Iterator[str]:
    left = min(max(len(name) for name, _ in rows), 34)
    for name, meaning in rows:
        first, *others = textwrap.wrap(meaning, WIDTH - left - 4, break_on_hyphens=False)
        if len(name) > left:
            yield f"  {name}"
            others.insert(0, first)
        else:
            yield f"  {name:{left}}  {first}"
        yield from (f"  {'':{left}}  {line}" for line in others)


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
