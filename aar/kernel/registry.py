"""Names of living actors."""

from __future__ import annotations

from typing import Any

from aar.kernel.ref import LocalRef

__all__ = ["Registry"]


class Registry:
    """Name to address, for the actors of one runtime. Supervisors write it; everybody may look."""

    def __init__(self) -> None:
        self._refs: dict[str, LocalRef] = {}

    def add(self, ref: LocalRef) -> None:
        """Raises `ValueError` when a living actor has this name."""
        if ref.name in self._refs:
            raise ValueError(f"an actor named {ref.name!r} is already running")
        self._refs[ref.name] = ref

    def remove(self, ref: LocalRef) -> None:
        """Forget this actor; another one of the same name stays."""
        if self._refs.get(ref.name) is ref:
            del self._refs[ref.name]

    def find(self, name: str) -> Any | None:
        """The address of a living actor, or `None`. Say the type where you assign it: `ref: Ref[Ping] | None`."""
        return self._refs.get(name)

    def names(self) -> list[str]:
        return sorted(self._refs)
