"""Reading the homes, part by part: whoever wants agents does not read commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from aar.config.agents.collections import FileKeyed
from aar.config.agents.entities import Entity, Kind, entity_of
from aar.config.agents.homes import Home, SourceFile, files_in
from aar.errors import ConfigError

__all__ = ["Entities", "Library", "Part", "Trusts", "load"]

Part = Literal["agents", "modes", "commands"]
Trusts = Callable[[SourceFile, str], bool]
"""Whether a file of a project may be used as if it were the user's own. Called with the file and its SHA-256."""

_KINDS: MappingProxyType[Part, Kind] = MappingProxyType({"agents": "agent", "modes": "mode", "commands": "command"})


class Entities(FileKeyed[Entity]):
    """The files of one kind. Each is understood when it is asked for: one that is wrong disturbs nobody else."""

    def __init__(self, kind: Kind, files: Mapping[str, tuple[SourceFile, bool]]) -> None:
        super().__init__(kind, {})
        self._kind = kind
        self._files = {file.name.casefold(): (file, is_foreign) for file, is_foreign in files.values()}
        self._read: dict[str, Entity] = {}

    def __getitem__(self, name: str) -> Entity:
        """Raises `ConfigError` with file and line."""
        key = self._key(name)
        if key not in self._read:
            file, is_foreign = self._files[key]
            self._read[key] = entity_of(self._kind, file, is_foreign=is_foreign)
        return self._read[key]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._key(name) in self._files

    def __iter__(self) -> Iterator[str]:
        return (self._files[key][0].name for key in sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def usable(self) -> tuple[list[Entity], list[str]]:
        """Those that can be understood and are no bases for others, and what is wrong with the rest."""
        found, problems = [], []
        for name in self:
            try:
                entity = self[name]
            except ConfigError as error:
                problems.append(str(error))
            else:
                if not entity.is_hidden:
                    found.append(entity)
        return found, problems


class Library(NamedTuple):
    """What was asked for, and what people should know of files that are not used. The rest is empty.

    `fingerprint` changes with every file that was read.
    """

    agents: Entities = Entities("agent", {})
    modes: Entities = Entities("mode", {})
    commands: Entities = Entities("command", {})
    remarks: tuple[str, ...] = ()
    fingerprint: str = ""


def load(parts: Collection[Part], homes: Sequence[Home], trusts: Trusts = lambda file, digest: False) -> Library:
    """Read these parts of the homes; the last home wins. Blocking. Raises `ConfigError` for what cannot be read."""
    reading = _Reading(trusts)
    found = {part: Entities(_KINDS[part], reading.part(part, homes)) for part in _KINDS if part in parts}
    return Library(**found, remarks=tuple(reading.remarks), fingerprint=reading.fingerprint())


class _Reading:
    def __init__(self, trusts: Trusts) -> None:
        self._trusts = trusts
        self._digests: list[str] = []
        self.remarks: list[str] = []

    def fingerprint(self) -> str:
        return sha256("\n".join(self._digests).encode()).hexdigest()

    def part(self, part: Part, homes: Sequence[Home]) -> dict[str, tuple[SourceFile, bool]]:
        """Files by their folded names, each with whether it belongs to a project that is not trusted."""
        found: dict[str, tuple[SourceFile, bool]] = {}
        for home in homes:
            here: dict[str, Path] = {}
            for file in files_in(home, part, ".md", self.remarks):
                key = file.name.casefold()
                if key in here:
                    raise ConfigError(f"{file.path}: has the name of {here[key]}; upper and lower case are the same.")
                here[key] = file.path
                self._take(key, file, found)
        return found

    def _take(self, key: str, file: SourceFile, found: dict[str, tuple[SourceFile, bool]]) -> None:
        digest = sha256(file.text.encode()).hexdigest()
        is_foreign = file.project is not None and not self._trusts(file, digest)
        self._digests.append(f"{file.path} {digest} {is_foreign}")
        if is_foreign and key in found and not found[key][1]:
            self.remarks.append(f"{file.path}: is not used, for it has the name of {found[key][0].path}.")
        else:
            found[key] = (file, is_foreign)
