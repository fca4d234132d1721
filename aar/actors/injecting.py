"""What the injectors of a session do to its turns: asked at their timings, heard by the model, put on record.

A session without injectors has none of this. What is said waits here until it is on record, or until the model has seen
it; what was said in a turn that is over waits no longer.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

from aar.injectors import AnyInjection, Injectors, Moment, Ran, RequestChange, Switch, Timing
from aar.injectors.combining import fitting
from aar.journal.journal import Journal
from aar.journal.sizes import CHARACTERS_PER_TOKEN
from aar.journal.state import Session
from aar.messages.events import (
    Compacted,
    Event,
    Notice,
    StepRestarted,
    ToolCall,
    TurnStarted,
    UserMessage,
)
from aar.messages.kinds import Kind, display_only, metadata
from aar.messages.provider import History, NeutralMessage, ProviderRequest, ProviderResponse
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolRegistry

__all__ = ["MOST_RETRIES", "Bench", "Injecting", "injecting_for"]

MOST_RETRIES = 3  # of one step, at the wish of injectors
TRIMMED_FROM = 0.5  # of the window: from here on the model sees what is said twice only once

Record = Callable[..., Awaitable[Any]]
logger = logging.getLogger(__name__)


class Bench(Protocol):
    """What injectors may know of a session."""

    @property
    def session_id(self) -> str: ...
    @property
    def cwd(self) -> str: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def offered(self) -> ToolRegistry: ...
    @property
    def config(self) -> AgentConfig: ...


def injecting_for(journal: Journal, injectors: Injectors, *, last_words: bool = False) -> Injecting | None:
    """The injectors of a session; `None` when there are none, for then nothing is to be asked.

    With `last_words` the model has one step beyond the most that there are.
    """
    return Injecting(injectors, _fired(journal.session.events), last_words) if injectors else None


def _fired(facts: Sequence[Event]) -> set[str]:
    """Injectors that speak only once and have done so."""
    return {str(fact.data["fired"]) for fact in facts if isinstance(fact, Notice) and "fired" in fact.data}


class _Waiting(NamedTuple):
    """Said in this turn, or between two, and not yet heard."""

    turn_id: str
    said: AnyInjection

    @property
    def is_for_record(self) -> bool:
        return self.said.role == "user" and not self.said.eject and bool(self.said.text)

    @property
    def stays(self) -> bool:
        """Also when the model has seen it."""
        return self.said.role == "system" and not self.said.eject


class Injecting:
    """The injectors of one session."""

    def __init__(self, injectors: Injectors, fired: set[str], last_words: bool = False) -> None:
        self._injectors = injectors
        self._fired = fired
        self._last_words = last_words
        self._waiting: list[_Waiting] = []
        self._sent: list[_Waiting] = []
        self._system = ""
        self._tools: frozenset[str] | None = None
        self._step = self._retries = 0
        self._wants_more = False

    # --- a turn ---

    def begin_turn(self, turn_id: str) -> None:
        """What was said before it, and is meant for it, is of this turn now; what was said in others is gone."""
        self._waiting = [one._replace(turn_id=turn_id) for one in self._waiting if not one.turn_id]
        self._sent, self._step = [], 0

    def most_steps(self, config: AgentConfig) -> int:
        """The steps of a turn, with the one for last words."""
        return config.max_steps + self._last_words

    async def before_chat(self, bench: Bench) -> RequestChange:
        """Ask before a step, and put on record what is to stay there. The model may be left unasked."""
        self._step += 1
        self._retries = 0
        self._wants_more = False
        ran = await self._injectors.before_chat(self._moment(bench))
        self._system = ran.result.append_system
        await self._take(bench, ran, bench.journal.append)
        facts = [_message(one.said) for one in self._waiting if one.is_for_record]
        if facts:
            await bench.journal.append(*facts)
        self._waiting = [one._replace(said=_without_text(one.said)) for one in self._waiting]
        return ran.result

    async def into(self, bench: Bench, request: ProviderRequest) -> ProviderRequest:
        """The request with what is said in it, for this call only."""
        self._sent = list(self._waiting)
        at = self._moment(bench)
        request = replace(request, messages=self._followed(request.messages, at), system=self._prompt(request.system))
        request = self._with_fewer_tools(request)
        if Timing.TRANSFORM_MESSAGES in self._injectors:
            messages = list(request.messages)
            ran = await self._injectors.transform_messages(at, messages)
            if not _are_same(ran.result, messages):  # else what is encoded already need not be encoded again
                request = replace(request, messages=History(tail=ran.result))
            await self._take(bench, ran, bench.journal.append)
        return request

    def _followed(self, history: History, at: Moment) -> History:
        texts = [one.said.text for one in self._sent if one.said.role == "user" and one.said.text]
        if at.window and at.tokens > at.window * TRIMMED_FROM:
            texts = [text for index, text in enumerate(texts) if text not in texts[index + 1 :]]
        for text in texts:
            message: NeutralMessage = {"role": "user", "content": text}
            history = history.followed_by(message)
        return history

    def _prompt(self, system: str) -> str:
        texts = [one.said.text for one in self._sent if one.said.role == "system" and one.said.text]
        return "\n\n".join(dict.fromkeys(text for text in (system, *texts, self._system) if text))

    def _with_fewer_tools(self, request: ProviderRequest) -> ProviderRequest:
        filters = [one.said.tools for one in self._sent if one.said.tools is not None]
        if not filters:
            self._tools = None
            return request
        known = request.tools or ()
        self._tools = frozenset(fitting((tool.name for tool in known), filters))
        return replace(request, tools=tuple(tool for tool in known if tool.name in self._tools) or None)

    async def after_response(self, bench: Bench, response: ProviderResponse) -> ProviderResponse:
        """The answer as it goes on record. One that was never given has nothing in it."""
        self._waiting = [one for one in self._waiting if one.stays or one not in self._sent]
        if Timing.AFTER_RESPONSE not in self._injectors:
            return response
        ran = await self._injectors.after_response(self._moment(bench), response)
        await self._take(bench, ran, bench.journal.append)
        self._wants_more = _has_message(ran)
        if ran.result.skip_storing:
            response = replace(response, content="", tool_calls=(), reasoning=())
            why = "An injector took this answer back."
        elif ran.result.content is not None:
            response = replace(response, content=ran.result.content)
            why = "An injector changed this answer:"
        else:
            return response
        bench.journal.hint(StepRestarted(data={"why": why}))  # readers forget what they have seen of it
        return response

    def wants_more(self) -> bool:
        """Whether something was said that the model has to hear before the turn may end."""
        return self._wants_more

    async def on_error(self, bench: Bench, error: Exception) -> Literal["retry", "skip", ""]:
        """What is to be done about a model call that failed."""
        if Timing.ON_ERROR not in self._injectors:
            return ""
        ran = await self._injectors.on_error(self._moment(bench), error)
        await self._take(bench, ran, bench.journal.append)
        if ran.result.retry and self._retries < MOST_RETRIES:
            self._retries += 1
            return "retry"
        self._wants_more = ran.result.skip and _has_message(ran)
        return "skip" if ran.result.skip else ""

    # --- tool calls ---

    def allows(self, tool: str) -> bool:
        """Whether the tool was among those that the model could choose from."""
        return self._tools is None or tool in self._tools

    async def before_tool(
        self, bench: Bench, call: ToolCall, check: Callable[[ToolCall], str | None], record: Record
    ) -> ToolCall:
        """The call as it is to be run. `check` says what is wrong with its arguments."""
        if Timing.BEFORE_TOOL_EXECUTION not in self._injectors:
            return call
        ran = await self._injectors.before_tool_execution(self._moment(bench), call, check)
        await self._take(bench, ran, record)
        return ran.result

    async def after_tool(self, bench: Bench, call: ToolCall, outcome: ToolOutcome, record: Record) -> ToolOutcome:
        """The outcome as the model gets it."""
        if Timing.AFTER_TOOL_EXECUTION not in self._injectors:
            return outcome
        ran = await self._injectors.after_tool_execution(self._moment(bench), call, outcome)
        await self._take(bench, ran, record)
        return ran.result

    # --- beside steps ---

    async def before_compaction(self, bench: Bench) -> bool:
        """Whether the conversation may be summarised."""
        ran = await self._injectors.before_compaction(self._moment(bench))
        await self._take(bench, ran, bench.journal.append)
        return not ran.result.skip

    async def after_compaction(self, bench: Bench, done: Compacted) -> None:
        await self._take(bench, await self._injectors.after_compaction(self._moment(bench), done), bench.journal.append)

    async def switched(self, bench: Bench, before: AgentConfig, after: AgentConfig) -> None:
        """Another agent, mode or model answers from now on."""
        ran = await self._injectors.on_agent_switch(self._moment(bench), Switch(before, after))
        await self._take(bench, ran, bench.journal.append)

    # --- the rest ---

    def _moment(self, bench: Bench) -> Moment:
        session, config = bench.journal.session, bench.config
        return Moment(
            session_id=bench.session_id,
            cwd=bench.cwd,
            config=config,
            turn_id=session.turn_id,
            step=self._step,
            tokens=session.transcript.sizes().total // CHARACTERS_PER_TOKEN,
            window=config.effective_context_window,
            tools=tuple(bench.offered.names()),
            fired=frozenset(self._fired),
            facts_of_turn=lambda: tuple(_since_turn_began(session.events))[::-1],
            all_facts=lambda: tuple(session.events),
            holds=lambda condition: _holds(condition, session, config, self._step),
        )

    async def _take(self, bench: Bench, ran: Ran[Any], record: Record) -> None:
        """Put down what came of asking."""
        if not ran:
            return
        facts: list[Event] = []
        for problem in ran.problems:
            logger.warning("session %s: %s", bench.session_id, problem)
            facts.append(Notice(kind="hook_failed", text=problem))
        late = self._fired.intersection(ran.fired)  # calls that run side by side ask at the same time
        for name in ran.fired:
            if name not in late:
                self._fired.add(name)
                facts.append(metadata(fired=name))
        turn_id = bench.journal.session.turn_id
        for said in ran.said:
            if said.name in late:
                continue
            if said.display_only and said.text:
                facts.append(display_only(said.text, injector=said.name))
                said = replace(said, content="")
            if said.text or said.tools is not None:
                self._waiting.append(_Waiting(turn_id, said))
            if said.text and said.eject:  # whoever watches sees it; nobody stores it
                data = {"injector": said.name}
                bench.journal.hint(Notice(kind=Kind.SYNTHETIC.value, text=said.text, data=data))
        if facts:
            await record(*facts)


def _holds(condition: str, session: Session, config: AgentConfig, step: int) -> bool:
    """Raises `InvalidSetting` for one that cannot be understood, or looks outside the session."""
    from aar.actors.session_facts import facts_of  # few injectors have a condition
    from aar.conditions import parse_condition

    return parse_condition(condition).holds_now(facts_of(session, config, iteration=step))


def _are_same(one: Sequence[NeutralMessage], other: Sequence[NeutralMessage]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _has_message(ran: Ran[Any]) -> bool:
    """A word in the system prompt is none: the conversation would end with what the model itself has said."""
    return any(one.text and one.role == "user" and not one.display_only for one in ran.said)


def _message(said: AnyInjection) -> UserMessage:
    return UserMessage(content=said.text, data={"kind": "injected", "injector": said.name})


def _without_text(said: AnyInjection) -> AnyInjection:
    """What is on record need not be said once more."""
    return replace(said, content="") if said.role == "user" and not said.eject else said


def _since_turn_began(facts: Sequence[Event]) -> Iterator[Event]:
    """From the newest one back to the beginning of its turn."""
    for fact in reversed(facts):
        if isinstance(fact, TurnStarted):
            return
        yield fact
