"""An engine with a session of its own: what its options mean for the session's hooks, tools and settings."""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from aar.actors.stepping import StepRules
from aar.client import SessionHandle
from aar.engine.engine import Engine
from aar.engine.options import Options, messages_of
from aar.errors import ExtensionError
from aar.hooks import Block, Hooks
from aar.journal.transcript import to_messages
from aar.messages.events import ToolCall
from aar.messages.mcp import McpServer
from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome
from aar.runtime import Runtime
from aar.tools.registry import ToolSpec

__all__ = ["EPHEMERAL_TIMEOUT", "attach_engine", "open_engine", "step_rules", "thinking_patch"]

EPHEMERAL_TIMEOUT = 2.0  # seconds that a model call waits for `get_ephemeral_messages`
CLOSE_TIMEOUT = 20.0  # seconds for closing the session, also when everything is being cancelled


@asynccontextmanager
async def open_engine(
    runtime: Runtime,
    cwd: str | os.PathLike[str],
    options: Options | None = None,
    *,
    config: AgentConfig | None = None,
    tools: Sequence[ToolSpec] = (),
    mcp_servers: Sequence[McpServer] = (),
    session_id: str | None = None,
    ephemeral_timeout: float = EPHEMERAL_TIMEOUT,
) -> AsyncIterator[Engine]:
    """An engine over a new session of this runtime, or over the stored one with this id, closed with the block.

    `cwd` is the folder in which tools work, an absolute path. Raises `SessionInUse` when the session is open already.
    """
    engine = Engine(options)
    session = await runtime.sessions.open(
        str(cwd),
        config=config,
        session_id=session_id,
        tools=tools,
        mcp_servers=mcp_servers,
        steps=step_rules(engine, ephemeral_timeout),
    )
    try:
        await attach_engine(engine, session, config or runtime.config)
        yield engine
    finally:
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await runtime.sessions.close(session.session_id)


async def attach_engine(engine: Engine, session: SessionHandle, config: AgentConfig) -> None:
    """Let the engine drive a session that was opened with its rules."""
    llm = config.resolve_provider().label
    facts = {"system_prompt": config.system_prompt, "llm": llm, "tools": await session.tools()}
    engine.attach(session, facts, thinking_patch)


def step_rules(engine: Engine, ephemeral_timeout: float = EPHEMERAL_TIMEOUT) -> StepRules:
    """What to open a session with that this engine is to drive."""
    options = engine.options
    before: list[Callable[[ProviderRequest], Awaitable[ProviderRequest | None]]] = [engine.saw]
    if options.transform_context is not None:
        before.append(_transforming(options.transform_context))
    if options.get_ephemeral_messages is not None:
        before.append(_with_ephemeral(options.get_ephemeral_messages, ephemeral_timeout))
    calls = _Calls(engine)
    hooks = Hooks(
        before_provider_call=tuple(before),
        after_provider_call=(engine.answered,),
        before_tool_call=(calls.before,) if options.before_tool_call is not None else (),
        after_tool_call=(calls.after,) if options.before_tool_call or options.after_tool_call else (),
    )
    return StepRules(engine, hooks, options.tool_execution_mode.value)


async def _given(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _shown(value: Any) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"


# --- the context of one call ------------------------------------------------------------------


def _transforming(transform: Callable[[list[Any]], Any]) -> Callable[[ProviderRequest], Awaitable[ProviderRequest]]:
    async def transform_context(request: ProviderRequest) -> ProviderRequest:
        given = await _given(transform(list(request.messages)))
        if not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
            raise ExtensionError(f"transform_context must give a list of messages, not {_shown(given)}")
        return replace(request, messages=History(tail=given))

    return transform_context


def _with_ephemeral(
    source: Callable[[], Any], timeout: float
) -> Callable[[ProviderRequest], Awaitable[ProviderRequest]]:
    async def get_ephemeral_messages(request: ProviderRequest) -> ProviderRequest:
        said: Any = ()
        with trio.move_on_after(timeout) as limit:
            said = await _given(source())
        if limit.cancelled_caught:
            raise ExtensionError(f"get_ephemeral_messages took longer than {timeout:g} s")
        history = request.messages
        for message in to_messages(messages_of(said)):
            history = history.followed_by(message)
        return replace(request, messages=history)

    return get_ephemeral_messages


# --- tool calls -------------------------------------------------------------------------------


class _Calls:
    """The options about tool calls as hooks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._options: Options = engine.options
        self._blocked: dict[str, ToolOutcome] = {}

    async def before(self, call: ToolCall) -> Block | None:
        assert self._options.before_tool_call is not None  # it is no hook otherwise
        instead = _outcome("before_tool_call", await _given(self._options.before_tool_call(call, self._engine.signal)))
        if instead is None:
            return None
        self._blocked[call.tool_call_id] = instead
        self._engine.terminates(call.tool_call_id, instead.terminate)
        return Block(instead.output)

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> ToolOutcome | None:
        instead = self._blocked.pop(call.tool_call_id, None)
        if instead is not None:
            return instead
        if self._options.after_tool_call is None:
            return None
        given = await _given(self._options.after_tool_call(call, outcome, self._engine.signal))
        patched = _outcome("after_tool_call", given)
        if patched is not None and patched.terminate:
            self._engine.terminates(call.tool_call_id, True)
        return patched


def _outcome(option: str, given: Any) -> ToolOutcome | None:
    """A guard that gives something else has failed, and so blocks the call."""
    if given is None or isinstance(given, ToolOutcome):
        return given
    raise ExtensionError(f"{option} must give a ToolOutcome or None, not {_shown(given)}")


# --- thinking ---------------------------------------------------------------------------------

_TOKENS = {"off": 0, "low": 2048, "medium": 8192, "high": 16384}


def thinking_patch(level: str, provider: str) -> dict[str, Any]:
    """The change of settings by which this provider thinks so much. Raises `ValueError` for another level."""
    if level not in _TOKENS:
        raise ValueError(f"Unknown thinking level {level!r}. Use one of: {', '.join(_TOKENS)}")
    return {"provider": {"extra": _thinking(level, provider)}}


def _thinking(level: str, provider: str) -> dict[str, Any]:
    match provider:
        case "anthropic":
            budget = {"type": "enabled", "budget_tokens": _TOKENS[level]}
            return {"thinking": {"type": "disabled", "budget_tokens": None} if level == "off" else budget}
        case "gemini":
            return {"thinking_budget": _TOKENS[level]}
        case "ollama":
            return {"think": False if level == "off" else level}
        case _:
            return {"reasoning_effort": "minimal" if level == "off" else level}
