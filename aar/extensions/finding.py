"""Which extensions there are: shipped ones, those of installed packages, of the user, and of a project.

Nothing of them runs here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aar.config.extensions import GROUP, ExtensionFolder, extension_folders, has_entry_points, site_folders

__all__ = ["BUILTIN", "Found", "Tier", "find_extensions", "in_force"]

BUILTIN = {"companion": "aar.companion.extension:register"}
"""What comes with Aar and is loaded where the settings name it."""

MOST_IN_A_FOLDER = 200

_NAME = re.compile(
    r"[^\W_][\w.-]{0,63}"
)  # what people are asked to trust by its name must not look like something else

Tier = Literal["builtin", "entrypoint", "user", "project"]


class Found(NamedTuple):
    """`path` is a file or folder, or `module:function` of Aar or an installed package.

    `project` is the folder of the project it belongs to; such an extension runs only when it is trusted.
    """

    name: str
    source: Tier
    path: str
    project: Path | None = None

    @property
    def is_installed(self) -> bool:
        """Whether it is imported as any module is, and not read file by file."""
        return self.source in ("builtin", "entrypoint")


def find_extensions(
    home: Path, cwd: str | Path, *, folders: Iterable[ExtensionFolder] | None = None, builtin: Iterable[str] = ()
) -> list[Found]:
    """All extensions, the ones that win last, with those shipped ones that `builtin` names. Blocking.

    `folders` stand in for those of the user and the project.
    """
    places = extension_folders(home, cwd) if folders is None else folders
    shipped = [Found(name, "builtin", BUILTIN[name]) for name in dict.fromkeys(builtin) if name in BUILTIN]
    return [*shipped, *_installed(cwd), *(one for place in places for one in _in_folder(place))]


def in_force(found: Iterable[Found]) -> list[Found]:
    """Of those with one name the last, in the place where the tiers come."""
    by_name = {one.name: one for one in found}
    return [one for one in found if by_name[one.name] is one]


def _installed(cwd: str | Path) -> Iterator[Found]:
    if not has_entry_points(cwd):
        return
    from importlib.metadata import distributions  # takes 50 ms: most have no such package

    seen: set[str] = set()
    for distribution in distributions(path=list(site_folders(cwd))):
        points: Iterable[Any] = distribution.entry_points.select(group=GROUP)
        for point in sorted(points, key=lambda point: str(point.name)):
            if point.name not in seen:
                seen.add(point.name)
                path = point.value if ":" in point.value else f"{point.value}:register"
                yield Found(point.name, "entrypoint", path)


def _in_folder(folder: ExtensionFolder) -> Iterator[Found]:
    tier: Tier = "user" if folder.project is None else "project"
    try:
        names = sorted(os.listdir(folder.path))
    except OSError:
        return
    count = 0
    for name in names:
        path = folder.path / name
        known = _name_of(path)
        if known and count < MOST_IN_A_FOLDER:
            count += 1
            yield Found(known, tier, str(path), folder.project)


def _name_of(path: Path) -> str:
    """Empty for what is no extension."""
    is_file = path.suffix == ".py" and not path.is_dir()
    name = path.stem if is_file else path.name
    return name if _NAME.fullmatch(name) and (is_file or (path / "__init__.py").exists()) else ""
