"""What makes an everyday program start another one: the options, and the words inside its own language.

An approval that names `find *` was given to a search, and `find -exec rm` is not one. The list cannot be complete:
`make`, `python` or `npm` run whatever they are told by nature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from aar.safety.programs import programs_of
from aar.safety.shell_syntax import Script, SimpleCommand

__all__ = ["computes_names", "launchers"]

# Options that take a program: a `-x` also counts inside a bundle such as `-ax`, a `--long` one also cut short.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "tar": (
        "-I",
        "-F",
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
    ),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-D", "-F"),
    "ssh": ("-F",),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "rg": ("--pre", "--hostname-bin"),
    "man": ("-P", "-H", "--pager", "--html"),
    "zip": ("-TT", "--unzip-command"),
    "awk": ("-f", "-l", "-i", "--file", "--load", "--include"),
    "sed": ("-f", "--file"),
}
_SAME = {"fdfind": "fd", "gtar": "tar", "bsdtar": "tar", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed"}
_WHOLE_WORDS = frozenset(["find", "zip"])  # their options are words, never bundles of letters

_SSH_COMMAND = re.compile(r"(?:Proxy|Local|KnownHosts)Command|ProxyUseFdpass", re.IGNORECASE)
_AWK_COMMAND = re.compile(r"\bsystem\s*\(|(?<!\|)\|(?!\|)|@(?:load|include)")
_SED_COMMAND = re.compile(r"(?:^|[^\w \t])[ \t]*+[gpiImM0-9]*+[ \t]*+e(?:[\s;}]|$)")

_SED_OPTION = re.compile(r"-[nErsuz]*e|--[a-z-]+=?")

_GIT_GLOBAL = ("-c", "--config-env", "--exec-path")
_GIT_ANYWHERE = ("--upload-pack", "--receive-pack", "--exec", "--extcmd", "--template", "--sendmail-cmd")
_GIT_OF: dict[str, tuple[str, ...]] = {
    "clone": ("-c", "-u", "--config"),
    "grep": ("-O", "--open-files-in-pager"),
    "rebase": ("-x",),
    "difftool": ("-x",),
}
_GIT_WITH_VALUE = frozenset(["-C", "--git-dir", "--work-tree", "--namespace"])
_GIT_STARTERS = frozenset(["difftool", "mergetool", "filter-branch", "hook", "daemon", "instaweb"])
_GIT_READS_SETTINGS = re.compile(r"--(?:get\S*|list)|-l|get|list")


def launchers(command: SimpleCommand) -> frozenset[str]:
    """What in this command makes one of its programs start another: `find -exec`, `git -c` and the like."""
    return frozenset(
        f"{basename(words[0])} {found}" for words in programs_of(command) for found in _found(words[0], words[1:])
    )


def _found(program: str, arguments: Sequence[str]) -> list[str]:
    name = basename(program)
    name = _SAME.get(name, name)
    if name == "git":
        return _of_git(arguments)
    options = _OPTIONS.get(name, ())
    found = [one for one in options if any(_has(word, one, whole=name in _WHOLE_WORDS) for word in arguments)]
    if name == "tar" and arguments and not {"I", "F"}.isdisjoint(arguments[0]) and arguments[0].isalpha():
        found.append(arguments[0])  # `tar cIf`: the old way to write options
    inside = {"awk": _AWK_COMMAND, "sed": _SED_COMMAND, "ssh": _SSH_COMMAND, "scp": _SSH_COMMAND}.get(name)
    texts = [_SED_OPTION.sub("", word, count=1) if word[:1] == "-" else word for word in arguments]
    return found + [text for text in texts if inside is not None and inside.search(text)]


def _has(word: str, option: str, *, whole: bool) -> bool:
    if whole:
        return word == option or (option.startswith("--") and _is_long(word, option))
    if option.startswith("--"):
        return _is_long(word, option)
    return word[:1] == "-" and word[:2] != "--" and option[1] in word


def _is_long(word: str, option: str) -> bool:
    """Long options may be cut short, down to what no other starts with."""
    name = word.partition("=")[0]
    return len(name) > 2 and option.startswith(name)


def _of_git(arguments: Sequence[str]) -> list[str]:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in (*_GIT_WITH_VALUE, "-c") else 1
    before, command, rest = arguments[:at], arguments[at] if at < len(arguments) else "", arguments[at + 1 :]
    found = [word for word in before if word.startswith("-c") or any(_is_long(word, one) for one in _GIT_GLOBAL[1:])]
    options = (*_GIT_ANYWHERE, *_GIT_OF.get(command, ()))
    found += [one for one in options if any(_has(word, one, whole=False) for word in rest)]
    if command in _GIT_STARTERS or (command == "bisect" and "run" in rest):
        found.append(command)
    if (command == "config" and not any(map(_GIT_READS_SETTINGS.fullmatch, rest))) or (
        command == "submodule" and "foreach" in rest
    ):
        found.append(command)
    return found + [word for word in rest if word.startswith("ext::")]


# --- names that are computed --------------------------------------------------------------------

# The shell's own commands that take the name of a variable run what stands in brackets after it: `a[$(command)]`.
_NAMING = frozenset(
    ["read", "readonly", "export", "unset", "declare", "typeset", "local", "let", "wait", "mapfile", "readarray"]
).union(["getopts", "test", "["])
_COMPUTED = re.compile(r"[$`]")


def computes_names(script: Script) -> bool:
    """Does a command of the shell itself get a name of a variable that might run something?"""
    return any(_computes(command.words) for pipeline in script.walk() for command in pipeline)


def _computes(words: Sequence[str]) -> bool:
    if len(words) < 2:
        return False
    if words[0] == "printf":
        return _COMPUTED.search(words[1]) is not None or words[1].startswith("-v")
    return words[0] in _NAMING and any(map(_COMPUTED.search, words[1:]))
