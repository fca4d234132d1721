"""What a user has allowed for good: in one project, or everywhere. Kept in the user's own folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aar.errors import ConfigError

__all__ = ["SavedApprovals", "approvals_file", "check_rule"]

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
        self.path = approvals_file(home)

    def rules_for(self, project: str) -> list[str]:
        """Those that hold in this folder: everywhere first."""
        known = self._read()
        return list(dict.fromkeys([*known[""], *known.get(os.path.realpath(project), [])]))

    def add(self, rule: str, project: str | None) -> None:
        """Without a project it holds everywhere."""
        check_rule(rule)
        with self._changing() as known:
            rules = known.setdefault(os.path.realpath(project) if project is not None else "", [])
            if rule not in rules:
                if len(rules) >= MOST:
                    raise ConfigError(f"{self.path}: has {MOST} rules already: take some back with /revoke.")
                rules.append(rule)

    def remove(self, rule: str, project: str) -> bool:
        """Take it back, here and everywhere; tells whether it was there."""
        with self._changing() as known:
            found = [rules for rules in (known[""], known.get(os.path.realpath(project), [])) if rule in rules]
            for rules in found:
                rules.remove(rule)
        return bool(found)

    def _read(self) -> dict[str, list[str]]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"": []}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path}: cannot be read ({error}).") from error
        known = data.get("allowed") if isinstance(data, dict) else None
        if not isinstance(known, dict) or not all(_is_list_of_texts(rules) for rules in known.values()):
            raise ConfigError(f"{self.path}: is not what Aar writes. Move it away; then allow anew.")
        return {"": [], **known}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, list[str]]]:
        """The file appears whole or not at all, and two who change it at once do not undo each other."""
        import fcntl

        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read()
                yield known
                self._write({"version": 1, "allowed": {project: rules for project, rules in known.items() if rules}})
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror or error}).") from error

    def _write(self, content: dict[str, Any]) -> None:
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, self.path)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
