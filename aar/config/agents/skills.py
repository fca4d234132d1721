"""Skills: folders with a `SKILL.md`, which says in its settings what it is for and in its text how that is done."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from aar.config.agents.documents import parse_document
from aar.config.agents.homes import Home, is_within, names_in, text_of
from aar.errors import ConfigError

__all__ = ["MARK", "MayRead", "Skill", "read_skills"]

MARK = "SKILL.md"
ALL_FOREIGN = 1024 * 1024  # characters of all skills of a project: it must not keep anybody waiting

MayRead = Callable[[str], str | None]
"""Why a file may not be read, or `None`."""

_NAME = re.compile(r"\w[\w.:-]{0,63}")


class Skill(NamedTuple):
    """`is_foreign`: it came with a project. Whatever it says is for the model to read; nothing of it is run or set."""

    name: str
    description: str
    body: str
    path: Path
    is_foreign: bool

    def told(self) -> str:
        """Its text for the model, below whose it is and where its other files are."""
        whose = ", which came with this project: its authors wrote it, and not the user" if self.is_foreign else ""
        where = f"Its folder, where other files that it names are: {self.path.parent}"
        return f"Skill {self.name}{whose}. {where}\n\n{self.body}"


def read_skills(
    homes: Sequence[Home], may_read: MayRead = lambda path: None
) -> tuple[dict[str, Skill], tuple[str, ...]]:
    """Skills by their folded names, sorted, and a sentence for each that cannot be used. Blocking.

    Of the same name the last home's counts; a project's does not take the place of one of the user's. Files of projects
    are asked about first (`may_read`).
    """
    found: dict[str, Skill] = {}
    remarks: list[str] = []
    for home in homes:
        here: dict[str, Skill] = {}
        for skill in _skills_of(home, may_read, remarks):
            key = skill.name.casefold()
            other = here.get(key) or (found.get(key) if skill.is_foreign else None)
            if other is not None:
                remarks.append(f"{skill.path}: is not used, for it has the name of {other.path}.")
            else:
                here[key] = skill
        found |= here
    return {key: found[key] for key in sorted(found)}, tuple(remarks)


def _skills_of(home: Home, may_read: MayRead, remarks: list[str]) -> list[Skill]:
    place, found = home.path / "skills", []
    left = ALL_FOREIGN
    try:
        folders = [place / name for name in names_in(place, "")]
    except ConfigError as error:
        remarks.append(str(error))
        return []
    for folder in folders:
        if not _is_there(folder, home):
            continue
        try:
            skill = _skill_of(folder / MARK, home, may_read)
            left -= len(skill.body)
            if skill.is_foreign and left < 0:
                raise ConfigError(f"{skill.path}: the skills of this project are too large together.")
            found.append(skill)
        except ConfigError as error:
            remarks.append(f"{error} The skill is not used.")
    return found


def _is_there(folder: Path, home: Home) -> bool:
    """A folder without the file is somebody's own affair, and so is what a project's link leads to."""
    if home.project is not None and not is_within(folder, home.project):
        return False
    return os.path.lexists(folder / MARK)


def _skill_of(path: Path, home: Home, may_read: MayRead) -> Skill:
    is_foreign = home.project is not None
    if is_foreign and (reason := may_read(str(path))):
        raise ConfigError(f"{path}: may not be read ({reason}).")
    document = parse_document(text_of(path, foreign=is_foreign), str(path))
    name, description = (document.settings.get(key) for key in ("name", "description"))
    name = path.parent.name if name is None else name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{path}: name must be up to 64 letters, digits or any of `_.:-`.")
    if not isinstance(description, str) or not description.strip():
        raise ConfigError(f"{path}: has no `description`, by which a model knows when to use it.")
    return Skill(name, " ".join(description.split()), document.body, path, is_foreign)
