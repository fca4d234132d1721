"""A small reader of shell command lines: which simple commands a line would run, and in which pipelines.

It reads what is needed to judge a line, not to run it: quotes, substitutions, redirections, here-documents.
Nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["MAX_LENGTH", "Redirection", "Script", "SimpleCommand", "parse"]

_MAX_DEPTH = 20
MAX_LENGTH = 10_000
"""Longer texts are not read: reading takes time, and who writes so much to run one thing?"""

_REDIRECTION = re.compile(r"[0-9]*(?:&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>&|>\||>)")
_BREAKS = " \t\n;&|()<>"
# Anything else in braces may be computed, and to compute a text is to run what is in it: `${x:$_}`, `${x@P}`, `${!x}`.
_PLAIN_PARAMETER = re.compile(r"\$\{(?:#?\w+|#?[@*#?$!-])\}|\$\{\w+(?::?[-=+?]|##?|%%?|//?|\^\^?|,,?)")
_ANSI_C = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_C_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


@dataclass(frozen=True)
class Redirection:
    """`operator` is `>`, `>>`, `<`, `&>` and so on; `target` the word after it, without quotes."""

    operator: str
    target: str


@dataclass
class SimpleCommand:
    """`words` are without quotes; `text` is as written; `nested` runs in substitutions of this command."""

    words: list[str] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    nested: list[Script] = field(default_factory=list)
    text: str = ""


@dataclass
class Script:
    """Pipelines in order. `unusual` says that shells may disagree about how this text is read."""

    pipelines: list[list[SimpleCommand]] = field(default_factory=list)
    unusual: bool = False

    def walk(self) -> Iterator[list[SimpleCommand]]:
        """Every pipeline, those of substitutions included."""
        for pipeline in self.pipelines:
            yield pipeline
            for command in pipeline:
                for script in command.nested:
                    yield from script.walk()


def parse(text: str) -> Script:
    """Read a command line. Raises `ValueError` when a quote or substitution is not closed."""
    if len(text) > MAX_LENGTH:
        raise ValueError("the command is too long to be read")
    reader = _Reader(text)
    script = reader.script("")
    script.unusual = reader.unusual or "\r" in text  # a blank to us, a part of the word to most shells
    return script


class _Reader:
    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.depth = depth
        self._deeper(0)
        self.at = 0
        self.unusual = False
        self._documents: list[tuple[SimpleCommand, str, bool, bool]] = []

    # --- commands -------------------------------------------------------------------------------

    def script(self, end: str) -> Script:
        """Read up to `end` (`)` or nothing), which is consumed."""
        script, pipeline, command = Script(), list[SimpleCommand](), SimpleCommand()
        start = end_of_part = self.at
        groups = 0
        while True:
            self._skip_blanks()
            char = self.text[self.at : self.at + 1]
            if (char and char not in "\n;&|()") or self._starts_redirection():
                self._part(command)
                end_of_part = self.at
                continue
            if command.words or command.redirections:
                command.text = self.text[start:end_of_part].strip()
                pipeline.append(command)
            closes = char == ")" and end == ")" and groups == 0
            if not self._is_pipe() or closes or not char:
                script.pipelines += [pipeline] if pipeline else []
                pipeline = []
            if closes or not char:
                return self._finished(script, closes, end)
            groups += {"(": 1, ")": -1 if groups else 0}.get(char, 0)
            self._separator()
            command, start = SimpleCommand(), self.at

    def _finished(self, script: Script, closes: bool, end: str) -> Script:
        if end and not closes:
            raise ValueError("a substitution is not closed")
        self.at += 1 if closes else 0
        return script

    def _is_pipe(self) -> bool:
        rest = self.text[self.at : self.at + 2]
        # Brackets group commands: a pipe into or out of a group is one for the commands in it.
        return (rest.startswith("|") and rest != "||") or rest[:1] in ("(", ")")

    def _separator(self) -> None:
        char = self.text[self.at]
        self.at += 2 if self.text[self.at : self.at + 2] in ("&&", "||", "|&", ";;") else 1
        if self.text[self.at - 1 : self.at + 1] == "((":
            self.unusual = True
        if char == "\n":
            self._read_documents()

    def _skip_blanks(self) -> None:
        while True:
            if self.text.startswith("\\\n", self.at):
                self._continue_line()
            elif self.text[self.at : self.at + 1] in (" ", "\t", "\r"):
                self.at += 1
            elif self.text[self.at : self.at + 1] == "#":
                line_end = self.text.find("\n", self.at)
                self.at = len(self.text) if line_end < 0 else line_end
            else:
                return

    def _continue_line(self) -> None:
        """Shells drop these two before they look for operators, so `<` and `$` may become others here."""
        self.unusual = True
        self.at += 2

    def _starts_redirection(self) -> bool:
        return _REDIRECTION.match(self.text, self.at) is not None

    def _part(self, command: SimpleCommand) -> None:
        found = _REDIRECTION.match(self.text, self.at)
        if found is None or self.text.startswith(("<(", ">("), self.at):
            command.words.append(self._word(command))
            return
        operator = found.group().lstrip("0123456789")
        self.at = found.end()
        self._skip_blanks()
        quoted = self.text[self.at : self.at + 1] in ("'", '"', "\\")
        target = self._word(command)
        if operator in ("<<", "<<-"):
            self.unusual = True
            self._documents.append((command, target, operator == "<<-", quoted))
        else:
            command.redirections.append(Redirection(operator, target))

    def _read_documents(self) -> None:
        for command, delimiter, tabs, quoted in self._documents:
            lines: list[str] = []
            while self.at < len(self.text):
                line_end = self.text.find("\n", self.at)
                line_end = len(self.text) if line_end < 0 else line_end
                line, self.at = self.text[self.at : line_end], min(len(self.text), line_end + 1)
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                lines.append(line)
            command.documents.append("\n".join(lines))
            if not quoted:
                self._inner(command.documents[-1]).quoted(command, end="")
        self._documents.clear()

    # --- words ----------------------------------------------------------------------------------

    def _inner(self, text: str) -> _Reader:
        return _Reader(text, self.depth + 1)

    def _word(self, command: SimpleCommand) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text.startswith(("<(", ">("), self.at) and not parts:
                self.at += 1
                parts.append(self._substitution(command))
            elif char in _BREAKS:
                break
            elif char == "'":
                parts.append(self._until("'"))
            elif char == '"':
                self.at += 1
                parts.append(self.quoted(command, end='"'))
            else:
                parts.append(self._piece(command))
        return "".join(parts)

    def quoted(self, command: SimpleCommand, *, end: str) -> str:
        """Text in which only substitutions count, up to `end` (nothing: the end of the text)."""
        parts: list[str] = []
        while self.at < len(self.text):
            if end and self.text[self.at] == end:
                self.at += 1
                return "".join(parts)
            parts.append(self._piece(command, in_quotes=True))
        if end:
            raise ValueError(f"{end} is not closed")
        return "".join(parts)

    def _piece(self, command: SimpleCommand, *, in_quotes: bool = False) -> str:
        char, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        if char == "\\" and following == "\n":
            self._continue_line()
            return ""
        if char == "\\":
            self.at += 2
            return following if not in_quotes or following in '$`"\\' else char + following
        if char == "`":
            return self._backquoted(command)
        if char == "$" and following == "(":
            self.at += 1
            return "$" + self._substitution(command)
        if char == "$" and following == "{":
            return self._parameter(command)
        if char == "$" and following == "[":
            self.unusual = True  # arithmetic of old: it computes, as above
        if char == "$" and following in ("'", '"') and not in_quotes:
            self.unusual = True  # not every shell knows these
            self.at += 1
            return _ANSI_C.sub(_ansi_c_character, self._until("'", escapes=True)) if following == "'" else ""
        self.at += 1
        return char

    def _parameter(self, command: SimpleCommand) -> str:
        start = self.at
        self.at += 2
        self._deeper(1)
        self.quoted(command, end="}")
        self._deeper(-1)
        found = self.text[start : self.at]
        is_plain = _PLAIN_PARAMETER.match(found) and {"'", '"', "\\"}.isdisjoint(found)
        self.unusual = self.unusual or not is_plain
        return found

    def _deeper(self, step: int) -> None:
        self.depth += step
        if self.depth > _MAX_DEPTH:
            raise ValueError("substitutions are nested too deeply")

    def _substitution(self, command: SimpleCommand) -> str:
        start = self.at
        self.unusual = self.unusual or self.text.startswith("((", self.at)
        inner = self._inner(self.text)
        inner.at = self.at + 1
        command.nested.append(inner.script(")"))
        self.at, self.unusual = inner.at, self.unusual or inner.unusual
        return self.text[start : self.at]

    def _backquoted(self, command: SimpleCommand) -> str:
        inside = self._until("`", escapes=True)
        inner = self._inner(re.sub(r"\\([`$\\])", r"\1", inside))
        command.nested.append(inner.script(""))
        self.unusual = self.unusual or inner.unusual
        return f"`{inside}`"

    def _until(self, quote: str, *, escapes: bool = False) -> str:
        start = self.at + 1
        at = start
        while at < len(self.text) and self.text[at] != quote:
            at += 2 if escapes and self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise ValueError(f"{quote} is not closed")
        self.at = at + 1
        return self.text[start:at]


def _ansi_c_character(found: re.Match[str]) -> str:
    hexadecimal = found[1] or found[2] or found[3]
    if hexadecimal or found[4]:
        return chr(min(int(hexadecimal or found[4], 16 if hexadecimal else 8), 0x10FFFF))
    return _ANSI_C_LETTERS.get(found[5], found[5])
