"""Where shell commands run."""

from __future__ import annotations

import sys

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, SandboxConfig
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult, Sandbox, render

__all__ = ["RENDER_ROOM", "CommandResult", "Sandbox", "chosen_mode", "render", "sandbox_for"]


def chosen_mode(config: SandboxConfig) -> str:
    """The mode that `auto` stands for on this machine, or the one that is written."""
    if config.mode != "auto":
        return config.mode
    return {"win32": "windows", "linux": "linux"}.get(sys.platform, "local")


def sandbox_for(config: AgentConfig, cwd: str) -> Sandbox:
    """The sandbox of a session whose folder is `cwd`. Raises `ConfigError` for a mode that cannot be had here."""
    wanted = config.safety.sandbox
    mode = chosen_mode(wanted)
    if mode == "local":
        from aar.safety.sandbox.local import LocalSandbox

        return LocalSandbox(cwd, env_keep=config.tools.env_keep)
    raise ConfigError(
        f"safety.sandbox.mode is '{wanted.mode}', but the '{mode}' sandbox is not available in this version. "
        "Nothing was run. Set safety.sandbox.mode to 'local' to run commands as your user, without walls."
    )
