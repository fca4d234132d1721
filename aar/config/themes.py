"""Themes by name: those that come with Aar, those of an application, those in `~/.aar/themes`, and single files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from aar.config.files import aar_home, read_object
from aar.errors import ConfigError
from aar.messages.themes import Theme

__all__ = ["BUILT_IN", "DEFAULT", "Themes"]

BUILT_IN = ("contrast", "decker", "default", "sleek")
DEFAULT = "default"
_NO_STYLES = ("name", "description", "character", "border_type", "side")
_EXAMPLE = 'colours and words such as "bold red", "#ffb30f", "on #121218" or "dim italic"'


class Themes:
    """The themes that a user can name. Reads files when it is asked, so a theme that was just written is there."""

    def __init__(self, home: Path | None = None, registered: Iterable[Theme] = ()) -> None:
        """`home` is the user's folder, `aar_home()` unless given. `registered` are an application's own."""
        self._folder = (home or aar_home()) / "themes"
        self._registered = {theme.name: theme for theme in registered}

    def list_names(self) -> list[str]:
        """All names, sorted; with those of the user's files."""
        try:
            files = [file.stem for file in self._folder.glob("*.json") if not file.name.startswith(".")]
        except OSError:  # a folder that may not be read has none for us
            files = []
        return sorted({*BUILT_IN, *self._registered, *files})

    def get(self, name: str) -> Theme:
        """A theme by its name, or by the path of a file: one that comes with Aar or is registered, else the user's own.

        A theme that is found by its name bears that name. Raises `ConfigError`: for a name that nothing has, and for a
        file that holds no theme, with the field and what may stand there.
        """
        if name in self._registered:
            return self._registered[name]
        if name in BUILT_IN:
            return _built_in(name)
        if _is_plain(name) and os.path.isfile(own := self._folder / f"{name}.json"):
            return _theme_of(own).model_copy(update={"name": name})
        file = os.path.expanduser(name)
        if os.path.isfile(file):
            return _theme_of(Path(file))
        raise ConfigError(f"Unknown theme: {name}. There are: {', '.join(self.list_names())}.")

    def get_or_default(self, name: str) -> tuple[Theme, str]:
        """The theme, or the default one and why it was not that one. Never raises for what a user may have written."""
        try:
            return self.get(name), ""
        except ConfigError as error:
            return _built_in(DEFAULT), f"{error}\nThe theme {DEFAULT!r} is used instead."

    def next_after(self, name: str) -> Theme:
        """The theme that follows in the list, after the last the first; one that cannot be used is passed over."""
        names = self.list_names()
        at = names.index(name) + 1 if name in names else 0
        for candidate in names[at:] + names[:at]:
            try:
                return self.get(candidate)
            except ConfigError:
                continue
        return _built_in(DEFAULT)  # not reached: those that come with Aar can be used


def _is_plain(name: str) -> bool:
    return bool(name) and "/" not in name and "\\" not in name and not name.startswith(".")


def _built_in(name: str) -> Theme:
    from importlib.resources import files

    return Theme.model_validate_json(files("aar").joinpath("data", "themes", f"{name}.json").read_bytes())


def _theme_of(file: Path) -> Theme:
    found = read_object(file)
    try:
        theme = Theme.model_validate(found)
    except ValidationError as error:
        lines = [_explained(item) for item in error.errors(include_url=False)]
        raise ConfigError("\n".join(f"{file}: {line}" for line in lines)) from error
    if wrong := list(_wrong_styles(theme, "")):
        raise ConfigError("\n".join(f"{file}: {line}" for line in wrong))
    return theme


def _explained(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"{field}: is missing. Add it: a theme says how it is called."
    return f"{field}: {item['msg']}. Correct it or leave it out, then the default holds."


def _wrong_styles(model: BaseModel, place: str) -> Iterator[str]:
    """Every text of a theme that is to be a style or a sign, and is none that a terminal can show."""
    from rich.cells import cell_len
    from rich.errors import StyleSyntaxError
    from rich.style import Style

    for name in type(model).model_fields:
        value: Any = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _wrong_styles(value, f"{place}{name}.")
        elif name == "character":
            if cell_len(value) != 1 or not value.isprintable():
                yield f"{place}{name}: {value!r} draws no line. Write a sign that is one column wide, or leave it out."
        elif isinstance(value, str) and name not in _NO_STYLES:
            try:
                Style.parse(value)
            except StyleSyntaxError:
                yield f"{place}{name}: {value!r} is no style. Write {_EXAMPLE}, or leave it out."
