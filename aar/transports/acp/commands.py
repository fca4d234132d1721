"""Slash commands: what Aar answers itself, without asking the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aar.display import plain
from aar.errors import ConfigError, ExtensionError
from aar.messages.events import Compacted
from aar.messages.session import CommandInfo
from aar.messages.settings import AgentConfig
from aar.transports.acp.calls import Call
from aar.transports.acp.live import LiveSession
from aar.transports.acp.modes import model_change
from aar.transports.acp.updates import message_chunk

__all__ = ["CLEARED", "COMMANDS", "commands_update", "run_command"]

COMMANDS: list[dict[str, Any]] = [
    {
        "name": "model",
        "description": "Show or switch the model",
        "input": {"hint": "profile, provider/model, or model"},
    },
    {"name": "status", "description": "Show the session, its model and how far it has come"},
    {"name": "tools", "description": "List the tools that the model can use"},
    {"name": "policy", "description": "Show what is done without asking, and what is not allowed"},
    {"name": "clear", "description": "Let the model forget the conversation"},
]

CLEARED = "cleared"
_FORGOTTEN = "(The user has cleared the conversation that was here. Start anew.)"


def commands_update(others: Iterable[CommandInfo] = ()) -> dict[str, Any]:
    """Ours, and those of extensions that have no name of ours."""
    ours = {command["name"] for command in COMMANDS}
    theirs = [
        {"name": one.name, "description": one.description, "input": {"hint": "arguments"}}
        for one in others
        if one.name not in ours
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": [*COMMANDS, *theirs]}


async def run_command(live: LiveSession, text: str, call: Call) -> str:
    """Answer a command, and give the stop reason; empty when the text is none, and is for the model."""
    name, _, rest = text.strip().partition(" ")
    match name:
        case "/model":
            answer = await _model(live, rest.strip())
        case "/status":
            answer = await _status(live)
        case "/tools":
            answer = await _tools(live)
        case "/policy":
            answer = _policy(live.config)
        case "/clear":
            answer = await _clear(live)
        case _:
            return await _run_other(live, name.removeprefix("/").lower(), rest, call)
    await live.tell(message_chunk(answer))
    return "end_turn"


async def _run_other(live: LiveSession, name: str, arguments: str, call: Call) -> str:
    """A command of an extension. It may take long; a cancel ends it."""
    if name not in {one.name for one in await live.handle.commands()}:
        return ""
    with live.command() as scope:
        call.cancel = scope.cancel
        call.release()
        try:
            answer = await live.handle.run_command(name, arguments)
        except ExtensionError as error:
            answer = str(error)
        if answer is not None:
            await live.tell(message_chunk(answer))
    return "cancelled" if scope.cancelled_caught else "end_turn"


async def _model(live: LiveSession, name: str) -> str:
    if not name:
        return _models(live.config)
    try:
        await live.configure(model_change(live.base, live.config, name))
    except ConfigError as error:
        return plain(str(error))
    return f"Switched to **{plain(live.config.resolve_provider().label)}**"


def _models(config: AgentConfig) -> str:
    active = config.resolve_provider()
    lines = [f"**Active:** {plain(active.label)}", ""]
    for key, profile in config.providers.items():
        mark = " *(active)*" if profile == active else ""
        lines.append(f"- **{plain(key)}** — {plain(profile.label)}{mark}")
    if not config.providers:
        lines.append("No profiles are configured: name some under `providers` in the config file to choose from them.")
    return "\n".join(lines)


async def _status(live: LiveSession) -> str:
    status = await live.handle.status()
    provider = live.config.resolve_provider()
    rows = {
        "Session": live.handle.session_id,
        "Folder": live.handle.cwd,
        "Provider": provider.name,
        "Model": provider.model,
        "Steps this session": status.step_count,
        "Messages": len(live.handle.snapshot().to_messages()),
        "Tokens": f"{status.input_tokens} in, {status.output_tokens} out",
    }
    return _rows(rows)


async def _tools(live: LiveSession) -> str:
    tools = await live.handle.tools()
    lines = [f"- **{plain(tool.name)}** — {_first_line(tool.description)}" for tool in tools]
    return "\n".join(["**Available tools:**", "", *lines])


def _first_line(text: str) -> str:
    return plain(text).strip().partition("\n")[0]


def _policy(config: AgentConfig) -> str:
    safety = config.safety
    rows = {
        "Approve writes": _yes(safety.require_approval_for_writes),
        "Approve execute": _yes(safety.require_approval_for_execute),
        "Read-only": _yes(safety.read_only),
        "Sandbox": safety.sandbox.mode,
        "Allowed paths": ", ".join(f"`{path}`" for path in safety.allowed_paths) or "any",
        "Denied paths": f"{len(safety.denied_paths)} patterns",
    }
    return _rows(rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _rows(rows: dict[str, Any]) -> str:
    return "\n".join(f"- **{name}:** {plain(str(value))}" for name, value in rows.items())


async def _clear(live: LiveSession) -> str:
    fact = Compacted(up_to_seq=live.handle.seq, summary=_FORGOTTEN, data={CLEARED: True})
    await live.handle.adopt([fact])
    return "The conversation is cleared: the model starts anew. What was said stays in the session's file."
