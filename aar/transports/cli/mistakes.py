"""What to say about a command line that cannot be understood: one line that names the word and the fix."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

__all__ = ["mistake"]

_LONG = ("--help", "--version")


def mistake(error: CycloptsError) -> str:
    """The line without the name of the program."""
    words = " ".join(["aar", *(error.command_chain or ())])
    return f"{_what(error, words)} See `{words} --help`."


def _what(error: CycloptsError, words: str) -> str:
    match error:
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"There is nothing to do with {word!r}."
        case UnknownCommandError(unused_tokens=[word, *_]):
            return _not_a_command(error, word)
        case UnknownOptionError() if (error.token.keyword or error.token.value) in ("-h", "-?"):
            return f"{error.token.keyword or error.token.value} is no flag here."
        case UnknownOptionError() if _letters_swapped(error):
            return (
                f"Unknown option: {error.token.keyword or error.token.value}. Did you mean {_letters_swapped(error)}?"
            )
        case MissingArgumentError():
            return _missing(error)
        case CoercionError() if error.token is not None and error.target_type is bool:
            return f"{error.token.keyword} takes no value: leave out {error.token.value!r}."
        case _:
            return str(error)


def _letters_swapped(error: UnknownOptionError) -> str:
    """The flag with the same letters: nearer than any that lacks one."""
    word = str(error.token.keyword or error.token.value)
    names = [name for argument in error.argument_collection or () for name in argument.names]
    return next((name for name in names if sorted(name) == sorted(word)), "")


def _not_a_command(error: CycloptsError, word: str) -> str:
    if not word.startswith("-"):
        return str(error)
    if word in ("-h", "-?", "-V") or _is_like(word, _LONG):
        return f"Unknown option: {word}. There are --help and --version."
    return "Flags come after the command, as in `aar run --yes`."


def _is_like(word: str, known: Sequence[str]) -> bool:
    import difflib

    return bool(difflib.get_close_matches(word, known, n=1, cutoff=0.7))


def _which(name: str, words: Sequence[str]) -> str:
    if words and words[0] in ("agents", "modes", "tasks"):
        return f"Which {words[0][:-1]}? Give its name: `aar {words[0]}` lists them."
    if name == "name" and words and words[0] == "sessions":
        return "Which name shall the session have?"
    return {
        "session": "Which session? Give its id: `aar sessions` lists them.",
        "name": "Which extension? Give its name: `aar extensions` lists them.",
    }.get(name, f"Which {name}?")


def _missing(error: MissingArgumentError) -> str:
    if error.argument is None:
        return str(error)
    name = error.keyword or error.argument.name
    if not name.startswith("-"):
        return _which(name.lower(), error.command_chain or ())
    return f"{name} needs a value: {name} {error.argument.parameter.metavar or 'VALUE'}."
