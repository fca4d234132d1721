"""The file with somebody's tasks: `tasks.yaml` or `tasks.json` in Aar's folder, or another one that is named."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from aar.errors import ConfigError
from aar.tasks.schedules import Schedule, parse_schedule

__all__ = ["FIELDS", "Task", "read_tasks", "tasks_file"]

MAX_BYTES = 1_000_000
MAX_TASKS = 500


@dataclass(frozen=True, slots=True)
class Task:
    """`prompts` are said one after the other; one that begins with `!` is a shell command.

    `pre`, `post` and `finally_` are shell commands: before the prompts, after all of them went well, and at last
    whatever happened. With `foreach` all of it is done once for each of these texts, which take the place of `{item}`.
    With a `session` it goes on in the session of that name. `retries` are for what fails.
    """

    name: str
    prompts: tuple[str, ...]
    folder: str = ""
    session: str = ""
    when: str = ""
    schedule: Schedule | None = None
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    finally_: tuple[str, ...] = ()
    foreach: tuple[str, ...] = ()
    retries: int = 0
    on_max_steps: str = "fail"


FIELDS = {field.name.rstrip("_"): field.name for field in fields(Task)}
del FIELDS["name"], FIELDS["schedule"]
"""The fields of a task in a file, with their names here."""
_LISTS = ("prompts", "pre", "post", "finally", "foreach")


def tasks_file(home: Path) -> Path:
    """The user's own; the first of the two that is there."""
    return next((path for path in (home / "tasks.yaml", home / "tasks.json") if path.exists()), home / "tasks.yaml")


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a file by name, in order. Reads it. Raises `ConfigError`, which names file, task and field."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES / 1e6:g} MB")
    found = _parsed(path, content.decode("utf-8", errors="replace"))
    if len(found) > MAX_TASKS:
        raise ConfigError(f"{path}: has more than {MAX_TASKS} tasks")
    return {name: _task(f"{path}: {name}", name, raw) for name, raw in found.items()}


def _parsed(path: Path, text: str) -> dict[str, Any]:
    if path.suffix.lower() == ".json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise ConfigError(f"{path}: must be an object with a task for each name")
        return found
    try:
        from aar.config.agents.strict_yaml import parse_yaml
    except ImportError as error:
        raise ConfigError(
            f'{path}: YAML needs a package: pip install "aar-agent[agents]", or use tasks.json'
        ) from error
    return parse_yaml(text, str(path)).value


def _task(where: str, name: str, raw: Any) -> Task:
    if not isinstance(raw, dict):
        raw = {"prompts": raw}
    for key in raw:
        if key not in FIELDS:
            close = get_close_matches(str(key), FIELDS, 1)
            meant = f": do you mean `{close[0]}`?" if close else f". There are: {', '.join(FIELDS)}"
            raise ConfigError(f"{where}.{key}: there is no such field{meant}")
    made: dict[str, Any] = {FIELDS[key]: _texts(f"{where}.{key}", raw[key]) for key in _LISTS if key in raw}
    if not made.get("prompts"):
        raise ConfigError(f"{where}.prompts: there is nothing to do")
    for key in ("folder", "session", "when", "on_max_steps"):
        if key in raw:
            made[key] = _text(f"{where}.{key}", raw[key])
    retries = raw.get("retries", 0)
    if type(retries) is not int or not 0 <= retries <= 10:
        raise ConfigError(f"{where}.retries: must be a whole number up to 10, not {retries!r}")
    if made.get("on_max_steps", "fail") not in ("fail", "continue"):
        raise ConfigError(f"{where}.on_max_steps: must be fail or continue")
    try:
        schedule = parse_schedule(made["when"]) if "when" in made else None
    except ConfigError as error:
        raise ConfigError(f"{where}.when: {error}") from error
    return Task(name=name, retries=retries, schedule=schedule, **made)


def _texts(where: str, value: Any) -> tuple[str, ...]:
    """A list of texts; one text alone is a list of one."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise ConfigError(f"{where}: must be a list of texts, not {value!r}")
    return tuple(_text(where, item) for item in items)


def _text(where: str, value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        raise ConfigError(f"{where}: must be a text: put one that has a colon and a blank in it in quotes")
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: must be a text, not {value!r}")
    return value.strip()
