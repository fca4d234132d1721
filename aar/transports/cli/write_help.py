"""Writes the help texts ahead, so that showing them costs next to nothing: `python -m aar.transports.cli.write_help`.

To be run after every change of commands or flags.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from cyclopts import App, Argument

from aar.transports.cli.app import build_app
from aar.transports.cli.help import FOLDER
from aar.transports.program.flags import LogFlags

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
    "chat": "While chatting: /help shows the commands, /quit leaves.\n",
    "tui": "In it: /help shows the commands, /theme changes the colours, /quit leaves.\n",
}


def help_texts() -> dict[str, str]:
    """The text of `aar` (under an empty name) and of each command, by its words."""
    texts = dict(_texts(build_app(), ""))
    return {words: text + ("\n" + _FOOTERS[words] if words in _FOOTERS else "") for words, text in texts.items()}


def _texts(app: App, words: str) -> Iterator[tuple[str, str]]:
    usage = f"aar {words}".strip()
    if app.default_command is not None:
        yield words, _command(usage, app)
        return
    inner = app.resolved_commands()
    rows = _columns((name, command.help) for name, command in inner.items())
    yield words, f"Usage: {usage} COMMAND\n\n{app.help}\n\nCommands:\n{rows}"
    for name, command in inner.items():
        yield from _texts(command, f"{words} {name}".strip())


def _command(usage: str, app: App) -> str:
    arguments = [found for found in app.assemble_argument_collection(parse_docstring=True) if found.show]
    places = [argument for argument in arguments if argument.index is not None]
    flags = [argument for argument in arguments if argument.index is None]
    flags.sort(key=_is_about_logs)
    usage = " ".join([usage, *(_place(argument) for argument in places), *(["[FLAGS]"] if flags else [])])
    text = f"Usage: {usage}\n\n{app.help}\n"
    if places:
        text += f"\nArguments:\n{_columns((argument.name, _meaning(argument)) for argument in places)}"
    if flags:
        text += f"\nFlags:\n{_columns((_names(argument), _meaning(argument)) for argument in flags)}"
    return text


def _is_about_logs(argument: Argument) -> bool:
    """Every command has these, so they come last."""
    return argument.field_info.name in LogFlags.__dataclass_fields__


def _place(argument: Argument) -> str:
    return f"{argument.name}..." if argument.is_var_positional() else argument.name


def _names(argument: Argument) -> str:
    names = ", ".join(sorted(argument.names, key=lambda name: name.startswith("--")))
    return f"{names} {argument.parameter.metavar}" if argument.parameter.metavar else names


def _meaning(argument: Argument) -> str:
    parts = [str(argument.parameter.help)]
    choices = argument.get_choices()
    if choices:
        parts.append(f"One of {', '.join(choices)}.")
    if choices and argument.field_info.default:
        parts.append(f"Default: {argument.field_info.default}.")
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
