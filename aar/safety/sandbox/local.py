"""No walls: the command runs as the user, with clean-up, an empty standard input and no model keys."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping

from aar.processes.command import run_command
from aar.processes.environment import child_environment
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult

__all__ = ["LocalSandbox", "restricted_environment"]


class LocalSandbox:
    """Runs commands with `bash -c`, or `/bin/sh -c` where there is no bash; neither is a login shell.

    The environment is ours without model keys (names in `env_keep` stay), or exactly `restricted_env` if that is given.
    """

    name = "local"
    enforces_paths = False

    def __init__(
        self, cwd: str, *, env_keep: Iterable[str] = (), restricted_env: Mapping[str, str] | None = None
    ) -> None:
        self.cwd = cwd
        self._env_keep = tuple(env_keep)
        self._restricted_env = None if restricted_env is None else restricted_environment(restricted_env)
        self._shell = shutil.which("bash") or "/bin/sh"

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
        """See `Sandbox.execute`."""
        finished = await run_command(
            [self._shell, "-c", command],
            cwd=cwd or self.cwd,
            env=self._environment(env or {}),
            timeout=timeout,
            output_limit=max(0, output_limit - RENDER_ROOM),
            report=report,
        )
        return CommandResult(finished.stdout, finished.stderr, finished.exit_code, finished.timed_out)

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        if self._restricted_env is not None:
            return {**self._restricted_env, **extra}
        return child_environment(keep=self._env_keep, extra=extra)

    async def aclose(self) -> None:
        """Nothing to give back."""


def restricted_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """PATH, HOME and TERM of this process, then `extra`."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**inherited, "TERM": os.environ.get("TERM", "xterm"), **extra}
