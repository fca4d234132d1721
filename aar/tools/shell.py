"""`bash`: a shell command in the session's folder, through its sandbox."""

from __future__ import annotations

from functools import lru_cache

from aar.messages.settings import ToolConfig
from aar.messages.tools import SideEffect
from aar.safety.sandbox.base import render
from aar.tools.registry import ToolContext, ToolSpec

__all__ = ["bash_tool", "clamp_timeout"]

LONGEST_TIMEOUT = 86_400.0
"""Seconds; for `command_timeout` 0, where nothing else bounds what a model asks for."""


def bash_tool(config: ToolConfig) -> ToolSpec:
    """The tool with the default timeout of `config` in its texts."""
    return _bash_tool(config.bash_default_timeout, config.command_timeout)


@lru_cache(maxsize=16)
def _bash_tool(default: int, ceiling: float) -> ToolSpec:
    """One for all sessions with the same limits, as the other tools are."""

    async def bash(ctx: ToolContext, command: str, timeout: int = default) -> str:
        return render(await ctx.run_command(command, clamp_timeout(timeout, ceiling)))

    return ToolSpec(
        name="bash",
        description=(
            "Execute a shell command in the session's working folder and return stdout, stderr and the exit code. "
            "Standard input is empty, and whatever still runs in the background is ended with the command. "
            f"The command is stopped after {default} seconds by default: "
            "set a larger timeout for slow commands such as builds, test suites and installations."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The shell command to execute"},
                "timeout": {
                    "type": "integer",
                    "description": f"Timeout in seconds (default {default})",
                    "default": default,
                },
            },
            "required": ["command"],
        },
        side_effects=(SideEffect.EXECUTE,),
        prompt_snippet="Execute a shell command (returns stdout, stderr, exit code)",
        handler=bash,
    )


def clamp_timeout(wanted: float, command_timeout: float) -> float:
    """`wanted`, 1 second at least, and ended before `command_timeout` would cut off the call with its output."""
    ceiling = LONGEST_TIMEOUT if command_timeout == 0 else max(command_timeout - 1, command_timeout / 2)
    return min(max(1.0, float(wanted)), ceiling)
