"""What is asked between the steps of a session that somebody drives step by step; other sessions have nothing of it.

Whoever drives it decides what is said next, when it is enough, and how tools run. The turn knows only hooks and a list
of what is waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

import trio

from aar.actors.closing import as_event
from aar.actors.workbench import Workbench, heard
from aar.errors import StoreError
from aar.hooks import Hooks
from aar.journal.journal import Journal
from aar.journal.transcript import to_messages
from aar.messages.events import UserMessage
from aar.messages.provider import ProviderRequest
from aar.messages.tools import ToolOutcome
from aar.providers.base import Provider
from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec, invoke

__all__ = ["Between", "StepRules"]

T = TypeVar("T")


class Between(Protocol):
    """Who drives the session. All of it is about the turn with this id, which may be somebody else's."""

    def has_more(self, turn_id: str) -> bool:
        """Whether the turn goes on although the model has stopped."""

    async def said(self, turn_id: str) -> Sequence[UserMessage] | None:
        """Before each model call: what is said first, or `None` to end the turn here."""

    def take_back(self, said: Iterable[UserMessage]) -> None:
        """This could not be put on record."""

    async def begins(self, turn_id: str) -> None:
        """The model is asked now."""

    async def leave(self) -> None:
        """End the turn as if the model had stopped."""

    def terminates(self, call_id: str, is_last: bool) -> None:
        """What a tool has said about ending the turn."""


class StepRules(NamedTuple):
    """`hooks` run after those of the application and of extensions. `execution` is how tools run."""

    between: Between
    hooks: Hooks = Hooks()
    execution: Literal["parallel", "sequential", "batch"] = "parallel"

    def waiting(self, journal: Journal) -> list[UserMessage]:
        """Where others steer the session."""
        return _Waiting(self.between, journal)

    def model(self, in_force: Callable[[], Provider]) -> Provider:
        """The model of the step that begins. Until it is asked its settings may change."""
        return cast("Provider", _Latest(in_force))

    def toolbox(self, tools: ToolRegistry, threads: trio.CapacityLimiter) -> ToolRegistry:
        """The same tools, run by these rules."""
        return _Toolbox(self, tools.list_tools(), threads)

    def bench(self, bench: Workbench) -> Workbench:
        """The same session, with somebody between its steps who may take as long as it takes."""
        theirs = bench.hooks.and_then(self.hooks)
        limit = theirs.time_limit
        hooks = Hooks(
            before_provider_call=(_Gate(bench, self.between), *_limited(theirs.before_provider_call, limit)),
            after_provider_call=_limited(theirs.after_provider_call, limit),
            before_tool_call=_limited(theirs.before_tool_call, limit),
            after_tool_call=_limited(theirs.after_tool_call, limit),
            before_user_message=_limited(theirs.before_user_message, limit),
            time_limit=float("inf"),
        )
        return replace(bench, hooks=hooks)


def _limited(hooks: Iterable[Callable[..., Awaitable[T]]], limit: float) -> tuple[Callable[..., Awaitable[T]], ...]:
    def limited(hook: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        async def run(*subject: Any) -> T:
            with trio.fail_after(limit):
                return await hook(*subject)

        return run

    return tuple(limited(hook) for hook in hooks)


class _Waiting(list[UserMessage]):
    """True also when it is empty and there is more to come: the turn goes on, and asks at its next step."""

    def __init__(self, between: Between, journal: Journal) -> None:
        super().__init__()
        self._between = between
        self._journal = journal

    def __bool__(self) -> bool:
        return len(self) > 0 or self._between.has_more(self._journal.session.turn_id)


class _Latest:
    """The provider in force when it is used first, and from then on the same."""

    def __init__(self, in_force: Callable[[], Provider]) -> None:
        self._in_force = in_force
        self._provider: Provider | None = None

    def __getattr__(self, name: str) -> Any:
        if self._provider is None:
            self._provider = self._in_force()
        return getattr(self._provider, name)


class _Gate:
    """The first hook before each model call. Everything that came before it is on record."""

    def __init__(self, bench: Workbench, between: Between) -> None:
        self._bench = bench
        self._between = between

    async def __call__(self, request: ProviderRequest) -> ProviderRequest:
        turn_id = self._bench.journal.session.turn_id
        said = await self._between.said(turn_id)
        facts = await self._recorded(said) if said else said
        if facts is None:
            await self._between.leave()
            await trio.sleep_forever()  # until the turn is ended around us
        history = request.messages
        for message in to_messages(facts or ()):
            history = history.followed_by(message)
        await self._between.begins(turn_id)
        return replace(request, messages=history) if facts else request

    async def _recorded(self, said: Sequence[UserMessage]) -> Sequence[UserMessage] | None:
        """What people say as it is on record; `None` when it could not be put there, and the turn has to end."""
        try:
            facts = [await heard(self._bench, one) for one in said]
            await self._bench.journal.append(*facts)
        except BaseException as error:
            self._between.take_back(said)
            if not isinstance(error, StoreError):
                raise
            await self._bench.journal.append(as_event(error))  # raises when there is still no room
            return None
        return facts


class _Toolbox(ToolRegistry):
    """Tools as these rules run them, also those that come later."""

    def __init__(self, rules: StepRules, tools: Sequence[ToolSpec], threads: trio.CapacityLimiter) -> None:
        super().__init__()
        self._rules = rules
        self._threads = threads
        for spec in tools:
            self.add(spec)

    def add(self, spec: ToolSpec) -> None:
        super().add(replace(spec, execution=self._execution(spec), handler=self._noting(spec)))

    def _execution(self, spec: ToolSpec) -> Literal["parallel", "sequential"]:
        if self._rules.execution == "sequential" or spec.execution == "sequential":
            return "sequential"
        return "sequential" if self._rules.execution == "batch" and spec.execution is None else "parallel"

    def _noting(self, spec: ToolSpec) -> Callable[..., Awaitable[Any]] | None:
        if spec.handler is None:
            return None

        async def run(ctx: ToolContext, **arguments: Any) -> Any:
            given = await invoke(spec, arguments, ctx, limiter=self._threads)
            is_last = isinstance(given, ToolOutcome) and given.terminate
            self._rules.between.terminates(ctx.tool_call_id, is_last)
            return given

        return run
