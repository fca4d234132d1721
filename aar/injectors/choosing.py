"""Which of the injectors that come with Aar are wanted, as the settings say. Without a word there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from aar.errors import InvalidSetting
from aar.injectors.breakers import FailureBreaker, LoopDetection, RepeatedPatch
from aar.injectors.forgetting import ForgetFailedCalls, ForgetLongArguments
from aar.injectors.reminders import (
    DoneReminder,
    EmptyResponse,
    MaxSteps,
    SessionStats,
    TodoNotFinished,
    TodoReminder,
)

__all__ = ["SHIPPED", "chosen_injectors"]

SHIPPED: Mapping[str, type[Any]] = {
    "todo_reminder": TodoReminder,
    "todo_not_finished": TodoNotFinished,
    "empty_response": EmptyResponse,
    "done_reminder": DoneReminder,
    "max_steps": MaxSteps,
    "session_stats": SessionStats,
    "loop_detection": LoopDetection,
    "failure_breaker": FailureBreaker,
    "repeated_patch": RepeatedPatch,
    "forget_failed_calls": ForgetFailedCalls,
    "forget_long_arguments": ForgetLongArguments,
}


def chosen_injectors(said: Mapping[str, Any]) -> list[Any]:
    """The injectors that `injectors` switches on: each by `true`, or by an object with what is to be different.

    Raises `InvalidSetting` with the place of the mistake.
    """
    for name in said:
        if name not in SHIPPED:
            raise InvalidSetting(f"injectors.{name}: there is no such injector. {_advice(name, list(SHIPPED))}")
    wanted = [(name, kind, said[name]) for name, kind in SHIPPED.items() if said.get(name, False) is not False]
    return [_made(name, kind, value) for name, kind, value in wanted]


def _made(name: str, kind: type[Any], value: object) -> Any:
    if value is True:
        return kind()
    if not isinstance(value, Mapping):
        raise InvalidSetting(f"injectors.{name}: must be true, false or an object, not {value!r}")
    known = [field.name for field in fields(kind)]
    for key, given in value.items():
        if key not in known:
            raise InvalidSetting(f"injectors.{name}.{key}: there is no such setting. {_advice(key, known)}")
        if key == "action":
            _check(given in ("stop", "warn"), name, key, 'must be "stop" or "warn"')
        else:
            is_count = isinstance(given, int) and not isinstance(given, bool) and given >= 1
            _check(is_count, name, key, "must be an integer, 1 or more")
    return kind(**value)


def _check(is_fine: bool, name: str, key: str, why: str) -> None:
    if not is_fine:
        raise InvalidSetting(f"injectors.{name}.{key}: {why}")


def _advice(name: str, known: list[str]) -> str:
    found = get_close_matches(name, known, n=1)
    return f"Did you mean {found[0]!r}?" if found else f"Known here: {', '.join(known) or 'none'}."
