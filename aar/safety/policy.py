"""What a tool call may do: allowed, asked, or denied. A plain decision over settings and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aar.messages.settings import DENIED_COMMANDS, SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.arguments import command_of, excess_of, paths_of
from aar.safety.commands import read_command
from aar.safety.facts import ToolFacts
from aar.safety.paths import PathGuard, PathRule

__all__ = ["CommandRule", "PathRule", "ToolFacts", "Verdict", "decide"]

Action = Literal["allow", "ask", "deny"]

_CHANGES = frozenset({SideEffect.WRITE, SideEffect.EXECUTE})
_FOREIGN = frozenset({SideEffect.NETWORK, SideEffect.EXTERNAL})
_FILES = _CHANGES | _FOREIGN | {SideEffect.READ}


@dataclass(frozen=True)
class Verdict:
    """`reason` says why it is not simply allowed; it is shown to the person asked and to the model."""

    action: Action
    reason: str = ""


@dataclass(frozen=True)
class CommandRule:
    """Decides on commands that contain `pattern`, or match it when `is_regex`. The first such rule counts."""

    pattern: str
    decision: Action = "deny"
    is_regex: bool = False

    def __post_init__(self) -> None:
        if self.is_regex:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ValueError(f"command rule {self.pattern!r} is no regular expression: {error}") from error

    def applies(self, command: str) -> bool:
        return re.search(self.pattern, command) is not None if self.is_regex else self.pattern in command


def decide(
    tool: ToolFacts,
    arguments: Mapping[str, Any],
    safety: SafetyConfig,
    cwd: str,
    *,
    path_rules: Sequence[PathRule] = (),
    command_rules: Sequence[CommandRule] = (),
    sandbox_enforces: bool = False,
    denied_commands: Sequence[str] = DENIED_COMMANDS,
    guard: PathGuard | None = None,
) -> Verdict:
    """Judge one call. A denial is final; a question may be answered by a person or by a standing approval.

    The rules of the settings come in between: `deny` over `confirm` over `auto`, which answers questions beforehand.
    A foreign tool (network, external) counts as reading only when it is also marked `read`.
    `sandbox_enforces` says that the operating system holds commands inside the allowed paths. `guard` saves
    building one when the caller has it for the same folder, settings and rules.
    """
    effects = frozenset(tool.side_effects)
    guard = guard or PathGuard(cwd, safety, path_rules=path_rules)
    refused = (
        _read_only(effects, safety)
        or _excess(effects, arguments)
        or _paths(effects, arguments, guard)
        or _commands(effects, arguments, command_rules, denied_commands)
    )
    if safety.deny or safety.confirm:
        refused = _ruled(tool, arguments, safety, guard, refused)
    verdict = refused or _approval(tool, effects, safety, sandbox_enforces) or Verdict("allow")
    if safety.auto and refused is None and verdict.action == "ask" and _is_auto(tool, arguments, safety):
        return Verdict("allow")
    return verdict


def _read_only(effects: frozenset[SideEffect], safety: SafetyConfig) -> Verdict | None:
    if not safety.read_only:
        return None
    if effects & _CHANGES or (effects & _FOREIGN and SideEffect.READ not in effects):
        return Verdict("deny", "read-only mode")
    return None


def _excess(effects: frozenset[SideEffect], arguments: Mapping[str, Any]) -> Verdict | None:
    reason = excess_of(arguments) if effects & _FILES else None
    return Verdict("deny", reason) if reason else None


def _paths(effects: frozenset[SideEffect], arguments: Mapping[str, Any], guard: PathGuard) -> Verdict | None:
    if not effects & _FILES:
        return None
    write = SideEffect.WRITE in effects or (SideEffect.EXTERNAL in effects and SideEffect.READ not in effects)
    for path in paths_of(arguments):
        reason = guard.check(path, write=write)
        if reason is not None:
            return Verdict("deny", reason)
    return None


def _commands(
    effects: frozenset[SideEffect],
    arguments: Mapping[str, Any],
    rules: Sequence[CommandRule],
    denied: Sequence[str],
) -> Verdict | None:
    command = command_of(arguments)
    if SideEffect.EXECUTE not in effects or not command:
        return None
    for rule in rules:
        if rule.applies(command):
            reason = f"command rule '{rule.pattern}'"
            return None if rule.decision == "allow" else Verdict(rule.decision, reason)
    reading = read_command(command, denied)
    if reading.denied is not None:
        return Verdict("deny", f"the command is denied by '{reading.denied}'")
    return None if reading.is_whole else Verdict("ask", "the command is too long or too involved to be judged")


def _ruled(
    tool: ToolFacts, arguments: Mapping[str, Any], safety: SafetyConfig, guard: PathGuard, refused: Verdict | None
) -> Verdict | None:
    """The stronger of two: what has been found so far, and what the user's rules for single calls say."""
    from aar.safety.rules import rule_for  # most users have none

    found = rule_for(tool.name, arguments, safety, guard) if refused is None or refused.action == "ask" else None
    return Verdict(*found) if found is not None and (refused is None or found[0] == "deny") else refused


def _is_auto(tool: ToolFacts, arguments: Mapping[str, Any], safety: SafetyConfig) -> bool:
    from aar.safety.grants import Grants

    return Grants(entries=tuple(safety.auto)).verdict(tool.name, "", arguments) == "allow"


def _approval(
    tool: ToolFacts, effects: frozenset[SideEffect], safety: SafetyConfig, sandbox_enforces: bool
) -> Verdict | None:
    if tool.requires_approval:
        return Verdict("ask", f"{tool.name} always asks")
    if SideEffect.WRITE in effects and safety.require_approval_for_writes:
        return Verdict("ask", "writes need approval")
    if SideEffect.EXECUTE in effects and safety.require_approval_for_execute:
        return Verdict("ask", "commands need approval")
    if effects & _FOREIGN and safety.require_approval_for_execute:
        return Verdict("ask", "tools that reach outside need approval")
    if SideEffect.EXECUTE in effects and safety.allowed_paths and not sandbox_enforces:
        return Verdict("ask", "nothing holds commands inside the allowed paths here")
    return None
