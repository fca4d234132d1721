"""Reading the homes, part by part: whoever wants agents does not read commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from aar.config.agents.collections import FileKeyed
from aar.config.agents.entities import Entity, Kind, entity_of
from aar.config.agents.homes import Home, SourceFile, files_in
from aar.errors import ConfigError

__all__ = ["Library", "Part", "Trusts", "load"]

Part = Literal["agents", "modes", "commands"]
Trusts = Callable[[SourceFile, str], bool]
"""Whether a file of a project may be used as if it were the user's own. Called with the file and its SHA-256."""

_KINDS: MappingProxyType[Part, Kind] = MappingProxyType({"agents": "agent", "modes": "mode", "commands": "command"})


class Library(NamedTuple):
    """What was asked for, and what people should know of files that are not used. The rest is empty.

    `fingerprint` changes with every file that was read.
    """

    agents: FileKeyed[Entity] = FileKeyed("agent", {})
    modes: FileKeyed[Entity] = FileKeyed("mode", {})
    commands: FileKeyed[Entity] = FileKeyed("command", {})
    remarks: tuple[str, ...] = ()
    fingerprint: str = ""


def load(parts: Collection[Part], homes: Sequence[Home], trusts: Trusts = lambda file, digest: False) -> Library:
    """Read these parts of the homes; the last home wins. Blocking. Raises `ConfigError` with file and line."""
    reading = _Reading(trusts)
    found = {part: FileKeyed(_KINDS[part], reading.part(part, homes)) for part in _KINDS if part in parts}
    return Library(**found, remarks=tuple(reading.remarks), fingerprint=reading.fingerprint())


class _Reading:
    def __init__(self, trusts: Trusts) -> None:
        self._trusts = trusts
        self._digests: list[str] = []
        self.remarks: list[str] = []

    def fingerprint(self) -> str:
        return sha256("\n".join(self._digests).encode()).hexdigest()

    def part(self, part: Part, homes: Sequence[Home]) -> dict[str, Entity]:
        found: dict[str, Entity] = {}
        for home in homes:
            here: dict[str, Path] = {}
            for file in files_in(home, part, ".md", self.remarks):
                key = file.name.casefold()
                if key in here:
                    raise ConfigError(f"{file.path}: has the name of {here[key]}; upper and lower case are the same.")
                here[key] = file.path
                self._take(part, file, found)
        return {entity.name: entity for entity in found.values()}

    def _take(self, part: Part, file: SourceFile, found: dict[str, Entity]) -> None:
        digest = sha256(file.text.encode()).hexdigest()
        is_foreign = file.project is not None and not self._trusts(file, digest)
        self._digests.append(f"{file.path} {digest} {is_foreign}")
        key = file.name.casefold()
        if not is_foreign:
            found[key] = entity_of(_KINDS[part], file)
        elif key in found and not found[key].is_foreign:
            self.remarks.append(f"{file.path}: is not used, for it has the name of {found[key].path}.")
        else:
            try:
                found[key] = entity_of(_KINDS[part], file, is_foreign=True)
            except ConfigError as error:  # a project must not be able to keep its visitors from working
                self.remarks.append(f"{error} It is not used.")
