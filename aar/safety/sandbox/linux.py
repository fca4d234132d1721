"""Landlock: the kernel holds what a command writes in the workspace. It reads what its user can read."""

from __future__ import annotations

import errno
import logging
import os
import platform
import shutil
import stat
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import product
from pathlib import Path

import trio

from aar.errors import ConfigError
from aar.messages.settings import LinuxSandbox as LinuxSettings
from aar.processes.command import run_command
from aar.processes.confinement import Confinement, NotConfined, Place
from aar.safety.sandbox.base import RENDER_ROOM, CommandResult
from aar.safety.sandbox.git_programs import GitPrograms, changed_note
from aar.safety.sandbox.landlock import DEVICE, READ, SAFE_SINCE, WRITE, call_filter, landlock_abi, ruleset, within
from aar.safety.sandbox.temporary import private_folder

__all__ = ["LinuxSandbox"]

INHERITED = ("PATH", "HOME", "TERM", "LANG")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
CAPABILITIES = (0, 1, 3, 4, 6, 7, 10)
"""Of root: those about owners and modes of files, user ids and low ports. None reaches beyond the walls."""

LOOK_SECONDS = 2.0  # for looking at a repository when the command is over or cancelled

PASSING = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EINTR, errno.EIO)
"""What a command beside could bring about: no reason to run one without walls, not even where that is allowed."""

logger = logging.getLogger(__name__)


class LinuxSandbox:
    """Commands write to the workspace, to a folder of their own for temporary files and to what the settings name.

    Without Landlock in the kernel a warning is logged, and they run with the same environment and limit of memory, but
    without walls. `precious` are what Aar itself lives on: where one can be written to, the walls hold nothing, either.
    """

    name = "linux"

    def __init__(
        self,
        cwd: str,
        settings: LinuxSettings,
        *,
        env_keep: Iterable[str] = (),
        precious: Iterable[str] = (),
        abi: int | None = None,
    ) -> None:
        self.cwd = os.path.join(cwd, os.path.expanduser(settings.workspace or ""))
        self._settings = settings
        self._names = (*INHERITED, *env_keep)
        self._shell = shutil.which("bash") or "/bin/sh"
        self._abi = landlock_abi() if abi is None else abi
        self._writable = [self._identified(self.cwd), *self._beside(cwd)]
        self._places = [Place("/", READ & within(self._abi)), *self._devices(), *self._writable]
        self._git = GitPrograms([self.cwd, cwd])
        self._trouble = self._look_around([*precious, *_own_code()])
        if self._trouble:
            logger.warning("Commands are not held in the workspace: %s", self._trouble)

    @property
    def enforces_paths(self) -> bool:
        """Whether nothing outside of what the settings name can be written to by any command from now on."""
        return not self._trouble

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
        """See `Sandbox.execute`. Raises `NotConfined`, and runs nothing, when the walls cannot be put up."""

        async def run(confinement: Confinement) -> CommandResult:
            finished = await run_command(
                [self._shell, "-c", command],
                cwd=cwd or self.cwd,
                env={**self._environment(), "TMPDIR": folder, **(env or {})},
                timeout=timeout,
                output_limit=max(0, output_limit - RENDER_ROOM),
                report=report,
                confinement=confinement,
            )
            return CommandResult(finished.stdout, finished.stderr, finished.exit_code, finished.timed_out)

        before, note = await self._programs_of_git(), ""
        try:
            async with private_folder() as folder:
                result = await self._within_walls(run, folder)
        finally:
            with trio.move_on_after(LOOK_SECONDS, shield=True):
                note = changed_note(before, await self._programs_of_git())
            if note:
                logger.warning("%s", note)
        return _with_note(result, note, output_limit) if note else result

    async def _programs_of_git(self) -> dict[str, str]:
        return await trio.to_thread.run_sync(self._git.look, abandon_on_cancel=True)

    async def _within_walls(self, run: Callable[[Confinement], Awaitable[CommandResult]], folder: str) -> CommandResult:
        if not self._abi:
            return await run(self._without_walls())
        try:
            return await run(self._walls(folder))
        except NotConfined as error:
            if not self._settings.allow_fallback or error.step == "places" or error.errno in PASSING:
                raise
            self._trouble = str(error.strerror)
            logger.warning("A command runs without walls, as the settings allow: %s", error.strerror)
        return await run(self._without_walls())

    async def aclose(self) -> None:
        """Nothing to give back."""

    def _walls(self, folder: str) -> Confinement:
        return self._without_walls()._replace(
            capabilities=CAPABILITIES,
            ruleset=ruleset(self._abi),
            places=(*self._places, Place(folder, WRITE & within(self._abi))),
            system_calls=call_filter(unix_sockets=self._settings.unix_sockets),
        )

    def _without_walls(self) -> Confinement:
        return Confinement(self._settings.max_memory_mb << 20, None, b"", (), b"")

    def _environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in self._names if name in os.environ}
        return {"TERM": "xterm", **inherited}

    def _beside(self, cwd: str) -> list[Place]:
        named = [os.path.abspath(os.path.join(cwd, os.path.expanduser(path))) for path in self._settings.writable]
        there = [path for path in named if os.path.isdir(path)]
        held = [os.path.realpath(path) for path in (self.cwd, *there)]
        return [self._identified(path) for path in there if not self._is_led_elsewhere(path, held)]

    def _is_led_elsewhere(self, path: str, held: list[str]) -> bool:
        link = _link_within(path, held)
        if link:
            logger.warning("Commands may not write to %s: %s is a link that they could have made", path, link)
        return bool(link)

    def _identified(self, path: str) -> Place:
        """The folder that stands there now: a command must not be able to make its name mean another one later."""
        real = os.path.realpath(path)
        try:
            found = os.stat(real)
        except OSError as error:
            raise ConfigError(f"The folder of the sandbox cannot be used: {path}: {error.strerror}.") from error
        if not stat.S_ISDIR(found.st_mode):
            raise ConfigError(f"The folder of the sandbox cannot be used: {path}: this is no folder.")
        return Place(real, WRITE & within(self._abi), (found.st_dev, found.st_ino))

    def _devices(self) -> list[Place]:
        return [Place(path, DEVICE & within(self._abi)) for path in DEVICES if os.path.exists(path)]

    def _look_around(self, precious: Iterable[str]) -> str:
        """Why the walls hold nothing, or an empty text."""
        if not self._abi:
            return "this kernel has no Landlock."
        if self._abi < SAFE_SINCE:
            return f"Landlock of this kernel (ABI {self._abi}) cannot keep files outside from being emptied."
        if not (self._settings.unix_sockets or call_filter(unix_sockets=False)):
            return f"the system calls of {platform.machine()} are not known, so programs outside can be asked to help."
        folders = [place.path for place in self._writable]
        own = [os.path.realpath(path) for path in precious]
        for path, folder in product([*own, *map(os.path.realpath, _looked_through())], folders):
            if os.path.commonpath([path, folder]) == folder:
                return f"{folder} contains {path}, which Aar lives on, so a command could change Aar."
        for path, folder in product(own, folders):
            if os.path.commonpath([path, folder]) == path:
                return f"{folder} lies in {path}, which Aar lives on, so a command could change Aar."
        return ""


def _with_note(result: CommandResult, note: str, limit: int) -> CommandResult:
    """The result with a last line on its standard error, as long as before where it had no room for it."""
    room = max(0, limit - RENDER_ROOM)
    stderr = f"{result.stderr.rstrip()}\n{note}\n".lstrip()[-room:]
    over = len(result.stdout) + len(stderr) - room
    return result._replace(stdout=result.stdout[max(0, over) :], stderr=stderr)


def _link_within(path: str, folders: Collection[str]) -> str:
    """The first link on the way to `path` that stands in one of these real folders, or an empty text.

    Whoever may write there decides where it leads. Raises `OSError` when the way has no end.
    """
    for part in [*reversed(Path(os.path.abspath(path)).parents), Path(os.path.abspath(path))]:
        if part.is_symlink():
            parent = os.path.realpath(part.parent)
            if any(os.path.commonpath([parent, folder]) == folder for folder in folders):
                return str(part)
            rest = os.path.relpath(os.path.abspath(path), part)
            return _link_within(os.path.join(parent, os.readlink(part), rest), folders)
    return ""


def _own_code() -> list[str]:
    """Aar's program, and the Python that runs it."""
    return [str(Path(__file__).parents[2]), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib", "scripts"))]


def _looked_through() -> list[str]:
    """Where Python looks for what Aar imports, also later: what is not there could be put there."""
    return [sys.prefix, *filter(os.path.isabs, sys.path)]
