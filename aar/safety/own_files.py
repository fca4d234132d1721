"""Names with a meaning of their own: what decides what runs later, and what holds secrets of Aar or of processes."""

from __future__ import annotations

import os

from aar.safety.patterns import PatternSet, escape

__all__ = ["completes_repository", "may_be_in_repository", "PROTECTED", "protected_names", "SecretNames"]

# Names that later run code or widen what Aar may do. No tool changes them, present or absent.
PROTECTED = (
    "**/.git",
    "**/*.git/hooks/**",
    "**/*.git/hooks",
    "**/*.git/config",
    "**/*.git/info/**",
    "**/.git/config.worktree",
    "**/.git/commondir",
    "**/.git/modules/**",
    "**/.git/worktrees/**",
    "**/.aar",
    "**/.aar/**",
    "**/.agent/extensions/**",
    "**/.envrc",
    "**/.mcp.json",
    "**/.vscode/**",
    "**/.idea/**",
    "**/.husky/**",
    "**/.claude/**",
    "**/.cursor/**",
    "**/.zed/**",
    "**/.devcontainer/**",
)

# What the kernel tells of processes: their environment holds keys, their descriptors lead past every rule.
_PROCESSES = ("/dev/fd/*", "/proc/[0-9]*", "/proc/self", "/proc/self/**", "/proc/thread-self", "/proc/thread-self/**")

_OPEN_STATE = ("models", "themes", "rules.md", "rules.d")  # in the state folder, and nobody's secret

_REPOSITORY = frozenset({"HEAD", "config", "objects", "refs"})


def protected_names(state_folders: list[str]) -> PatternSet:
    """What no tool may change."""
    return PatternSet([*PROTECTED, *(one for folder in state_folders for one in _all_of(folder))], fold=True)


class SecretNames:
    """What no tool may read: Aar's state, with its keys and sessions, and the insides of processes."""

    def __init__(self, state_folders: list[str]) -> None:
        self._closed = PatternSet([*_PROCESSES, *(one for each in state_folders for one in _all_of(each))], fold=True)
        self._open = PatternSet(
            one for each in state_folders for name in _OPEN_STATE for one in _all_of(f"{each}/{name}")
        )

    def match(self, path: str) -> bool:
        """Is this normalised absolute path one of them?"""
        return self._closed.match(path) and not self._open.match(path)


def may_be_in_repository(path: str) -> bool:
    """Has any part of the path a name that counts for `completes_repository`?"""
    return not _REPOSITORY.isdisjoint(path.split("/"))


def completes_repository(path: str) -> bool:
    """Would a file here make its folder, or one above, look like a bare repository?

    Git trusts the `config` of whatever looks so, and that names programs to run.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        folder = "/".join(parts[:at])
        if part in _REPOSITORY and parts[at - 1] != ".git" and _has_others(folder, part):
            return True
    return False


def _has_others(folder: str, name: str) -> bool:
    return all(os.path.lexists(f"{folder}/{other}") for other in _REPOSITORY - {name})


def _all_of(folder: str) -> list[str]:
    return [escape(folder), escape(folder).rstrip("/") + "/**"]
