"""The files that `aar init` writes: a whole user folder, ready to be edited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig

__all__ = ["Written", "sample_configs", "write_starter_files"]

_FOLDERS = ("distros", "themes", "extensions", "rules.d")


class Written(NamedTuple):
    """`created` is false for a file that was there already and was left alone."""

    path: Path
    created: bool


def write_starter_files(home: Path, *, force: bool = False) -> list[Written]:
    """Create the user folder and its files; with `force` also over what is there.

    Folders are for their owner only (0700) and so are the files (0600): they may come to hold keys. Blocking, so call
    it in a thread. Raises `ConfigError` when something cannot be written.
    """
    try:
        for folder in (home, *(home / name for name in _FOLDERS)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return [Written(home / name, _write(home / name, content, force=force)) for name, content in _contents()]
    except OSError as error:
        raise ConfigError(f"{error.filename or home}: cannot be written ({error.strerror or error}).") from error


def sample_configs() -> dict[str, str]:
    """Name and text of each sample configuration that is shipped, sorted by name."""
    return {name.removesuffix(".json"): text for name, text in _shipped("samples")}


def _contents() -> Iterator[tuple[str, str]]:
    from aar.messages.themes import theme_schema

    yield "config.json", _json(_default_config())
    yield "mcp_servers.json", _json({"servers": []})
    yield "pricing.template.json", _json(_price_template())
    for name, text in _shipped("starter"):
        yield ("extensions/hello.py" if name == "hello.py.template" else name), text
    yield "themes/example.json", _json({**_theme("decker"), "name": "example"})
    yield "themes/theme.schema.template", _json(theme_schema())
    for name, text in _shipped("distros"):
        yield f"distros/{name}", text


def _default_config() -> dict[str, Any]:
    """All settings to be edited, but those two whose absence means something: who reads along wants a stream."""
    data = AgentConfig().model_dump(mode="json", exclude={"system_prompt", "streaming"})
    return {**data, "session_dir": data["session_dir"].replace("\\", "/")}


def _price_template() -> dict[str, Any]:
    import json

    table = json.loads(dict(_shipped(""))["pricing.json"])
    table.pop("_comment", None)
    usage = (
        "USD per million tokens, by the start of the model's name. Copy what you change to pricing.json beside this."
    )
    return {"_usage": usage, **table}


def _theme(name: str) -> dict[str, Any]:
    """A built-in theme with every field, so that there is something to change."""
    from aar.messages.themes import Theme

    return Theme.model_validate_json(dict(_shipped("themes"))[f"{name}.json"]).model_dump(mode="json")


def _shipped(folder: str) -> Iterator[tuple[str, str]]:
    """Name and text of the files in one folder of the package's data."""
    from importlib.resources import files

    place = files("aar").joinpath("data", *([folder] if folder else []))
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield entry.name, entry.read_text(encoding="utf-8")


def _json(data: dict[str, Any]) -> str:
    import json

    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, content: str, *, force: bool) -> bool:
    """Whether the file was written. A file appears whole or not at all, also when the machine stops half-way."""
    if not force and os.path.lexists(path):
        return False
    target = Path(os.path.realpath(path))  # a configuration kept elsewhere and linked here stays linked
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)  # of a process with our number that was killed here
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    os.replace(fresh, target)
    return True
