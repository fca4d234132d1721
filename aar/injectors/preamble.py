"""Saying what holds for an injector, beside what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from aar.injectors.timings import Condition, Preamble

__all__ = ["preamble", "preamble_of"]

T = TypeVar("T")


def preamble(
    name: str = "",
    *,
    once: bool = False,
    when: Condition | None = None,
    env: Sequence[str] = (),
    timeout: float = 10.0,
) -> Callable[[T], T]:
    """Decorator for the class of an injector; see `Preamble`. Raises `ValueError` for a time-out that is none."""
    if timeout <= 0:
        raise ValueError(f"the time-out of an injector is more than 0 seconds, not {timeout!r}")
    told = Preamble(name=name, once=once, when=when, env=tuple(env), timeout=timeout)

    def tell(injector: T) -> T:
        injector.preamble = told  # type: ignore[attr-defined]
        return injector

    return tell


def preamble_of(injector: object) -> Preamble:
    """The preamble of an injector, its own or that of its class; with a name in any case."""
    told = getattr(injector, "preamble", None)
    told = told if isinstance(told, Preamble) else Preamble()
    if told.name:
        return told
    name = getattr(injector, "__name__", None) or type(injector).__name__
    return Preamble(name=name, once=told.once, when=told.when, env=told.env, timeout=told.timeout)
