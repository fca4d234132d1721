"""Which programs a simple command starts once `sudo`, `env`, `sh -c` and their like are looked through."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import basename

from aar.safety.shell_syntax import SimpleCommand, parse

__all__ = ["SHELLS", "Budget", "TooInvolved", "programs_of", "shell_script"]

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})

_KEYWORDS = frozenset(["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc", "function"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_MAX_DEPTH = 6

# Programs that start the program named by their operands, with the options that take a value.
_WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": frozenset(
        ["-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-U", "-R", "-D", "--user", "--group", "--host", "--chdir"]
    ),
    "doas": frozenset(["-u", "-C"]),
    "env": frozenset(["-u", "-C", "--unset", "--chdir"]),
    "nice": frozenset(["-n", "--adjustment"]),
    "ionice": frozenset(["-c", "-n", "--class", "--classdata"]),
    "timeout": frozenset(["-s", "-k", "--signal", "--kill-after"]),
    "time": frozenset(["-f", "-o"]),
    "exec": frozenset(["-a"]),
    "stdbuf": frozenset(["-i", "-o", "-e"]),
    "xargs": frozenset(["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter"]),
    "watch": frozenset(["-n", "--interval"]),
    "strace": frozenset(["-e", "-o", "-p", "-s"]),
    "chroot": frozenset(),
    "flock": frozenset(["-w", "-E", "--timeout"]),
    "pkexec": frozenset(["--user"]),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "unshare": frozenset(),
    "command": frozenset(),
    "builtin": frozenset(),
    "busybox": frozenset(),
    "toybox": frozenset(),
    "systemctl": frozenset(),
}
_FIRST_OPERANDS = {"chroot": 1, "flock": 1}  # that stand before the program
_WITH_SCRIPT = SHELLS | {"su", "runuser", "flock"}
_SPLITTING = re.compile(r"-[0iv]*S|--split-string=?")


class TooInvolved(Exception):
    """A command starts more than there is time to look through."""


@dataclass
class Budget:
    """How much of one command line is looked at: words of programs and characters of scripts inside it."""

    left: int = 60_000

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TooInvolved("the command starts too much to be looked through")


def programs_of(command: SimpleCommand, budget: Budget | None = None) -> list[list[str]]:
    """Program and arguments, each as a list of words, for everything this command is known to start.

    Raises `TooInvolved` when `budget`, which commands of one line share, is spent.
    """
    budget = budget or Budget()
    found = list(_started(command.words, 0, budget))
    if found and basename(found[-1][0]) in SHELLS:
        for document in command.documents:
            found += _scripted(document, 1, budget)
    return found


def _started(words: list[str], depth: int, budget: Budget) -> Iterator[list[str]]:
    words = _without_prefix(words)
    if not words or depth > _MAX_DEPTH:
        return
    budget.spend(len(words))
    program = basename(words[0])
    yield words
    if program in _WRAPPERS:
        inner = _operands(words[1:], _WRAPPERS[program], timed=program == "timeout")
        yield from _started(inner[_FIRST_OPERANDS.get(program, 0) :], depth + 1, budget)
    if program in _WITH_SCRIPT:
        yield from _scripted(shell_script(words[1:]), depth + 1, budget)
    elif program == "env":
        yield from _scripted(_split_string(words[1:]), depth + 1, budget)
    elif program in ("eval", "trap"):
        yield from _scripted(" ".join(words[1:] if program == "eval" else words[1:2]), depth + 1, budget)
    elif program == "find":
        for executed in _executed(words):
            yield from _started(executed, depth + 1, budget)


def _split_string(arguments: list[str]) -> str:
    """The text after `env -S`, which it takes apart like a shell would."""
    for at, word in enumerate(arguments):
        found = _SPLITTING.match(word)
        if found:
            return " ".join([word[found.end() :], *arguments[at + 1 :]])
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            break
    return ""


def _executed(words: list[str]) -> Iterator[list[str]]:
    """The commands after `-exec` and its like, each up to its `;` or `{} +`: none is a part of another."""
    start = 0
    for at, word in enumerate(words):
        if not start and word in ("-exec", "-execdir", "-ok", "-okdir"):
            start = at + 1
        elif start and (word == ";" or (word == "+" and words[at - 1] == "{}")):
            yield words[start:at]
            start = 0
    if start:
        yield words[start:]


def _without_prefix(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (words[at] in _KEYWORDS or _ASSIGNMENT.match(words[at])):
        at += 2 if words[at : at + 2] == ["time", "-p"] or words[at] == "function" else 1
    return words[at:]


def _operands(words: list[str], with_value: frozenset[str], *, timed: bool) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in with_value else 1
    at += 1 if words[at : at + 1] == ["--"] else 0
    at += 1 if timed and at < len(words) and _DURATION.fullmatch(words[at]) else 0
    return words[at:]


def shell_script(arguments: list[str]) -> str:
    """The text after `-c`, in whatever bundle of letters it stands."""
    for at, word in enumerate(arguments):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word):
            return next((text for text in arguments[at + 1 :] if not text.startswith("-")), "")
    return ""


def _scripted(text: str, depth: int, budget: Budget) -> Iterator[list[str]]:
    if not text or depth > _MAX_DEPTH:
        return
    budget.spend(len(text))
    try:
        script = parse(text)
    except ValueError:
        return
    for pipeline in script.walk():
        for command in pipeline:
            yield from _started(command.words, depth, budget)
