"""Names with a meaning of their own: what decides what runs later, and what holds secrets of Aar or of processes."""

from __future__ import annotations

import os

from aar.safety.patterns import PatternSet, escape

__all__ = [
    "NOTABLE",
    "PROTECTED",
    "SecretNames",
    "completes_repository",
    "may_be_in_repository",
    "notable_names",
    "protected_names",
]

# Names that later run code or widen what Aar may do. No tool changes them, present or absent.
PROTECTED = (
    "**/.git",
    "**/.git/**",
    "**/*.git/hooks/**",
    "**/*.git/hooks",
    "**/*.git/config",
    "**/*.git/config.lock",
    "**/*.git/config.worktree",
    "**/*.git/info/**",
    "**/commondir",
    "**/.gitconfig",
    "**/.config/git/**",
    "**/.aar",
    "**/.aar/**",
    "**/.agent/extensions/**",
    "**/.envrc",
    "**/.mcp.json",
    "**/.vscode/**",
    "**/.idea/**",
    "**/.husky/**",
    "**/.claude/**",
    "**/.codex/**",
    "**/.gemini/**",
    "**/.cursor/**",
    "**/.windsurf/**",
    "**/.zed/**",
    "**/.devcontainer/**",
)

# Ordinary files of a project or a home folder that take effect by themselves: 'always' for the folder leaves them out.
NOTABLE = (
    "**/.gitattributes",
    "**/.gitmodules",
    "**/.githooks/**",
    "**/.pre-commit-config.yaml",
    "**/lefthook.y*ml",
    "**/.agent/**",
    "**/.bashrc",
    "**/.bash_*",
    "**/.profile",
    "**/.zshrc",
    "**/.zshenv",
    "**/.zprofile",
    "**/.zlogin",
    "**/.config/fish/**",
    "**/.config/autostart/**",
    "**/.config/systemd/**",
    "**/.vimrc",
    "**/.exrc",
    "**/.nvim.lua",
    "**/.dir-locals.el",
)

# What the kernel tells of processes: their environment holds keys, their descriptors lead past every rule.
_PROCESSES = ("/dev/fd/*", "/proc/[0-9]*", "/proc/self", "/proc/self/**", "/proc/thread-self", "/proc/thread-self/**")

_OPEN_STATE = ("models", "themes", "skills", "rules.md", "rules.d")  # in the state folder, and nobody's secret

_MARKS = frozenset({"head", "objects", "refs"})  # what makes a folder a repository to Git
_POWERS = frozenset({"config", "config.lock", "config.worktree", "hooks", "info"})  # and what runs programs in one


def notable_names() -> PatternSet:
    """What a standing approval for a folder does not cover."""
    return PatternSet(NOTABLE, fold=True)


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
    return not (_MARKS | _POWERS).isdisjoint(path.lower().split("/"))


def completes_repository(path: str) -> bool:
    """Would a file here, with what is there already, be one of a bare repository that runs programs?

    Git trusts the `config` and the `hooks` of whatever looks like a repository, by whatever name.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        name, folder = part.lower(), "/".join(parts[:at])
        if name in _POWERS and _has(folder, _MARKS):
            return True
        if name in _MARKS and parts[at - 1] != ".git" and _has(folder, _MARKS - {name}) and _has_power(folder):
            return True
    return False


def _has(folder: str, names: frozenset[str]) -> bool:
    return all(os.path.lexists(f"{folder}/{'HEAD' if name == 'head' else name}") for name in names)


def _has_power(folder: str) -> bool:
    return any(os.path.lexists(f"{folder}/{name}") for name in _POWERS - {"info"})


def _all_of(folder: str) -> list[str]:
    return [escape(folder), escape(folder).rstrip("/") + "/**"]
