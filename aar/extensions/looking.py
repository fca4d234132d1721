"""Extensions for people who want to know what there is, before and without a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import trio

from aar.config.extensions import ExtensionFolder
from aar.errors import AarError, ExtensionError
from aar.extensions.finding import BUILTIN, Found, find_extensions
from aar.extensions.loading import Loaded, Loader
from aar.extensions.sources import Source, read_source
from aar.extensions.trust import TrustFile

__all__ = ["Listed", "Places", "chosen_source", "inspect_extension", "list_extensions", "load_extensions", "trust"]


class Places(NamedTuple):
    """Where to look. Folders that are given stand in for the usual ones; `builtin` are shipped ones that are on."""

    home: Path
    cwd: str
    user_folder: Path | None = None
    project_folder: Path | None = None
    builtin: Sequence[str] = ()

    def find(self) -> list[Found]:
        """Blocking."""
        return find_extensions(self.home, self.cwd, folders=self._folders(), builtin=self.builtin)

    def _folders(self) -> list[ExtensionFolder] | None:
        if self.user_folder is None and self.project_folder is None:
            return None
        own = ExtensionFolder(self.user_folder or self.home / "extensions")
        if self.project_folder is None:
            return [own]
        folder = Path(self.cwd, self.project_folder)
        project = Path(self.cwd) if folder.is_relative_to(self.cwd) else folder
        return [own, ExtensionFolder(folder, project)]


class Listed(NamedTuple):
    """`state` is `ready`, `not trusted`, `hidden` behind one that wins, or why it cannot be read."""

    found: Found
    state: str


def list_extensions(places: Places) -> list[Listed]:
    """All there are, those that win last. Nothing of them runs. Blocking."""
    found = places.find()
    listed = [Listed(one, _state(places, one)) for one in found]
    winning = {one.found.name: one.found for one in listed if one.state == "ready"}
    return [
        one._replace(state="hidden") if one.state == "ready" and winning[one.found.name] is not one.found else one
        for one in listed
    ]


def _state(places: Places, found: Found) -> str:
    if found.is_installed:
        return "ready"
    try:
        source = read_source(Path(found.path), project=found.project)
        return "ready" if TrustFile(places.home).covers(found, source.digest) else "not trusted"
    except AarError as error:
        return str(error)


async def inspect_extension(places: Places, name: str) -> Loaded:
    """Load the one of this name that a session would get, or a shipped one that is off.

    Raises `ExtensionError` when there is none or it fails.
    """
    places = places._replace(builtin=tuple(BUILTIN))
    listed = await trio.to_thread.run_sync(list_extensions, places, abandon_on_cancel=True)
    named = [one for one in listed if one.found.name == name]
    ready = [one.found for one in named if one.state == "ready"]
    if not ready:
        raise ExtensionError(_why_not(name, named))
    source = await trio.to_thread.run_sync(_trusted_source, places, ready[0], abandon_on_cancel=True)
    loader = Loader(places.home, lambda name, work: None)
    try:
        loaded = await loader.load_one(ready[0], source)
    finally:
        loader.close()
    if loaded.error:
        raise ExtensionError(f"Extension {name!r} could not be loaded: {loaded.error}")
    return loaded


def _trusted_source(places: Places, found: Found) -> Source | None:
    if found.is_installed:
        return None
    source = read_source(Path(found.path), project=found.project)
    if not TrustFile(places.home).covers(found, source.digest):  # it has changed meanwhile
        raise ExtensionError(_why_not(found.name, [Listed(found, "not trusted")]))
    return source


def _why_not(name: str, named: Sequence[Listed]) -> str:
    if not named:
        return f"There is no extension {name!r}. `aar extensions list` shows which there are."
    if named[-1].state == "not trusted":
        return f"Extension {name!r} is not trusted. Read it, then run `aar extensions trust {name}`."
    return f"Extension {name!r} cannot be loaded: {named[-1].state}"


async def load_extensions(
    home: Path, cwd: str, *, builtin: Sequence[str] = (), include: Sequence[str] = ("*",), exclude: Sequence[str] = ()
) -> tuple[list[Loaded], list[str]]:
    """What a session in this folder would get, and what its user should be told."""
    loader = Loader(home, lambda name, work: None)
    try:
        return await loader.load(cwd, builtin=builtin, include=include, exclude=exclude)
    finally:
        loader.close()


def chosen_source(places: Places, name: str) -> tuple[Found, Source]:
    """The project's extension of this name and its files. Raises `ExtensionError`. Blocking."""
    found = [one for one in places.find() if one.name == name and one.project is not None]
    if not found:
        there = ", ".join(one.name for one in places.find() if one.project is not None) or "none"
        raise ExtensionError(f"This project has no extension {name!r}; it has: {there}.")
    return found[-1], read_source(Path(found[-1].path), project=found[-1].project)


def trust(places: Places, entries: Iterable[tuple[Found, Source]]) -> None:
    """Let these files run from now on. Raises `ConfigError`. Blocking."""
    for found, source in entries:
        TrustFile(places.home).add(found, source.digest)
