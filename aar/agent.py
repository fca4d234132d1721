"""`Agent`: the whole of Aar behind one object, for programs that embed it.

    agent = Agent(config)
    session = await agent.run("What does this project do?")
    print(session.last_text())

Nothing is opened when an agent is made. A bare `await agent.run()` opens a runtime and closes it again; inside
`async with agent:` all calls share one. Conversations live in memory unless a `store` is given.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import trio

from aar.client import SessionHandle
from aar.errors import AarError, SessionError
from aar.handle import check_prompt
from aar.hooks import Hooks
from aar.journal.state import Session
from aar.journal.store import Store
from aar.kernel.alone import errors_alone
from aar.messages.approvals import DecisionName
from aar.messages.content import ContentBlock
from aar.messages.events import ApprovalRequested, Event, ProviderSwitchEvent, ToolCall, TurnEnded, UserMessage
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers import check_provider_name, open_provider
from aar.providers.base import Provider
from aar.runtime import Runtime, check_function, check_given, open_runtime, toolbox_for
from aar.tools.registry import ToolRegistry, ToolSpec

if TYPE_CHECKING:
    from aar.actors.stepping import StepRules
    from aar.engine import Engine, Options

__all__ = ["Agent", "ApprovalCallback", "ApprovalResult", "answer_question"]

EVENT_PACE = 16  # events that subscribers may be behind before the turn waits for them

logger = logging.getLogger(__name__)


class ApprovalResult(StrEnum):
    """What an approval callback may answer."""

    APPROVED = "approved"
    DENIED = "denied"
    APPROVED_ALWAYS = "approved_always"


_DECISIONS: dict[str, DecisionName] = {
    ApprovalResult.APPROVED: "allow",
    ApprovalResult.APPROVED_ALWAYS: "allow_always",
}

Subscriber = Callable[[Event], Any]
ApprovalCallback = Callable[[ToolSpec, ToolCall], "ApprovalResult | str | Awaitable[ApprovalResult | str]"]


class Agent:
    """`provider`, `registry` and `hooks` are the application's own; the built-in tools that the settings enable come
    with them. Without an `approval_callback` every question is answered with no.

    `mcp_servers` are connected while a runtime is open; their tools come with the others.
    `cwd` is the folder in which tools work; the process's own by default, read once, here. With `options` each run goes
    as those of an engine do. Raises `ValueError` for a provider that Aar does not know.
    """

    def __init__(
        self,
        config: AgentConfig | None = None,
        provider: Provider | None = None,
        registry: ToolRegistry | None = None,
        approval_callback: ApprovalCallback | None = None,
        *,
        store: Store | None = None,
        hooks: Hooks | None = None,
        cwd: str | os.PathLike[str] | None = None,
        home: Path | None = None,
        mcp_servers: Sequence[McpServer] = (),
        options: Options | None = None,
    ) -> None:
        check_given(config, provider, registry)
        check_function("approval_callback", approval_callback)
        self.config = config or AgentConfig()
        self.cwd = os.path.realpath(cwd if cwd is not None else os.getcwd())
        if provider is None:
            check_provider_name(self.config.resolve_provider().name)
        self._given = provider
        self._extra = registry
        self._approval_callback = approval_callback
        self._store = store
        self._hooks = hooks
        self._home = home
        self._mcp_servers = tuple(mcp_servers)
        self._options = options
        self._engines: dict[str, Engine] = {}  # where there are options
        self._subscribers: list[Subscriber] = []
        self._stack: AsyncExitStack | None = None
        self._runtime: Runtime | None = None
        self._live: dict[str, tuple[SessionHandle, AgentConfig]] = {}
        self._busy: set[str] = set()  # sessions in a run; a second one would add its facts twice

    @property
    def provider(self) -> Provider:
        """The provider in use: the one passed in, else one with these settings, for looking at its capabilities."""
        return self._given or open_provider(self.config.resolve_provider())

    @property
    def registry(self) -> ToolRegistry:
        """The tools a new session gets."""
        return toolbox_for(self.config, self._extra)

    # --- one runtime for many calls ---

    async def __aenter__(self) -> Agent:
        async with AsyncExitStack() as stack:
            if self._given is not None:
                stack.push_async_callback(self._given.aclose)  # after the sessions that use it have ended
            self._runtime = await stack.enter_async_context(self._open())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._runtime = self._stack, None, None
        self._live.clear()
        if stack is not None:
            await stack.__aexit__(kind, error, traceback)

    def _open(self) -> Any:
        return open_runtime(
            self.config,
            provider=self._given,
            tools=self._extra,
            store=self._store,
            hooks=self._hooks,
            home=self._home,
        )

    @asynccontextmanager
    async def _some_runtime(self) -> AsyncIterator[Runtime]:
        if self._runtime is not None:
            yield self._runtime
            return
        async with self._open() as runtime:
            try:
                yield runtime
            finally:
                self._live.clear()

    # --- running ---

    async def run(
        self,
        prompt: str | list[ContentBlock] | list[dict[str, Any]],
        session: Session | None = None,
        cancel_event: trio.Event | None = None,
    ) -> Session:
        """One turn. Extends and returns `session`, or a new one; `session.state` tells how the turn ended.

        Setting `cancel_event` ends the turn after the step that runs. Cancelling the caller's scope ends it at once,
        and the session still has everything that happened. Model and tool failures are events, not exceptions;
        raises `StoreUnavailable` when what happens cannot be recorded, `InvalidMessage` for a prompt that is empty.
        """
        said = _parts(prompt)
        check_prompt(said)
        session = session if session is not None else Session()
        if session.session_id in self._busy:
            raise SessionError(f"session {session.session_id} is in a run already: wait for it, or use another session")
        self._busy.add(session.session_id)
        try:
            with errors_alone():
                async with self._some_runtime() as runtime:
                    handle, known = await self._handle(runtime, session)
                    try:
                        await self._run(handle, said, known, cancel_event)
                    finally:
                        self._bring_home(handle, session, known)
        finally:
            self._busy.discard(session.session_id)
        return session

    async def chat(self, prompt: str, session: Session | None = None) -> str:
        """The answer's text, or an empty string."""
        return (await self.run(prompt, session)).last_text()

    def run_sync(self, prompt: str, session: Session | None = None) -> Session:
        """`run` for programs that do not use Trio. From asyncio call it in a thread: `asyncio.to_thread`."""
        if trio.lowlevel.in_trio_run():
            raise RuntimeError("Trio runs here already: say `await agent.run(prompt)`")
        return trio.run(self.run, prompt, session)

    async def _handle(self, runtime: Runtime, session: Session) -> tuple[SessionHandle, int]:
        """The live session for the caller's one, and how many of its facts the caller has already."""
        handle, config = self._live.get(session.session_id, (None, None))
        if handle is not None and config is not self.config:
            await runtime.sessions.close(session.session_id)
            handle = None
        if handle is None:
            handle = await self._opened(runtime, session)
            self._live[session.session_id] = (handle, self.config)
        if not session.events:
            return handle, 0
        recorded = {record.event.id for record in handle.records()}
        missing = [event for event in session.events if event.id not in recorded]
        if missing:
            await handle.adopt(missing)
        return handle, handle.seq

    async def _opened(self, runtime: Runtime, session: Session) -> SessionHandle:
        if self._options is None:
            return await self._open_session(runtime, session)
        from aar.driving import attach_engine, step_rules  # most agents have no options
        from aar.engine import Engine

        engine = self._engines[session.session_id] = Engine(self._options)
        handle = await self._open_session(runtime, session, step_rules(engine))
        await attach_engine(engine, handle, self.config)
        return handle

    async def _open_session(self, runtime: Runtime, session: Session, steps: StepRules | None = None) -> SessionHandle:
        return await runtime.sessions.open(
            self.cwd,
            config=self.config,
            session_id=session.session_id,
            trace_id=session.trace_id,
            mcp_servers=self._mcp_servers,
            steps=steps,
        )

    async def _run(
        self, handle: SessionHandle, prompt: str | list[ContentBlock], known: int, cancel_event: trio.Event | None
    ) -> None:
        failure: AarError | None = None
        async with AsyncExitStack() as stack:
            records = stack.enter_context(handle.follow(after=known, pace=EVENT_PACE))
            nursery = await stack.enter_async_context(trio.open_nursery())
            if self._approval_callback is not None:
                await stack.enter_async_context(handle.attend())
            driver = self._engines.get(handle.session_id, handle)
            turn_id, ended = await stack.enter_async_context(driver.running(prompt))
            if cancel_event is not None:
                if cancel_event.is_set():  # at once, so that the turn hears of it before its first step
                    await handle.cancel(turn_id, after_step=True)
                nursery.start_soon(_stop_softly, handle, turn_id, cancel_event)

            async def watch() -> None:
                nonlocal failure
                try:
                    await ended()
                except AarError as error:
                    failure = error
                    nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            async for record in records:
                if isinstance(record.event, ApprovalRequested) and self._approval_callback is not None:
                    nursery.start_soon(self._approve, handle, record.event)
                await self._tell(record.event)
                if isinstance(record.event, TurnEnded) and record.turn_id == turn_id:
                    break
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _bring_home(self, handle: SessionHandle, session: Session, known: int) -> None:
        """Give the caller's session what happened, also when the caller was cancelled meanwhile."""
        for record in handle.records(after=known):
            session.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        session.metadata.update(handle.metadata)

    async def _approve(self, handle: SessionHandle, question: ApprovalRequested) -> None:
        assert self._approval_callback is not None
        await answer_question(self._approval_callback, self.registry, handle, question)

    # --- events ---

    def on_event(self, subscriber: Subscriber) -> None:
        """Call `subscriber(event)`, a function or a coroutine function, for each event of each turn, in order."""
        self._subscribers.append(subscriber)

    def off_event(self, subscriber: Subscriber) -> None:
        """Forget every subscriber equal to this one."""
        self._subscribers = [one for one in self._subscribers if one != subscriber]

    async def _tell(self, event: Event) -> None:
        for subscriber in list(self._subscribers):
            try:
                result = subscriber(event)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # the application's own code must not end the turn
                logger.error("an event subscriber failed", exc_info=error)

    # --- models ---

    def switch_provider(self, choice: str | ProviderConfig, session: Session | None = None) -> str:
        """Use another model from the next turn on; gives its `name/model`.

        `choice` is a key of `config.providers`, `provider/model`, or settings. With a session the change becomes part
        of its history. Raises `ValueError` for anything else, naming the profiles there are.
        """
        before = self.config.resolve_provider()
        after = _chosen(self.config, choice)
        check_provider_name(after.name)
        if session is not None:
            _warn_of_gaps(after, session)
            session.append(
                ProviderSwitchEvent(
                    from_provider=before.name, from_model=before.model, to_provider=after.name, to_model=after.model
                )
            )
        self.config = self.config.model_copy(update={"provider": after})
        self._given = None
        return after.label


def _parts(prompt: str | list[ContentBlock] | list[dict[str, Any]]) -> str | list[ContentBlock]:
    if not isinstance(prompt, str | Sequence):
        raise TypeError(f"a prompt is text or a list of content blocks, not {prompt!r}")
    return prompt if isinstance(prompt, str) else UserMessage.of(list(prompt)).parts


async def answer_question(
    callback: ApprovalCallback, tools: ToolRegistry, handle: SessionHandle, question: ApprovalRequested
) -> None:
    """Let an application's callback decide. One that fails, or answers something else, has said no."""
    spec = tools.get(question.tool_name) or ToolSpec(name=question.tool_name)
    call = ToolCall(tool_name=question.tool_name, tool_call_id=question.tool_call_id, arguments=question.arguments)
    try:
        answer = callback(spec, call)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # the application's own code; a question it cannot answer is a no
        logger.error("the approval callback failed", exc_info=error)
        answer = ApprovalResult.DENIED
    await handle.decide(question.tool_call_id, _DECISIONS.get(str(answer), "deny"))


async def _stop_softly(handle: SessionHandle, turn_id: str, event: trio.Event) -> None:
    await event.wait()
    await handle.cancel(turn_id, after_step=True)


def _chosen(config: AgentConfig, choice: str | ProviderConfig) -> ProviderConfig:
    if isinstance(choice, ProviderConfig):
        return choice
    if choice in config.providers:
        return config.providers[choice]
    name, slash, model = choice.partition("/")
    if slash and name and model:
        return ProviderConfig(name=name, model=model)
    available = ", ".join(sorted(config.providers)) or "(none)"
    raise ValueError(f"Unknown provider {choice!r}. Use provider/model or one of the profiles: {available}")


def _warn_of_gaps(config: ProviderConfig, session: Session) -> None:
    provider = open_provider(config)
    if not provider.supports_tools and any(isinstance(event, ToolCall) for event in session.events):
        logger.warning("%s has no tools, and the conversation has tool calls", config.label)
    if not provider.supports_vision and any(
        isinstance(event, UserMessage) and event.is_multimodal for event in session.events
    ):
        logger.warning("%s sees no images, and the conversation has some", config.label)
