"""Rules of the user's for single calls: `tool`, or `tool:text` with `*`, over commands and paths.

What denies or asks has to be found wherever it may hide; what cannot be read for certain is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from aar.messages.settings import SafetyConfig
from aar.safety.arguments import command_of, paths_of
from aar.safety.commands import read_command
from aar.safety.parts import parts_of
from aar.safety.programs import Budget, TooInvolved, programs_of
from aar.safety.shell_syntax import parse

if TYPE_CHECKING:
    from aar.safety.paths import PathGuard

__all__ = ["rule_for"]

_MAGIC = frozenset("*?[")
_COMPUTED = frozenset("$`")


def rule_for(
    tool_name: str, arguments: Mapping[str, Any], safety: SafetyConfig, guard: PathGuard
) -> tuple[Literal["deny", "ask"], str] | None:
    """What `deny` and `confirm` make of a call, and which rule. A denial is stronger."""
    call = _Call(tool_name, arguments, guard)
    denied = call.first_of(safety.deny)
    if denied is not None:
        return "deny", f"the rule '{denied}'"
    asked = call.first_of(safety.confirm)
    if asked is not None:
        return "ask", f"the rule '{asked}'"
    if call.is_unclear and call.texts_for([*safety.deny, *safety.confirm]):
        return "ask", "the command cannot be held against the rules for certain"
    return None


class _Call:
    def __init__(self, tool_name: str, arguments: Mapping[str, Any], guard: PathGuard) -> None:
        self._tool_name = tool_name
        self._command = command_of(arguments)
        self.is_unclear = False
        paths = paths_of(arguments)
        self._texts = [*self._parts(), *paths, *(guard.resolve(path) for path in paths)]
        if not self._texts:
            self._texts = [value for value in arguments.values() if isinstance(value, str)]

    def _parts(self) -> list[str]:
        if not self._command:
            return []
        try:
            self.is_unclear = _computes_programs(self._command)
            return [self._command, *(part.text for part in parts_of(self._command))]
        except (ValueError, TooInvolved):
            self.is_unclear = True
            return [self._command]

    def first_of(self, rules: Sequence[str]) -> str | None:
        return next((rule for rule in rules if self._fits(rule)), None)

    def texts_for(self, rules: Sequence[str]) -> list[str]:
        """The texts of those rules that are for this tool."""
        split = (rule.partition(":") for rule in rules)
        return [text for name, colon, text in split if colon and fnmatchcase(self._tool_name, name)]

    def _fits(self, rule: str) -> bool:
        name, colon, text = rule.partition(":")
        if not fnmatchcase(self._tool_name, name):
            return False
        return not colon or any(fnmatchcase(one, text) for one in self._texts) or self._runs(text.rstrip("*").rstrip())

    def _runs(self, program: str) -> bool:
        """Also behind `sudo`, in `sh -c` and the like."""
        if not self._command or not program or _MAGIC & set(program):
            return False
        return read_command(self._command, [program]).denied is not None


def _computes_programs(command: str) -> bool:
    """Is the name of a program known only when it runs, as in `$x push`?"""
    budget = Budget()
    commands = [one for pipeline in parse(command).walk() for one in pipeline]
    return any(words and _COMPUTED & set(words[0]) for one in commands for words in programs_of(one, budget))
