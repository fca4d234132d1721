"""What tools may do: decisions about paths and commands, and the opener that keeps to them."""

from aar.safety.commands import redact, split_compound
from aar.safety.display import plain, visible
from aar.safety.grants import Grants, approval_key
from aar.safety.paths import PathGuard, PathRule, matches, normalise
from aar.safety.policy import CommandRule, ToolFacts, Verdict, decide

__all__ = [
    "CommandRule",
    "Grants",
    "PathGuard",
    "PathRule",
    "ToolFacts",
    "Verdict",
    "approval_key",
    "decide",
    "matches",
    "normalise",
    "plain",
    "redact",
    "split_compound",
    "visible",
]
