"""Commands that show what Aar works with: tools, the system prompt, the settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import trio

from aar._version import __version__
from aar.config import Loaded, aar_home, masked
from aar.display import plain
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.prompt import Layer, system_prompt
from aar.prompt import layers as prompt_layers
from aar.roles import deferred_tools, offered_tools, tell_of_skills, why_left_out
from aar.runtime import (
    ToolRegistry,
    brought_by_extensions,
    open_runtime,
    reading_rule,
    toolbox_for,
)
from aar.transports.cli.look import look_for
from aar.transports.program.exits import DONE, complain, run_to_code
from aar.transports.program.flags import Flags, PromptFlags, SettingFlags
from aar.transports.program.screen import Screen
from aar.transports.program.servers import named_servers, tell_of_servers, wait_for_servers
from aar.transports.program.settings import here, loaded_settings

__all__ = ["config", "prompt", "tools", "variables", "version"]


UNCHOSEN = "No provider was chosen, so `aar run` and `aar chat` look for a model: `aar local` shows which one.\n"


def version() -> int:
    """Print the version."""
    print(f"aar {__version__}")
    return DONE


def tools(*, mcp: Path | None, flags: PromptFlags) -> int:
    """List the tools that models can use, with their effects, and why they do not get the others."""

    async def work() -> int:
        settings = loaded_settings(flags).config
        servers = named_servers(mcp, aar_home())
        toolbox = toolbox_for(settings, None)
        await _extend(settings, toolbox)
        lines = [
            _tool_line(spec.name, ", ".join(map(str, spec.side_effects)), spec.description)
            for spec in offered_tools(settings, toolbox)
        ]
        if servers:
            lines += await _of_servers(settings, servers)
        lines += [
            f"  {spec.name}  (left out)  {plain(reason)}\n"
            for spec in toolbox.list_tools()
            if (reason := why_left_out(settings, spec.name)) is not None
        ]
        await Screen().say("".join(lines) or "No tools are enabled.\n")
        return DONE

    return run_to_code(work)


async def _extend(settings: AgentConfig, toolbox: ToolRegistry) -> tuple[str, ...]:
    """Add what extensions and skills bring, say what is wrong with some, and give the parts of the system prompt."""
    for problem in await tell_of_skills(settings, toolbox, aar_home(), here()):
        complain(problem)
    brought = await brought_by_extensions(settings, toolbox, home=aar_home(), cwd=here())
    for problem in brought.problems:
        complain(problem)
    return brought.prompt


def _tool_line(name: str, effects: str, description: str) -> str:
    return f"  {name}  ({effects})  {' '.join(plain(description).split())}\n"


async def _of_servers(settings: AgentConfig, servers: Sequence[McpServer]) -> list[str]:
    """Their tools under the names that they have in a session: one of them is opened for a moment."""
    async with open_runtime(settings) as runtime:
        handle = await runtime.sessions.open(here(), mcp_servers=servers)
        await wait_for_servers(handle, servers)
        found = await tell_of_servers(handle, servers)
    return [
        _tool_line(tool.name, "external, read" if tool.is_read_only else "external", tool.description)
        for status in found
        for tool in status.tools
    ]


# --- the system prompt ------------------------------------------------------------------------


def prompt(*, raw: bool, layers: bool, flags: PromptFlags) -> int:
    """Show the system prompt that a session in this folder gets."""

    async def work() -> int:
        found = await _layers(loaded_settings(flags))
        screen = Screen()
        if raw:
            text = system_prompt(found)
            await screen.say((plain(text) if screen.out_is_terminal else text) + "\n")
        elif layers:
            await screen.say(_listing(found))
        else:
            text = system_prompt(found)
            subtitle = f"{len(text)} chars · {text.count(chr(10)) + 1} lines"
            look = look_for(screen, is_terminal=screen.out_is_terminal)
            await screen.say(look.panel("System Prompt", plain(text), "blue", subtitle=subtitle))
        return DONE

    return run_to_code(work)


async def _layers(loaded: Loaded) -> list[Layer]:
    settings = loaded.config
    toolbox = toolbox_for(settings, None)
    parts = await _extend(settings, toolbox)
    may_read = reading_rule(settings, here())
    work = partial(
        prompt_layers,
        settings,
        here(),
        aar_home(),
        offered_tools(settings, toolbox),
        deferred=deferred_tools(settings, toolbox),
        additions=parts,
        may_read=may_read,
    )
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def _listing(found: list[Layer]) -> str:
    lines = ["System prompt layers (assembled in order):"]
    for number, layer in enumerate(found, start=1):
        missing = layer.skipped or "not found"
        size = f"({len(layer.text)} chars)" if layer.text is not None else f"({missing} — skipped)"
        lines.append(f"  {number}. {layer.label}  {plain(layer.source)}  {size}")
    loaded = [layer for layer in found if layer.text is not None]
    lines.append(f"{len(loaded)} layer(s) loaded · {len(system_prompt(found))} total chars")
    return "\n".join([*lines, ""])


# --- settings ---------------------------------------------------------------------------------


def config(*, flags: SettingFlags) -> int:
    """Show every setting in force, keys masked, and where it came from."""

    async def show() -> int:
        loaded = loaded_settings(flags)
        data = masked(loaded.config)
        lines = [f"{path} = {_value(data, path)}  ({origin})\n" for path, origin in sorted(loaded.origins.items())]
        screen = Screen()
        await screen.say(plain("".join(lines)))
        if not loaded.provider_was_chosen:
            await screen.tell(UNCHOSEN)
        return DONE

    return run_to_code(show)


def variables(environ: Mapping[str, str] = os.environ) -> int:
    """Show the variables that stand for flags, as a shell takes them; those that are not set as comments."""
    from shlex import quote

    from aar.transports.cli.app import VARIABLES

    for one in fields(Flags):
        name = VARIABLES + one.name.upper()
        secret = "********" if one.name == "api_key" else None
        value = environ.get(name)
        print(f"# {name}=" if value is None else f"{name}={quote(plain(secret or value))}")
    return DONE


def _value(data: dict[str, Any], path: str) -> str:
    """The setting at a dotted path. A key may have dots itself."""
    value: Any = data
    rest = path
    while rest:
        key = next((key for key in sorted(value, key=len, reverse=True) if f"{rest}.".startswith(f"{key}.")), None)
        if key is None:
            return ""
        value, rest = value[key], rest[len(key) + 1 :]
    return json.dumps(value, ensure_ascii=False)
