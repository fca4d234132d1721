"""What a user has allowed for good: in one project, or everywhere. Kept in the user's own folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aar.config.kept_file import KeptFile
from aar.errors import ConfigError

__all__ = ["SavedApprovals", "approvals_file", "check_rule"]

EVERYWHERE = ""
MOST = 500  # rules of one project, or of all
LONGEST = 1_000  # characters of a rule
_RULE = re.compile(r"[\w.-]+(?::.*\S.*)?")


def approvals_file(home: Path) -> Path:
    """It need not exist."""
    return home / "trust" / "approvals.json"


def check_rule(rule: str) -> None:
    """Raises `ConfigError` for what is no `tool` and no `tool:prefix*`."""
    if len(rule) > LONGEST or not rule.isprintable() or not _RULE.fullmatch(rule):
        text = "name a tool, or a tool and how its calls begin, as in bash:git push*"
        raise ConfigError(f"{rule[:80]!r} is no rule: {text}")


class SavedApprovals:
    """Rules as `tool` or `tool:prefix*`, by real paths of projects. All methods block and raise `ConfigError`."""

    def __init__(self, home: Path) -> None:
        self._file = KeptFile(approvals_file(home), "allowed", again="allow")

    def rules_for(self, project: str) -> list[str]:
        """Those that hold in this folder: everywhere first."""
        known = self._checked(self._file.read())
        return list(dict.fromkeys([*known.get(EVERYWHERE, []), *known.get(os.path.realpath(project), [])]))

    def add(self, rule: str, project: str | None) -> None:
        """Without a project it holds everywhere."""
        check_rule(rule)
        with self._changing() as known:
            rules = known.setdefault(os.path.realpath(project) if project is not None else EVERYWHERE, [])
            if rule not in rules:
                if len(rules) >= MOST:
                    raise ConfigError(f"{self._file.path}: has {MOST} rules already: take some back with /revoke.")
                rules.append(rule)

    def remove(self, rule: str, project: str) -> bool:
        """Take it back, here and everywhere; tells whether it was there."""
        with self._changing() as known:
            places = [place for place in (EVERYWHERE, os.path.realpath(project)) if rule in known.get(place, [])]
            for place in places:
                known[place].remove(rule)
                if not known[place]:
                    del known[place]
        return bool(places)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, list[str]]]:
        with self._file.changing() as known:
            yield self._checked(known)

    def _checked(self, known: dict[str, Any]) -> dict[str, list[str]]:
        if not all(_is_list_of_texts(rules) for rules in known.values()):
            raise self._file.damaged()
        return known


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
