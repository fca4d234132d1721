"""Windows: a job object with limits, and the integrity level Low, at which little but the workspace can be written.

Its calls are tested against stand-ins for the libraries of Windows; it has not been run on Windows itself.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aar.messages.settings import WindowsSandbox as WindowsSettings
from aar.processes.plain import run_plain
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult
from aar.safety.sandbox.job_object import JobObject

__all__ = ["WindowsSandbox"]

INHERITED = (
    *("PATH", "HOME", "TERM", "LANG", "SYSTEMROOT", "SYSTEMDRIVE"),
    *("TEMP", "TMP", "USERPROFILE", "USERNAME"),
)
PROGRAM = Path(__file__).with_name("low_integrity.py")
LABEL_SECONDS = 60.0

logger = logging.getLogger(__name__)


class WindowsSandbox:
    """Runs commands with `bash -c` in a job object, at the integrity level Low unless the settings say otherwise.

    Before the first command the workspace is labelled Low, with all below it, so that commands can write there; it
    stays so. Where that fails a warning is logged, and commands can write nowhere. Where a job object cannot be had,
    one is logged for each command, and what the command leaves behind is not ended.
    """

    name = "windows"

    def __init__(
        self, cwd: str, settings: WindowsSettings, *, env_keep: Iterable[str] = (), kernel: Any = None
    ) -> None:
        self.cwd = settings.workspace or cwd
        self._settings = settings
        self._names = (*INHERITED, *env_keep)
        self._kernel = kernel
        self._is_labelled = False

    @property
    def enforces_paths(self) -> bool:
        """Whether Windows holds what commands write. They do not run when they cannot be lowered."""
        return self._settings.use_low_integrity

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
        if self._settings.use_low_integrity and not self._is_labelled:
            await self._label()
        level = "low" if self._settings.use_low_integrity else "same"
        shell = shutil.which("bash") or "bash"
        finished = await run_plain(
            [sys.executable, "-I", "-S", str(PROGRAM), level, shell, "-c", command],
            cwd=cwd or self.cwd,
            env={**self._environment(), **(env or {})},
            timeout=timeout,
            output_limit=max(0, output_limit - RENDER_ROOM),
            report=report,
            hold=self._hold,
        )
        return CommandResult(finished.stdout, finished.stderr, finished.exit_code, finished.timed_out)

    async def aclose(self) -> None:
        """Nothing to give back. The label of the workspace stays: files in it carry it, too."""

    async def _label(self) -> None:
        self._is_labelled = True
        icacls = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "icacls.exe")
        argv = [icacls, self.cwd, "/setintegritylevel", "(OI)(CI)Low"]
        try:
            done = await run_plain(argv, cwd=None, env=self._environment(), timeout=LABEL_SECONDS, output_limit=2_000)
        except OSError as error:
            logger.warning("The workspace could not be labelled, so commands cannot write in it: %s", error)
            return
        if done.exit_code:
            said = done.stderr.strip() or done.stdout.strip()
            logger.warning("The workspace could not be labelled, so commands cannot write in it: %s", said)

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in self._names if name in os.environ}

    @contextmanager
    def _hold(self, pid: int) -> Iterator[None]:
        job: JobObject | None = None
        try:
            job = self._job()
            job.add(pid)
        except OSError as error:
            logger.warning("A command runs without limits, and what it leaves behind is not ended: %s", error)
        try:
            yield
        finally:
            if job is not None:
                job.close()

    def _job(self) -> JobObject:
        kernel = self._kernel or ctypes.windll.kernel32  # type: ignore[attr-defined]
        memory = self._settings.max_memory_mb << 20
        return JobObject(kernel, processes=self._settings.max_processes + 1, memory=memory)
