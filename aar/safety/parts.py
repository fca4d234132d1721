"""A compound command in parts, for approvals of some commands only: what must be covered, and by what."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aar.safety.launching import computes_names, launchers
from aar.safety.programs import TooInvolved
from aar.safety.shell_syntax import Redirection, SimpleCommand, parse

__all__ = ["Part", "parts_of", "split_compound"]

_DESCRIPTOR = re.compile(r"[0-9]+|-")


@dataclass(frozen=True)
class Part:
    """`text` is as written, `> file` for a redirection; `launchers` make its program start others."""

    text: str
    launchers: frozenset[str] = frozenset()

    def fits(self, pattern: str) -> bool:
        """Is it covered by `prefix*`, or by exactly this text? What starts other programs must stand in the pattern."""
        if not pattern.endswith("*"):
            return bool(self.text) and self.text == pattern
        prefix = pattern[:-1]
        return bool(self.text) and self.text.startswith(prefix) and self.launchers <= _launchers_of(prefix)


def parts_of(command: str) -> list[Part]:
    """Every command that the text runs, substitutions included, and every file that it opens for the shell.

    Raises `ValueError` when the text cannot be read for certain: quotes that are not closed, here-documents,
    constructs that shells read differently, names that are computed.
    """
    script = parse(command)
    if script.unusual or computes_names(script):
        raise ValueError("the command cannot be split for certain")
    return [part for pipeline in script.walk() for one in pipeline for part in _parts(one)]


def split_compound(command: str) -> list[str]:
    """The texts of `parts_of`."""
    return [part.text for part in parts_of(command)]


def _parts(command: SimpleCommand) -> list[Part]:
    try:
        parts = [Part(command.text, launchers(command))] if command.words else []
    except TooInvolved as error:
        raise ValueError(str(error)) from error
    opened = [each for each in command.redirections if _writes(each) or (not parts and each.operator == "<")]
    return parts + [Part(f"{each.operator} {each.target}") for each in opened]  # `$(< file)` reads it like `cat`


def _writes(redirection: Redirection) -> bool:
    to_descriptor = redirection.operator == ">&" and _DESCRIPTOR.fullmatch(redirection.target)
    return ">" in redirection.operator and redirection.target != "/dev/null" and not to_descriptor


def _launchers_of(prefix: str) -> frozenset[str]:
    try:
        pipelines = parse(prefix).pipelines
        return frozenset().union(*(launchers(one) for pipeline in pipelines for one in pipeline))
    except (ValueError, TooInvolved):
        return frozenset()
