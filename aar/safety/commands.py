"""What a shell command would run: the deny list against accidents, and its form for the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename, normpath

from aar.safety.programs import SHELLS, Budget, TooInvolved, programs_of, shell_script
from aar.safety.shell_syntax import MAX_LENGTH, Script, SimpleCommand, parse

__all__ = ["CommandReading", "denied_command", "read_command", "redact"]

# What is escaped or not closed is found, too, and stays: from no quote is the rest of the text read twice.
_QUOTED = re.compile(r"\\.|'[^']*+(?:'|\Z)|\"(?:\\.|[^\"\\])*+(?:\"|\Z|\\)", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_ROUGH_BREAKS = re.compile(r"[\n;&|(){}`]+")
_LONGEST_LOOK = 1_000_000  # far more than the kernel lets one argument have
_LONG_OPTIONS = {"--recursive": "r", "--force": "f", "--exec": "e", "--clear": "c"}


# --- denied commands ----------------------------------------------------------------------------


def denied_command(command: str, denied: Sequence[str]) -> str | None:
    """The first pattern of `denied` that the command would really run, or `None`.

    A pattern names a program with the options and operands it must have (`rm -rf /`), a pipe (`curl|sh`) or a
    redirection (`> /dev/sda`). Words inside quotes and arguments of other programs are not hits. This guards
    against accidents; it cannot contain a command that hides what it does.
    """
    return read_command(command, denied).denied


@dataclass(frozen=True)
class CommandReading:
    """`denied` is as for `denied_command`. When not `is_whole`, only commands that stand there openly were seen."""

    denied: str | None
    is_whole: bool = True


def read_command(command: str, denied: Sequence[str]) -> CommandReading:
    """As `denied_command`, and whether the command was short and plain enough to be read. Takes a bounded time."""
    if len(command) > MAX_LENGTH:
        return CommandReading(_openly_denied(command, denied), is_whole=False)
    try:
        script = parse(command)
    except ValueError:
        script = _rough_script(command)
    try:
        seen = _Seen(command, script)
    except TooInvolved:
        return CommandReading(_openly_denied(command, denied), is_whole=False)
    return CommandReading(next((pattern for pattern in denied if seen.hits(pattern)), None))


def _openly_denied(command: str, denied: Sequence[str]) -> str | None:
    """The first pattern that stands in the text as written where a command may start."""
    text = command[:_LONGEST_LOOK]
    return next((pattern for pattern in denied if _open_form(pattern).search(text)), None)


@lru_cache(maxsize=256)
def _open_form(pattern: str) -> re.Pattern[str]:
    words = r"[ \t]+".join(re.escape(word) for word in pattern.split())
    end = "" if pattern.endswith(("=", "/sda")) else r"(?![^\s;&|()])"
    start = "" if pattern.startswith(">") else r"(?:^|[;&|(){}`])[ \t]*+(?:sudo[ \t]++)?"
    return re.compile(start + words + end, re.MULTILINE)


class _Seen:
    """What a command would run, sorted for being asked about many patterns."""

    def __init__(self, command: str, script: Script) -> None:
        self._squeezed = _squeezed(_QUOTED.sub(_unless_quoted, command))
        self._targets: list[str] = []
        self._pipelines: list[list[list[list[str]]]] = []
        self._programs: dict[str, list[list[str]]] = {}
        budget = Budget()
        for pipeline in script.walk():
            self._targets += [one.target for each in pipeline for one in each.redirections if ">" in one.operator]
            stages = [programs_of(each, budget) for each in pipeline]
            if len(stages) > 1:
                self._pipelines.append(stages)
            for words in (one for stage in stages for one in stage):
                self._programs.setdefault(_program(words), []).append(words)
                self._pipelines += _as_pipelines(words, budget)

    def hits(self, pattern: str) -> bool:
        wanted = _read_pattern(pattern)
        if wanted is None:
            return _squeezed(pattern) in self._squeezed
        stages, target = wanted
        if target:
            return any(_operand(one).startswith(target) for one in self._targets)
        if len(stages) > 1:
            return any(_pipes(stages, pipeline) for pipeline in self._pipelines)
        return any(_runs(stages[0], words) for words in self._programs.get(stages[0][0], ()))


def _as_pipelines(words: list[str], budget: Budget) -> list[list[list[list[str]]]]:
    """`sh -c "$(curl x)"`, `sh <(curl x)` and their like as what they amount to: `curl x | sh`."""
    text = _output_run_by(words)
    try:
        pipelines = parse(text).pipelines if text else []
    except ValueError:
        return []
    return [[*(programs_of(stage, budget) for stage in pipeline), [["sh"]]] for pipeline in pipelines]


def _output_run_by(words: list[str]) -> str:
    """The command whose output this one runs, or nothing."""
    program, arguments = basename(words[0]), words[1:]
    text = ""
    if program in ("eval", *SHELLS):
        text = " ".join(arguments) if program == "eval" else shell_script(arguments)
    if text:
        found = re.fullmatch(r"\s*(?:\$\((.*)\)|`(.*)`)\s*", text, re.DOTALL)
    elif program in ("source", ".", *SHELLS):
        file = next((word for word in arguments if not word.startswith("-")), "")
        found = re.fullmatch(r"\((.*)()\)", file, re.DOTALL)
    else:
        return ""
    return (found[1] or found[2] or "") if found else ""


def _unless_quoted(found: re.Match[str]) -> str:
    text = found.group()
    return "" if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _program(words: list[str]) -> str:
    """`mkfs` for `/sbin/mkfs.ext4`."""
    return basename(words[0]).partition(".")[0]


def _rough_script(command: str) -> Script:
    """Commands of a text that no shell could read as a whole; the lines before the mistake would still run."""
    pieces = dict.fromkeys(_ROUGH_BREAKS.split(command))
    return Script([[SimpleCommand(words=piece.split())] for piece in pieces if piece.strip()])


@lru_cache(maxsize=256)
def _read_pattern(pattern: str) -> tuple[list[list[str]], str] | None:
    """The stages of a pattern and the target of its redirection; `None` when it has to be compared as text."""
    try:
        pipelines = parse(pattern).pipelines
    except ValueError:
        return None
    if len(pipelines) != 1 or "(" in pattern:
        return None
    stages = pipelines[0]
    if len(stages) == 1 and not stages[0].words:
        return [], stages[0].redirections[0].target
    return [stage.words for stage in stages], ""


def _squeezed(text: str) -> str:
    return _BLANKS.sub("", text)


def _pipes(stages: list[list[str]], pipeline: list[list[list[str]]]) -> bool:
    at = 0
    for stage in pipeline:
        if at < len(stages) and any(_takes_part(stages[at], words) for words in stage):
            at += 1
    return at == len(stages)


def _takes_part(wanted: list[str], words: list[str]) -> bool:
    if wanted[0] not in SHELLS:
        return _runs(wanted, words)
    return basename(words[0]) in SHELLS and _reads_its_input(words[1:])


def _reads_its_input(arguments: list[str]) -> bool:
    """Would this shell run what comes through the pipe? Not when it has a script or `-c`."""
    options = [word for word in arguments if word.startswith("-") and len(word) > 1]
    letters = set("".join(word[1:] for word in options if not word.startswith("--")))
    return "s" in letters or ("c" not in letters and not any(word[:1] != "-" for word in arguments))


def _runs(wanted: list[str], words: list[str]) -> bool:
    if _program(words) != wanted[0]:
        return False
    letters = _letters(words[1:])
    operands = {_operand(word) for word in words[1:]}
    return all(_has(each, words[1:], letters, operands) for each in wanted[1:])


def _has(wanted: str, arguments: list[str], letters: frozenset[str], operands: set[str]) -> bool:
    if wanted.startswith("-"):
        return _letters([wanted]) <= letters
    if wanted.endswith("="):
        return any(word.startswith(wanted) for word in arguments)
    return _operand(wanted) in operands


def _letters(words: list[str]) -> frozenset[str]:
    short = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    return frozenset(short.replace("R", "r")) | {_LONG_OPTIONS[word] for word in words if word in _LONG_OPTIONS}


def _operand(word: str) -> str:
    """One spelling for what means the same: `//` and `/./` are `/`, `$HOME/` is `~`, `0777` is `777`."""
    home = re.sub(r"^\$(?:HOME\b|\{HOME\})", "~", word)
    if home in ("~/", "~/*", "~/.", "~/.*"):
        return "~"
    if home.startswith("/"):
        return normpath("/" + home.lstrip("/"))
    return home.lstrip("0") if home.isdigit() and home.strip("0") else home


# --- log ----------------------------------------------------------------------------------------

_GONE = "***REDACTED***"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"';&|]+)"
_SCHEME = r"(?:Basic|Bearer|Digest|Token|Negotiate|ApiKey)\s+"
_SECRET_NAME = r"(?=[\w-]*(?:api[_-]?key|secret|token|password|passwd|passphrase|bearer|auth))(?>[\w-]+)"

_HEADER = re.compile(rf"\b(Bearer\s+|authorization\s*[=:]\s*{_SCHEME}){_VALUE}", re.I)
_ADDRESS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")
_ASSIGNED = re.compile(rf"(?<![\w-])({_SECRET_NAME}[\"']?\s*[=:]\s*)(?!{_SCHEME}\*\*\*){_VALUE}", re.I)
_FLAG = re.compile(rf"(?<![\w-])(--?{_SECRET_NAME}\s+){_VALUE}", re.I)
_LONG = re.compile(r"[A-Za-z0-9_-]{32,}")


def redact(command: str) -> str:
    """The command for the audit log: secrets in assignments, headers, flags, addresses and long words are gone."""
    for pattern in (_HEADER, _ADDRESS, _ASSIGNED, _FLAG):
        command = pattern.sub(rf"\1{_GONE}", command)
    return _LONG.sub(_GONE, command)
