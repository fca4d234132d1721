"""The injectors of an application, an extension or a session, by timing, and asking those of one timing.

One that fails, takes too long, or gives what does not fit its timing is skipped, and what went wrong is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import environ
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from aar.injectors import combining
from aar.injectors.injections import (
    AfterResponseInjection,
    AfterToolInjection,
    AnyInjection,
    BeforeChatInjection,
    BeforeCompactionInjection,
    CompactionChange,
    ErrorChange,
    Injection,
    OnErrorInjection,
    RequestChange,
    ResponseChange,
)
from aar.injectors.preamble import preamble_of
from aar.injectors.timings import Moment, Preamble, Switch, Timing
from aar.messages.events import Compacted, ToolCall
from aar.messages.provider import NeutralMessage, ProviderResponse
from aar.messages.tools import ToolOutcome

__all__ = ["Injectors", "Ran"]

R = TypeVar("R")
A = TypeVar("A", bound=AnyInjection)

_FITTING: Mapping[Timing, tuple[type, ...]] = {
    Timing.BEFORE_CHAT: (Injection, BeforeChatInjection),
    Timing.AFTER_RESPONSE: (Injection, AfterResponseInjection),
    Timing.BEFORE_TOOL_EXECUTION: (Mapping,),
    Timing.AFTER_TOOL_EXECUTION: (Injection, AfterToolInjection),
    Timing.ON_ERROR: (Injection, OnErrorInjection),
    Timing.BEFORE_COMPACTION: (Injection, BeforeCompactionInjection),
    Timing.AFTER_COMPACTION: (Injection,),
    Timing.ON_AGENT_SWITCH: (Injection,),
    Timing.TRANSFORM_MESSAGES: (list, tuple),
}


class _Entry(NamedTuple):
    """`ask` is given the moment and what the timing is about."""

    ask: Callable[..., Awaitable[Any]]
    preamble: Preamble


@dataclass
class Ran(Generic[R]):
    """What came of asking: the decision, what is to be said in order, what went wrong, and who has spoken for good."""

    result: R
    said: list[AnyInjection] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether anything is to be put down: decisions aside."""
        return bool(self.said or self.problems or self.fired)


class Injectors:
    """Objects with methods of `timings.py`, each asked in the order in which it was added. Raises `TypeError`."""

    def __init__(self, injectors: Iterable[object] = ()) -> None:
        self._by_timing: dict[Timing, tuple[_Entry, ...]] = {}
        for injector in injectors:
            self.add(injector)

    def add(self, injector: object) -> None:
        """One more, at each timing that it has a method for. Raises `TypeError` when there is none."""
        told, found = preamble_of(injector), False
        for timing in Timing:
            method = getattr(injector, timing.value, None)
            if callable(method) and not isinstance(injector, type):
                self.add_function(timing, method, told)
                found = True
        if not found:
            names = ", ".join(timing.value for timing in Timing)
            raise TypeError(f"{injector!r} is no injector: it has none of the methods {names}")

    def add_function(self, timing: Timing, ask: Callable[..., Any], told: Preamble) -> None:
        """A function that is asked at this timing, as the method of an injector would be."""
        self._by_timing[timing] = (*self._by_timing.get(timing, ()), _Entry(ask, told))

    def and_then(self, other: Injectors) -> Injectors:
        """These, followed by those."""
        both = Injectors()
        for timing in Timing:
            entries = self._by_timing.get(timing, ()) + other._by_timing.get(timing, ())
            if entries:
                both._by_timing[timing] = entries
        return both

    def names(self, timing: Timing) -> list[str]:
        return [entry.preamble.name for entry in self._by_timing.get(timing, ())]

    def __contains__(self, timing: object) -> bool:
        """Whether anybody is asked at this timing."""
        return timing in self._by_timing

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._by_timing.values())

    # --- asking -----------------------------------------------------------------------------------

    async def before_chat(self, at: Moment) -> Ran[RequestChange]:
        ran, given = await self._all(Timing.BEFORE_CHAT, at, RequestChange())
        ran.result = combining.request_of(one.request for one in given if isinstance(one, BeforeChatInjection))
        return ran

    async def after_response(self, at: Moment, response: ProviderResponse) -> Ran[ResponseChange]:
        """Each sees the answer as those before it have left it."""
        ran = Ran(ResponseChange())
        changes: list[ResponseChange] = []
        for entry in self._by_timing.get(Timing.AFTER_RESPONSE, ()):
            given = await self._asked(ran, Timing.AFTER_RESPONSE, entry, at, response)
            if isinstance(given, AfterResponseInjection):
                changes.append(given.response)
                if given.response.content is not None:
                    response = replace(response, content=given.response.content)
        ran.result = combining.response_of(changes)
        return ran

    async def before_tool_execution(
        self, at: Moment, call: ToolCall, check: Callable[[ToolCall], str | None]
    ) -> Ran[ToolCall]:
        """The call with the arguments that the last one gave. `check` says what is wrong with them, or `None`."""
        ran = Ran(call)
        for entry in self._by_timing.get(Timing.BEFORE_TOOL_EXECUTION, ()):
            given = await self._asked(ran, Timing.BEFORE_TOOL_EXECUTION, entry, at, ran.result)
            if isinstance(given, Mapping):
                changed = ran.result.model_copy(update={"arguments": dict(given)})
                problem = check(changed)
                if problem is None:
                    ran.result = changed
                else:
                    text = f"it gave arguments that do not fit {call.tool_name!r}: {problem}"
                    ran.problems.append(_told(Timing.BEFORE_TOOL_EXECUTION, entry, text))
        return ran

    async def after_tool_execution(self, at: Moment, call: ToolCall, outcome: ToolOutcome) -> Ran[ToolOutcome]:
        """The outcome with the output that the last one gave; each sees it as those before it have left it."""
        ran = Ran(outcome)
        for entry in self._by_timing.get(Timing.AFTER_TOOL_EXECUTION, ()):
            given = await self._asked(ran, Timing.AFTER_TOOL_EXECUTION, entry, at, call, ran.result)
            if isinstance(given, AfterToolInjection) and given.output is not None:
                ran.result = ran.result._replace(output=str(given.output))
        return ran

    async def on_error(self, at: Moment, error: Exception) -> Ran[ErrorChange]:
        ran, given = await self._all(Timing.ON_ERROR, at, ErrorChange(), error)
        ran.result = combining.error_of(one.error for one in given if isinstance(one, OnErrorInjection))
        return ran

    async def before_compaction(self, at: Moment) -> Ran[CompactionChange]:
        ran, given = await self._all(Timing.BEFORE_COMPACTION, at, CompactionChange())
        changes = (one.compaction for one in given if isinstance(one, BeforeCompactionInjection))
        ran.result = combining.compaction_of(changes)
        return ran

    async def after_compaction(self, at: Moment, done: Compacted) -> Ran[None]:
        return (await self._all(Timing.AFTER_COMPACTION, at, None, done))[0]

    async def on_agent_switch(self, at: Moment, switch: Switch) -> Ran[None]:
        return (await self._all(Timing.ON_AGENT_SWITCH, at, None, switch))[0]

    async def transform_messages(self, at: Moment, messages: Sequence[NeutralMessage]) -> Ran[list[NeutralMessage]]:
        """Each gets what the one before gave. What one that fails was given is what the next one gets."""
        ran = Ran(list(messages))
        for entry in self._by_timing.get(Timing.TRANSFORM_MESSAGES, ()):
            given = await self._asked(ran, Timing.TRANSFORM_MESSAGES, entry, at, list(ran.result))
            if given is not None and all(isinstance(one, Mapping) and "role" in one for one in given):
                ran.result = list(given)
            elif given is not None:
                ran.problems.append(_told(Timing.TRANSFORM_MESSAGES, entry, "it gave what are no messages"))
        return ran

    async def _all(self, timing: Timing, at: Moment, result: R, *about: Any) -> tuple[Ran[R], list[AnyInjection]]:
        ran = Ran(result)
        given = [await self._asked(ran, timing, entry, at, *about) for entry in self._by_timing.get(timing, ())]
        return ran, [one for one in given if isinstance(one, AnyInjection)]

    async def _asked(self, ran: Ran[Any], timing: Timing, entry: _Entry, at: Moment, *about: Any) -> Any:
        """What one gives, if it fits; `None` for one that is not asked, has nothing to say, or went wrong."""
        told, given = entry.preamble, None
        if told.once and (told.name in at.fired or told.name in ran.fired):
            return None
        try:
            with trio.move_on_after(told.timeout) as limit:
                given = await _given(entry, at, about)
        except (Exception, SystemExit) as error:  # a wall: injectors are other people's code
            ran.problems.append(_told(timing, entry, _words(error)))
            return None
        if limit.cancelled_caught:
            ran.problems.append(_told(timing, entry, f"it took longer than {told.timeout:g} s"))
            return None
        if given is not None and not isinstance(given, _FITTING[timing]):
            ran.problems.append(_told(timing, entry, f"it gave a {type(given).__name__}, which does not fit here"))
            return None
        if given is not None and told.once:
            ran.fired.append(told.name)
        if isinstance(given, AnyInjection):
            given = given if given.name else replace(given, name=told.name)
            ran.said.append(given)
        return given


async def _given(entry: _Entry, at: Moment, about: Sequence[Any]) -> Any:
    told = entry.preamble
    here = replace(at, environ={name: environ[name] for name in told.env if name in environ}) if told.env else at
    if told.when is not None:
        wanted = here.holds(told.when) if isinstance(told.when, str) else told.when(here)
        if not (await wanted if inspect.isawaitable(wanted) else wanted):
            return None
    given = entry.ask(here, *about)
    return await given if inspect.isawaitable(given) else given


def _told(timing: Timing, entry: _Entry, problem: str) -> str:
    return f"Injector {entry.preamble.name!r}, {timing.value}: {problem}"


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # whose own words fail, too
        return type(error).__name__
