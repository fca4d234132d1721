"""The folders that agents and modes are kept in, and reading their files: those of a project with suspicion."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from aar.errors import ConfigError

__all__ = ["Home", "SourceFile", "files_in", "homes_of", "is_within", "names_in", "text_of"]

LARGEST_FILE = 256 * 1024  # bytes
MOST_FILES = 500  # in one folder
ALL_FOREIGN = 256 * 1024  # bytes of all files of one kind in a project: it must not keep anybody waiting


class Home(NamedTuple):
    """`project` is the folder of the project that the home belongs to; `None` for one that the user has chosen."""

    path: Path
    project: Path | None = None


class SourceFile(NamedTuple):
    name: str
    path: Path
    text: str
    project: Path | None = None


def homes_of(home: Path, cwd: str | Path, more: Iterable[str | Path] = ()) -> list[Home]:
    """The user's own folder, that of the project, and those that the user names; a later one wins.

    Raises `ConfigError` for a named one that is not there.
    """
    found = [Home(home)]
    project = Path(cwd, ".aar")
    if os.path.realpath(project) != os.path.realpath(home):
        found.append(Home(project, Path(cwd)))
    for name in more:
        path = Path(name).expanduser()
        if not path.is_dir():
            raise ConfigError(f"{path}: there is no such folder. Name folders that have agents, modes or commands.")
        found.append(Home(Path(cwd, path)))
    return found


def files_in(home: Home, folder: str, ending: str, refused: list[str]) -> Iterator[SourceFile]:
    """The files of one kind, by name. Blocking. Raises `ConfigError` for one that cannot be read.

    Of a project, such a file is left out and told in `refused`: it must not keep its visitors from working.
    """
    place = home.path / folder
    if home.project is not None and not is_within(place, home.project):
        return
    left = ALL_FOREIGN
    for name in names_in(place, ending):
        path = place / name
        if path.is_dir():
            continue
        try:
            text = text_of(path, foreign=home.project is not None)
            left -= len(text)
            if home.project is not None and left < 0:
                raise ConfigError(
                    f"{path}: the files of this folder are larger than {ALL_FOREIGN // 1024} KB together."
                )
        except ConfigError as error:
            if home.project is None:
                raise
            refused.append(f"{error} It is not used.")
            continue
        yield SourceFile(name.removesuffix(ending), path, text, home.project)


def names_in(place: Path, ending: str) -> list[str]:
    """What a folder has with names that end so, sorted; of hidden things nothing. Raises `ConfigError`."""
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(ending) and entry.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read ({error.strerror or error}).") from error
    if len(names) > MOST_FILES:
        raise ConfigError(f"{place}: has more than {MOST_FILES} files that end with {ending}.")
    return sorted(names)


def is_within(place: Path, project: Path) -> bool:
    """Whether no link is on the way: one could bring in files that are nobody's agents."""
    return Path(os.path.realpath(place)) == Path(os.path.realpath(project), os.path.relpath(place, project))


def text_of(path: Path, *, foreign: bool) -> str:
    """Blocking. Raises `ConfigError` for what is no regular file of UTF-8 text, too large, or a link if `foreign`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if foreign:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: is not a regular file.")
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path}: is larger than {LARGEST_FILE // 1024} KB.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
