"""What every sandbox gives, and how a command's result reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

__all__ = ["RENDER_ROOM", "CommandResult", "Sandbox", "render"]

RENDER_ROOM = 64
"""Characters that `render` may add to the two outputs."""


class CommandResult(NamedTuple):
    """What a command has left. `exit_code` is negative for a signal, and -1 when the time was up."""

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool = False


class Sandbox(Protocol):
    """A place where shell commands run. `enforces_paths`: the kernel, not the policy, keeps writes in the workspace."""

    @property
    def name(self) -> str: ...

    @property
    def enforces_paths(self) -> bool: ...

    async def execute(
        self,
        command: str,
        *,
        timeout: float | None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
        output_limit: int,
    ) -> CommandResult:
        """Run `command` in `cwd` (the sandbox's own folder) for `timeout` seconds at most, with `env` on top.

        When it returns or is cancelled, no process of the command is alive. What was written before a timeout is kept.
        `render` of the result has at most `output_limit` characters (if that is more than `RENDER_ROOM`); `report` gets
        output as it comes. Raises `OSError` when the command cannot be started.
        """
        ...

    async def aclose(self) -> None:
        """Give back what the sandbox holds. Nothing may be executed afterwards."""
        ...


def render(result: CommandResult) -> str:
    """The text a model reads."""
    parts = []
    if result.stdout:
        parts.append(result.stdout)
    if result.stderr:
        parts.append(f"STDERR:\n{result.stderr}")
    if result.exit_code:
        parts.append(f"Exit code: {result.exit_code}")
    if result.timed_out:
        parts.append("(timed out)")
    return "\n".join(parts) or "(no output)"
