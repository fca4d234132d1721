"""Where shell commands run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig, SandboxConfig
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult, Sandbox, render

__all__ = ["RENDER_ROOM", "CommandResult", "Sandbox", "chosen_mode", "render", "sandbox_for"]


def chosen_mode(config: SandboxConfig) -> str:
    """The mode that `auto` stands for on this machine, or the one that is written."""
    if config.mode != "auto":
        return config.mode
    return {"win32": "windows", "linux": "linux"}.get(sys.platform, "local")


def sandbox_for(config: AgentConfig, cwd: str, *, home: str | None = None) -> Sandbox:
    """The sandbox of a session whose folder is `cwd`. Raises `ConfigError` for a mode that cannot be had here.

    `home` is Aar's own folder (`AAR_HOME`, `~/.aar`): where commands can write to it, they are not held.
    """
    return _MODES[chosen_mode(config.safety.sandbox)](config, cwd, home)


def _local(config: AgentConfig, cwd: str, home: str | None) -> Sandbox:
    from aar.safety.sandbox.local import LocalSandbox

    return LocalSandbox(cwd, env_keep=config.tools.env_keep)


def _linux(config: AgentConfig, cwd: str, home: str | None) -> Sandbox:
    _needs("linux", "linux")
    from aar.safety.sandbox.linux import LinuxSandbox

    own = home or os.environ.get("AAR_HOME") or "~/.aar"
    precious = [os.path.join(cwd, os.path.expanduser(path)) for path in (own, config.session_dir)]
    return LinuxSandbox(cwd, config.safety.sandbox.linux, env_keep=config.tools.env_keep, precious=precious)


def _wsl(config: AgentConfig, cwd: str, home: str | None) -> Sandbox:
    from aar.safety.sandbox.wsl import WslSandbox

    return WslSandbox(cwd, config.safety.sandbox.wsl)


def _windows(config: AgentConfig, cwd: str, home: str | None) -> Sandbox:
    _needs("windows", "win32")
    from aar.safety.sandbox.windows import WindowsSandbox

    return WindowsSandbox(cwd, config.safety.sandbox.windows, env_keep=config.tools.env_keep)


def _needs(mode: str, platform: str) -> None:
    if sys.platform != platform:
        raise ConfigError(
            f"safety.sandbox.mode is '{mode}', which this system does not have. Nothing was run. "
            "'auto' takes what the system has; 'local' runs commands as your user, without walls."
        )


_MODES: dict[str, Callable[[AgentConfig, str, str | None], Sandbox]] = {
    "local": _local,
    "linux": _linux,
    "windows": _windows,
    "wsl": _wsl,
}
