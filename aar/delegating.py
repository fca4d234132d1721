"""An errand is done by a session of its own, in the scope of the tool call that gave it.

The session is for the moment: it leaves no file. Its questions are asked in the name of the session that gave the
errand, to whoever attends that one; what it spends counts there, too.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import trio

from aar.actors.errand import Errand
from aar.client import Sessions
from aar.errors import ConfigError, ToolError
from aar.handle import SessionHandle
from aar.kernel.alone import errors_alone
from aar.messages.events import (
    ApprovalRequested,
    AssistantMessage,
    Event,
    ProviderMeta,
    ToolCall,
    TurnEnded,
)
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome

__all__ = ["MAX_STEPS", "run_errand"]

MAX_STEPS = 25
"""Of an errand, unless the settings allow fewer."""

CLOSE_GRACE = 5.0  # seconds
SHOWN_CHARS = 100  # of a call's arguments


async def run_errand(sessions: Sessions, home: Path, errand: Errand) -> ToolOutcome:
    """What the errand's session says at the end. Returns, or raises, when nothing of it runs any more.

    Raises `ToolError` for an agent that there is none of.
    """
    config = await _config(home, errand)
    session = await sessions.open(errand.cwd, config=config, trace_id=errand.trace_id, is_kept=False)
    try:
        with errors_alone():
            async with session.attend(), trio.open_nursery() as nursery:
                nursery.start_soon(_watch, session, errand)
                ended = await session.run(errand.prompt)
        return _outcome(session, ended)
    finally:
        try:
            with trio.move_on_after(CLOSE_GRACE, shield=True):
                await errand.spent(_cost(session))
        finally:  # also when that cannot be put on record
            with trio.move_on_after(CLOSE_GRACE, shield=True):
                await sessions.close(session.session_id)


async def _config(home: Path, errand: Errand) -> AgentConfig:
    """As in the session that gave it, but for tasks within tasks; and as its agent has it."""
    config = errand.config
    if errand.agent:
        config = await trio.to_thread.run_sync(partial(_as_agent, home, errand), abandon_on_cancel=True)
    tools = [name for name in config.tools.enabled_builtins if name != "task"]
    most = min(config.max_steps, MAX_STEPS) if config.max_steps else MAX_STEPS
    patch = {"tools": {"enabled_builtins": tools}, "max_steps": most, "file_snapshots": False}
    return config.patched(patch | _limits(config, errand))


def _limits(config: AgentConfig, errand: Errand) -> dict[str, Any]:
    """No more than is left to the session that gave it, nor more than its own settings allow. 0 is no limit."""
    tokens = [limit for limit in (config.effective_token_budget, errand.tokens_left) if limit > 0]
    dollars = [limit for limit in (config.effective_cost_limit, errand.dollars_left) if limit > 0]
    provider = {"name": None, "token_budget": None, "cost_limit": None}  # a model's own limits go over the others
    return {"token_budget": min(tokens, default=0), "cost_limit": min(dollars, default=0.0), "provider": provider}


def _as_agent(home: Path, errand: Errand) -> AgentConfig:
    """The model names the agent, so that agent may do no more than the session: its rules and its mode hold, too."""
    from aar.config.agents.narrowing import stricter  # most errands name no agent
    from aar.roles import Places, resolve

    giver = errand.config
    try:
        config = resolve(giver, Places(home, errand.cwd), errand.agent, giver.mode or None).config
        return config.model_copy(update={"safety": stricter(giver.safety, config.safety, errand.cwd)})
    except ConfigError as error:
        raise ToolError("invalid_arguments", f"agent {errand.agent!r}: {error}") from error


async def _watch(session: SessionHandle, errand: Errand) -> None:
    """Show what it does, and have its questions answered."""
    with session.follow() as records:
        async for record in records:
            match record.event:
                case ToolCall() as call:
                    errand.report(f"{call.tool_name} {_shown(call)}\n")
                case ApprovalRequested() as question:
                    allowed = await errand.may(question.tool_name, question.arguments, question.reason)
                    await session.decide(question.tool_call_id, "allow" if allowed else "deny")
                case TurnEnded():
                    return


def _shown(call: ToolCall) -> str:
    text = json.dumps(call.arguments, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _outcome(session: SessionHandle, ended: TurnEnded) -> ToolOutcome:
    events: list[Event] = [record.event for record in session.records()]
    said = next((event.content for event in reversed(events) if isinstance(event, AssistantMessage)), "")
    if ended.stop == "end_turn":
        return ToolOutcome(said or "(it said nothing)")
    why = f"The task did not come to its end ({ended.stop})."
    return ToolOutcome(f"{why}\n{said}" if said else why, is_error=True)


def _cost(session: SessionHandle) -> ProviderMeta:
    """All its model calls as one."""
    metas = [event for record in session.records() if isinstance(event := record.event, ProviderMeta)]
    usage: dict[str, int] = {}
    for meta in metas:
        for name, count in meta.usage.items():
            usage[name] = usage.get(name, 0) + count
    last = metas[-1] if metas else ProviderMeta()
    return ProviderMeta(
        provider=last.provider,
        model=last.model,
        usage=usage,
        duration_ms=sum(meta.duration_ms for meta in metas),
        data={"cost": sum(float(meta.data.get("cost", 0.0)) for meta in metas), "task": session.session_id},
    )
