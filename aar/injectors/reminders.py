"""Injectors that come with Aar: what they tell the model so that it goes on, comes to an end, or knows where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aar.injectors.injections import Injection
from aar.injectors.preamble import preamble
from aar.injectors.timings import Moment
from aar.messages.events import Compacted, Event, ToolCall, TurnStarted, UserMessage
from aar.messages.provider import ProviderResponse
from aar.messages.todos import rendered, todos_of

__all__ = ["DoneReminder", "EmptyResponse", "MaxSteps", "SessionStats", "TodoNotFinished", "TodoReminder"]

DONE_TOOL = "done"


@preamble("todo_reminder")
@dataclass(frozen=True)
class TodoReminder:
    """Every so many steps of a turn: what is still to be done. For one call."""

    every: int = 10

    async def before_chat(self, at: Moment) -> Injection | None:
        if at.step % self.every:
            return None
        todos = [todo for todo in todos_of(at.all_facts()) if todo.is_open]
        return Injection(content=f"Still to be done:\n{rendered(todos)}", eject=True) if todos else None


@preamble("todo_not_finished")
@dataclass(frozen=True)
class TodoNotFinished:
    """The model stops while its list has open entries: it is told to go on, so many times in a row at most."""

    most: int = 3

    async def after_response(self, at: Moment, response: ProviderResponse) -> Injection | None:
        todos = [] if response.tool_calls else [todo for todo in todos_of(at.all_facts()) if todo.is_open]
        if not todos or _in_a_row(at.facts_of_turn(), "todo_not_finished") >= self.most:
            return None
        return Injection(content=f"Not all is done. Go on, or take off what is not needed:\n{rendered(todos)}")


@preamble("empty_response")
@dataclass(frozen=True)
class EmptyResponse:
    """An answer with nothing in it: the model is asked to say or do something, so many times in a row at most."""

    most: int = 2

    async def after_response(self, at: Moment, response: ProviderResponse) -> Injection | None:
        is_empty = not response.content.strip() and not response.tool_calls
        if not is_empty or _in_a_row(at.facts_of_turn(), "empty_response") >= self.most:
            return None
        return Injection(content="Your last answer was empty. Go on with the task, or say how it has ended.")


@preamble("done_reminder")
@dataclass(frozen=True)
class DoneReminder:
    """The model stops without having called `done`, which it has: it is reminded, so many times in a row at most."""

    most: int = 1

    async def after_response(self, at: Moment, response: ProviderResponse) -> Injection | None:
        if response.tool_calls or DONE_TOOL not in at.tools:
            return None
        if _in_a_row(at.facts_of_turn(), "done_reminder") >= self.most:
            return None
        return Injection(content=f"If the task is finished, call `{DONE_TOOL}`. If it is not, go on with it.")


@preamble("max_steps")
@dataclass(frozen=True)
class MaxSteps:
    """Behind the last step of a turn there is one more, without tools, for an answer."""

    async def before_chat(self, at: Moment) -> Injection | None:
        if at.step <= at.config.max_steps:
            return None
        text = "No more steps are left, and no tools. Say what is done, what is not, and what comes next."
        return Injection(content=text, tools=(), eject=True)


@preamble("session_stats")
@dataclass(frozen=True)
class SessionStats:
    """At the beginning of every so many turns: how long the conversation is. For one call."""

    every: int = 1

    async def before_chat(self, at: Moment) -> Injection | None:
        facts = at.all_facts()
        turns = _count(facts, TurnStarted)
        if at.step != 1 or turns % self.every:
            return None
        told = [f"turn {turns}", f"{_count(facts, ToolCall)} tool calls", f"about {at.tokens} tokens"]
        if at.window:
            told[-1] += f" of {at.window} ({100 * at.tokens // at.window} %)"
        if compactions := _count(facts, Compacted):
            told.append(f"summarised {compactions} times")
        return Injection(content=f"This session so far: {', '.join(told)}.", eject=True)


def _count(facts: Sequence[Event], kind: type[Event]) -> int:
    return sum(isinstance(fact, kind) for fact in facts)


def _in_a_row(facts: Sequence[Event], injector: str) -> int:
    """How often this one has spoken in the turn since the model last called a tool."""
    count = 0
    for fact in reversed(facts):
        if isinstance(fact, ToolCall):
            break
        count += isinstance(fact, UserMessage) and fact.data.get("injector") == injector
    return count
