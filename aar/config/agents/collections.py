"""Two kinds of named things: those that are files of a folder, and those that are keys of an object."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from aar.config.unknown import nearest
from aar.errors import ConfigError

__all__ = ["FileKeyed", "StringKeyed"]

T = TypeVar("T")


class _Named(Mapping[str, T], Generic[T]):
    """Frozen: things by name, sorted."""

    def __init__(self, what: str, entries: Mapping[str, T]) -> None:
        self.what = what
        self._entries = {self._key(name): (name, entries[name]) for name in sorted(entries)}

    @abstractmethod
    def _key(self, name: str) -> str:
        """How a name is compared."""

    def __getitem__(self, name: str) -> T:
        return self._entries[self._key(name)][1]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, name: str) -> T:
        """As `[]`, but raises `ConfigError` that says which names there are."""
        if name in self:
            return self[name]
        guess = nearest(name, list(self))
        there = f"There are: {', '.join(self)}." if len(self) else "There are none."
        if not len(self) and self.what in ("agent", "mode"):
            there = f"There are none: `aar {self.what}s` says where they go."
        told = f'Did you mean "{guess}"?' if guess else there
        raise ConfigError(f"There is no {self.what} '{name[:80]}'. {told}")


class FileKeyed(_Named[T]):
    """Things that are files of a folder, by name without its ending. Upper and lower case are the same."""

    def _key(self, name: str) -> str:
        return name.casefold()


class StringKeyed(_Named[T]):
    """Things that are keys of an object, as they are written there."""

    def _key(self, name: str) -> str:
        return name
