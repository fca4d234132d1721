"""Commands in a Linux distribution under Windows. A place of their own, but no walls: all drives are below `/mnt`."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Callable, Mapping

from aar.messages.settings import WslSandbox as WslSettings
from aar.processes.environment import child_environment
from aar.processes.plain import run_plain
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult

__all__ = ["WslSandbox", "wsl_path", "wsl_program"]

MISSING = "wsl.exe not found — WSL2 is not available on this system."
REFUSED = "Refused: cwd '{}' resolves outside the sandbox workspace '{}'."


class WslSandbox:
    """Runs commands with the shell of one distribution, in the workspace, with the environment of the distribution.

    A timeout ends `wsl.exe`. Processes in the distribution end with it as WSL sees fit; Aar cannot reach them.
    """

    name = "wsl"
    enforces_paths = False

    def __init__(self, cwd: str, settings: WslSettings) -> None:
        self.cwd = cwd
        self._settings = settings
        self._workspace = settings.workspace or cwd

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
        """See `Sandbox.execute`. A folder outside the workspace is refused; the session's own means the workspace."""
        folder = wsl_path(self._workspace if cwd in (None, self.cwd) else str(cwd))
        if not _is_within(folder, wsl_path(self._workspace)):
            return CommandResult("", REFUSED.format(cwd, self._workspace), 1)
        if shutil.which(wsl_program()) is None:
            return CommandResult("", MISSING, 1)
        finished = await run_plain(
            self.argv(command, folder, env or {}),
            cwd=None,
            env=child_environment(extra={"WSL_UTF8": "1"}),
            timeout=timeout,
            output_limit=max(0, output_limit - RENDER_ROOM),
            report=report,
        )
        return CommandResult(finished.stdout, finished.stderr, finished.exit_code, finished.timed_out)

    async def aclose(self) -> None:
        """Nothing to give back."""

    def argv(self, command: str, folder: str, env: Mapping[str, str]) -> list[str]:
        """The command line for `command` in `folder`, a path within the distribution."""
        settings = self._settings
        if env:
            command = f"export {' '.join(f'{name}={shlex.quote(value)}' for name, value in env.items())}; {command}"
        argv = [wsl_program(), "-d", settings.distro]
        if settings.restrict_to_workspace:
            argv += ["--cd", folder]
        else:  # the whole of it, so that nothing of it runs where the folder is not
            command = f"cd {shlex.quote(folder)} && eval {shlex.quote(command)}"
        if settings.wsl_user:
            argv += ["--user", settings.wsl_user]
        return [*argv, "--", settings.shell, "-c", command]


def wsl_program() -> str:
    """On Windows by its full path: a project may have a `wsl.exe` of its own."""
    if os.name != "nt":
        return "wsl"
    return os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "wsl.exe")


def wsl_path(path: str) -> str:
    r"""Where a path of Windows is in the distribution: `B:\foo\bar` is `/mnt/b/foo/bar`. Paths of Linux stay."""
    slashed = path.replace("\\", "/")
    drive = re.match(r"([A-Za-z]):(?:/|$)(.*)", slashed, re.DOTALL)
    if drive is not None:
        return posixpath.normpath(f"/mnt/{drive[1].lower()}/{drive[2].lstrip('/')}")
    if slashed.startswith("/") and not slashed.startswith("//"):
        return posixpath.normpath(slashed)
    return slashed


def _is_within(folder: str, workspace: str) -> bool:
    folder, workspace = folder.casefold(), workspace.casefold().rstrip("/")
    return folder == workspace or folder.startswith(f"{workspace}/")
