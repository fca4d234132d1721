"""The Linux distribution of the sandbox `wsl`: made, looked at and thrown away. Windows only, but for `walls`.

Tested against a stand-in for `wsl.exe`; it has not been run on Windows itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import trio

from aar.errors import AarError
from aar.messages.settings import WslSandbox
from aar.processes.command import Finished
from aar.processes.environment import child_environment
from aar.processes.plain import run_plain
from aar.safety.sandbox.landlock import SAFE_SINCE, landlock_abi
from aar.safety.sandbox.wsl import wsl_program

__all__ = ["DistroError", "Distros", "download", "install_path", "set_up", "walls"]

LOOK_SECONDS, CHANGE_SECONDS, RUN_SECONDS = 10.0, 600.0, 120.0
PRE_INSTALL_SECONDS, PACKAGES_SECONDS = 60.0, 600.0
DOWNLOAD_SECONDS = 1800.0
OUTPUT_LIMIT = 4_000

Tell = Callable[[str], Awaitable[None]]


class DistroError(AarError):
    """A distribution could not be made or removed."""


class Distros:
    """The distributions of WSL on this machine."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program or wsl_program()

    async def available(self) -> bool:
        """Whether WSL answers, within ten seconds."""
        try:
            return (await self._call("--status", timeout=LOOK_SECONDS)).exit_code == 0
        except OSError:
            return False

    async def names(self) -> list[str]:
        """Raises `DistroError` when WSL does not tell."""
        listed = await self._checked("-l", "-q", timeout=LOOK_SECONDS, encoding="utf-16-le")
        lines = (line.strip().strip("\ufeff\0") for line in listed.stdout.replace("\0", "").splitlines())
        return [line for line in lines if line]

    async def exists(self, name: str) -> bool:
        """Whether there is one of this name, in upper or lower case."""
        return name.casefold() in [each.casefold() for each in await self.names()]

    async def import_tarball(self, name: str, folder: Path, tarball: Path) -> None:
        """Make a distribution of a root file system, in `folder`, which is made. Raises `DistroError`."""
        await trio.to_thread.run_sync(lambda: folder.mkdir(parents=True, exist_ok=True))
        await self._checked("--import", name, str(folder), str(tarball), timeout=CHANGE_SECONDS)

    async def unregister(self, name: str) -> None:
        """Remove a distribution with all its files. Raises `DistroError`."""
        await self._checked("--unregister", name, timeout=CHANGE_SECONDS)

    async def run(self, name: str, command: str, *, timeout: float = RUN_SECONDS) -> Finished:
        """Run a shell command in a distribution."""
        return await self._call("-d", name, "--", "sh", "-c", command, timeout=timeout)

    async def _checked(self, *arguments: str, timeout: float, encoding: str = "utf-8") -> Finished:
        finished = await self._call(*arguments, timeout=timeout, encoding=encoding)
        if finished.exit_code:
            said = (finished.stderr.strip() or finished.stdout.strip()).replace("\0", "")
            why = "it took too long" if finished.timed_out else said or f"exit code {finished.exit_code}"
            raise DistroError(f"wsl {arguments[0]} failed: {why}")
        return finished

    async def _call(self, *arguments: str, timeout: float, encoding: str = "utf-8") -> Finished:
        words = {"WSL_UTF8": "0" if encoding != "utf-8" else "1"}
        return await run_plain(
            [self._program, *arguments],
            cwd=None,
            env=child_environment(extra=words),
            timeout=timeout,
            output_limit=OUTPUT_LIMIT,
            encoding=encoding,
        )


def install_path(wanted: WslSandbox, home: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where a distribution is put: as the settings say, else below `LOCALAPPDATA`, else below `home`."""
    if wanted.install_path:
        return Path(wanted.install_path).expanduser()
    local = environ.get("LOCALAPPDATA")
    return (Path(local, "aar") if local else home) / "wsl-distros" / wanted.distro


async def set_up(distros: Distros, wanted: WslSandbox, folder: Path, *, replace: bool, tell: Tell) -> bool:
    """Fetch, import and furnish a distribution. Says what happens; False when it is there and must not be replaced.

    Commands that fail inside it are told and passed over. Raises `DistroError` and `OSError` when it cannot be made.
    """
    if await distros.exists(wanted.distro):
        if not replace:
            await tell(f"The distribution {wanted.distro} exists already. --force makes it anew.")
            return False
        await tell(f"Removing {wanted.distro} ...")
        await distros.unregister(wanted.distro)
    with tempfile.TemporaryDirectory(prefix="aar-rootfs-") as fetched:
        tarball = Path(fetched, "rootfs.tar.gz")
        await tell(f"Downloading {wanted.rootfs_url} ...")
        await download(wanted.rootfs_url, tarball, _every_tenth(tell))
        await tell(f"Importing {wanted.distro} into {folder} ...")
        await distros.import_tarball(wanted.distro, folder, tarball)
    await _furnish(distros, wanted, tell)
    return True


async def _furnish(distros: Distros, wanted: WslSandbox, tell: Tell) -> None:
    for command in wanted.pre_install_commands:
        await tell(f"Running {command}")
        await _try(distros, wanted.distro, command, PRE_INSTALL_SECONDS, tell)
    if wanted.packages:
        packages = " ".join(wanted.packages)
        await tell(f"Installing {packages} ...")
        command = wanted.package_install_command.replace("{packages}", packages)
        await _try(distros, wanted.distro, command, PACKAGES_SECONDS, tell)


async def _try(distros: Distros, name: str, command: str, seconds: float, tell: Tell) -> None:
    finished = await distros.run(name, command, timeout=seconds)
    if finished.exit_code:
        why = f"not done in {seconds:g} s" if finished.timed_out else finished.stderr.strip() or finished.stdout.strip()
        await tell(f"Warning: {command}: {why}")


async def download(url: str, target: Path, progress: Callable[[int, int], Awaitable[None]]) -> None:
    """Fetch `url` into a file. `progress` gets the bytes so far and all of them, 0 where the server does not say.

    Raises `DistroError`.
    """
    import httpx2  # most of a start is imports

    try:
        with trio.fail_after(DOWNLOAD_SECONDS):
            async with (
                httpx2.AsyncClient(follow_redirects=True) as client,
                client.stream("GET", url) as response,
                await trio.open_file(target, "wb") as file,
            ):
                response.raise_for_status()
                total, so_far = int(response.headers.get("content-length") or 0), 0
                async for chunk in response.aiter_raw():
                    await file.write(chunk)
                    so_far += len(chunk)
                    await progress(so_far, total)
    except (httpx2.HTTPError, httpx2.InvalidURL, trio.TooSlowError, ValueError) as error:
        raise DistroError(f"{url} could not be fetched: {error or type(error).__name__}") from error


def _every_tenth(tell: Tell) -> Callable[[int, int], Awaitable[None]]:
    told = 0

    async def progress(so_far: int, total: int) -> None:
        nonlocal told
        tenths = so_far * 10 // total if total else 0
        if tenths > told:
            told = tenths
            await tell(f"  {tenths * 10} %")

    return progress


def walls(abi: int | None = None) -> str:
    """What the sandbox `linux` is worth under a kernel whose Landlock is of this `abi`, by default this one's."""
    abi = landlock_abi() if abi is None else abi
    if abi == 0:
        return "This kernel has no Landlock: commands would run there without walls, and be asked about."
    if abi < SAFE_SINCE:
        return f"This kernel's Landlock (ABI {abi}) is too old to hold all writing: commands would be asked about."
    return f"This kernel can put up its walls (Landlock, ABI {abi})."
