"""Commands of the user that run before and after tool calls, as the settings name them.

They come from the user's own settings alone: no file of a project can name one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from aar.config.unknown import nearest
from aar.errors import InvalidSetting

__all__ = ["ShellHook", "in_force", "parse_shell_hooks"]

DEFAULT_TIMEOUT = 10.0  # seconds
LONGEST_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class ShellHook:
    """`tool` is a regular expression that the whole name fits, `files` patterns of which a file of the call fits one.

    `agents` and `modes` are patterns, too. Those in `depends` run first; where one of them does not run for this agent
    or mode, this one does not, either. `silent`: nothing of what it writes reaches the model.
    """

    name: str
    event: Literal["pre", "post"]
    command: str
    tool: str = ".*"
    files: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    depends: tuple[str, ...] = ()
    agents: tuple[str, ...] = ("*",)
    modes: tuple[str, ...] = ("*",)
    silent: bool = False

    def fits(self, tool: str) -> bool:
        return re.fullmatch(self.tool, tool) is not None

    def is_for(self, agent: str, mode: str) -> bool:
        """Whether it is wanted with this agent in this mode; names are the same in capitals."""
        return _fits(agent, self.agents) and _fits(mode, self.modes)


def parse_shell_hooks(said: Mapping[str, Any]) -> list[ShellHook]:
    """The hooks of `shell_hooks`, each behind those that it depends on. Raises `InvalidSetting`."""
    whole = {name: _inherited(said, name, ()) for name in said}
    hooks = {name: _hook(name, entry) for name, entry in whole.items() if "command" in entry}
    for hook in hooks.values():
        for other in hook.depends:
            if other not in hooks:
                raise _wrong(hook.name, "depends", f"there is no hook {other!r}.{_guess(other, hooks)}")
    try:
        order = TopologicalSorter({name: hook.depends for name, hook in hooks.items()}).static_order()
        return [hooks[name] for name in order]
    except CycleError as error:
        raise InvalidSetting(f"shell_hooks: hooks depend on one another: {' -> '.join(error.args[1])}") from error


def in_force(hooks: Iterable[ShellHook], agent: str, mode: str) -> list[ShellHook]:
    """Those that run with this agent in this mode, in order: without what depends on one that does not."""
    kept: dict[str, ShellHook] = {}
    for hook in hooks:
        if hook.is_for(agent, mode) and all(name in kept for name in hook.depends):
            kept[hook.name] = hook
    return list(kept.values())


# --- one entry --------------------------------------------------------------------------------


def _inherited(said: Mapping[str, Any], name: str, heirs: Sequence[str]) -> dict[str, Any]:
    """The entry over those that it inherits from: a key that is there replaces, the last parent counts most."""
    path = (*heirs, name)
    if name in heirs:
        raise InvalidSetting(f"shell_hooks: hooks inherit from one another: {' -> '.join(path)}")
    entry = said.get(name)
    if entry is None and heirs:
        raise _wrong(heirs[-1], "inherit", f"there is no hook {name!r}.{_guess(name, said)}")
    if not isinstance(entry, Mapping):
        raise InvalidSetting(f"shell_hooks.{name}: must be an object with a command, not {entry!r}")
    whole: dict[str, Any] = {}
    for parent in _texts(name, "inherit", entry.get("inherit", ())):
        whole |= _inherited(said, parent, path)
    return whole | {key: value for key, value in entry.items() if key != "inherit"}


_KEYS = [field.name for field in fields(ShellHook) if field.name != "name"]
_LISTS = ("files", "depends", "agents", "modes")


def _hook(name: str, entry: Mapping[str, Any]) -> ShellHook:
    for key in entry:
        if key not in _KEYS:
            raise _wrong(name, key, f"there is no such setting.{_guess(key, [*_KEYS, 'inherit'])}")
    if entry.get("event") not in ("pre", "post"):
        raise _wrong(name, "event", f'must be "pre" or "post", not {entry.get("event")!r}')
    command = entry["command"]
    if not isinstance(command, str) or not command.strip():
        raise _wrong(name, "command", "must be a shell command")
    if not isinstance(entry.get("silent", False), bool):
        raise _wrong(name, "silent", "must be true or false")
    _check_pattern(name, entry.get("tool", ".*"))
    _check_timeout(name, entry.get("timeout", DEFAULT_TIMEOUT))
    lists = {key: _texts(name, key, entry[key]) for key in _LISTS if key in entry}
    return ShellHook(name=name, **{**entry, **lists})


def _check_pattern(name: str, pattern: object) -> None:
    try:
        re.compile(pattern if isinstance(pattern, str) else "(")
    except re.error as error:
        raise _wrong(name, "tool", f"must be a regular expression for names of tools ({error})") from error


def _check_timeout(name: str, timeout: object) -> None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < float(timeout) <= LONGEST_TIMEOUT:  # type: ignore[arg-type]
        raise _wrong(name, "timeout", f"must be a number of seconds, {LONGEST_TIMEOUT:g} at most, not {timeout!r}")


def _texts(name: str, key: str, value: object) -> tuple[str, ...]:
    """A text is short for a list of one."""
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) for one in several):
        raise _wrong(name, key, f"must be a list of texts, not {value!r}")
    return tuple(several)


def _wrong(name: str, key: str, why: str) -> InvalidSetting:
    return InvalidSetting(f"shell_hooks.{name}.{key}: {why}")


def _guess(name: str, known: Iterable[str]) -> str:
    found = nearest(name, list(known))
    return f" Did you mean {found!r}?" if found else ""


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
