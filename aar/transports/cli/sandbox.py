"""`aar sandbox`: the distribution of WSL that commands run in. On Windows only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping

from aar.display import one_line, plain
from aar.distros import DistroError, Distros, install_path, set_up, walls
from aar.messages.settings import WslSandbox
from aar.transports.cli.lines import Lines
from aar.transports.cli.look import look_for
from aar.transports.program.exits import DONE, FAILED, complain, run_to_code
from aar.transports.program.flags import LogFlags
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen
from aar.transports.program.settings import loaded_settings

__all__ = ["make", "remake", "reset", "setup", "show", "status"]

NO_WINDOWS = "aar sandbox manages a distribution of WSL, which only Windows has."
INSTEAD = 'On Linux say {"safety": {"sandbox": "linux"}}: it needs no setup.'
NO_WSL = "WSL does not answer. Install it with: wsl --install"
SHOWN = 80  # characters of a hint


def setup(
    *,
    distro: str | None,
    install_path: str | None,
    rootfs_url: str | None,
    packages: str | None,
    force: bool,
    flags: LogFlags,
) -> int:
    """Make the distribution."""
    if not _is_windows():
        complain(f"{NO_WINDOWS} {INSTEAD}")
        return FAILED
    changes = {"distro": distro, "install_path": install_path, "rootfs_url": rootfs_url, "packages": _words(packages)}
    return _work(flags, changes, lambda screen, wanted: make(screen, Distros(), wanted, replace=force))


def status(*, distro: str | None, flags: LogFlags) -> int:
    """Show what is wanted and what there is."""
    if not _is_windows():
        return run_to_code(_notice)
    return _work(flags, {"distro": distro}, lambda screen, wanted: show(screen, Distros(), wanted))


def reset(*, distro: str | None, rootfs_url: str | None, packages: str | None, yes: bool, flags: LogFlags) -> int:
    """Throw the distribution away and make it anew."""
    if not _is_windows():
        complain(f"{NO_WINDOWS} {INSTEAD}")
        return FAILED
    changes = {"distro": distro, "rootfs_url": rootfs_url, "packages": _words(packages)}
    return _work(flags, changes, lambda screen, wanted: remake(screen, Distros(), wanted, Lines(), says_yes=yes))


async def _notice() -> int:
    screen = Screen()
    look = look_for(screen, is_terminal=screen.err_is_terminal)
    await screen.tell(look.styled(f"{NO_WINDOWS} {INSTEAD}", "yellow") + "\n")
    if sys.platform == "linux":
        await screen.tell(f"{walls()}\n")
    return DONE


def _is_windows() -> bool:
    return os.name == "nt"


def _words(packages: str | None) -> list[str] | None:
    return None if packages is None else [word for word in map(str.strip, packages.split(",")) if word]


def _work(flags: LogFlags, changes: Mapping[str, object], work: Callable[[Screen, WslSandbox], Awaitable[int]]) -> int:
    async def to_code() -> int:
        screen = Screen()
        settings = loaded_settings(flags).config.safety.sandbox.wsl
        wanted = settings.model_copy(update={name: value for name, value in changes.items() if value is not None})
        try:
            return await work(screen, wanted)
        except DistroError as error:
            complain(str(error))
            return FAILED

    return run_to_code(to_code)


async def make(screen: Screen, distros: Distros, wanted: WslSandbox, *, replace: bool) -> int:
    """Make it, and say what belongs into the configuration."""
    if not await distros.available():
        complain(NO_WSL)
        return FAILED

    async def tell(line: str) -> None:
        await screen.tell(f"{plain(line)}\n")

    if not await set_up(distros, wanted, install_path(wanted, home_folder()), replace=replace, tell=tell):
        return FAILED
    snippet = {"safety": {"sandbox": {"mode": "wsl", "wsl": {"distro": wanted.distro}}}}
    await screen.say(f"{wanted.distro} is ready. Put this into your configuration:\n{json.dumps(snippet, indent=2)}\n")
    return DONE


async def show(screen: Screen, distros: Distros, wanted: WslSandbox) -> int:
    """What is wanted, and what there is of it."""
    facts = {
        "Profile": wanted.profile or "none",
        "Distribution": wanted.distro,
        "Shell": wanted.shell,
        "Workspace": wanted.workspace or "the session's folder",
        "Install path": install_path(wanted, home_folder()),
        "Root files": wanted.rootfs_url,
        "Before packages": "; ".join(wanted.pre_install_commands) or "nothing",
        "Packages": " ".join(wanted.packages) or "none",
        "Install with": wanted.package_install_command,
        "Hint": wanted.system_prompt_hint[:SHOWN] or "none",
    }
    await _say(screen, facts)
    if not await distros.available():
        complain(NO_WSL)
        return FAILED
    exists = await distros.exists(wanted.distro)
    await _say(screen, {"WSL": "available", "Exists": "yes" if exists else "no: aar sandbox setup"})
    if exists:
        kernel = await distros.run(wanted.distro, "uname -r")
        python = await distros.run(wanted.distro, "python3 --version 2>/dev/null || echo none")
        await _say(screen, {"Kernel": kernel.stdout.strip(), "Python": python.stdout.strip()})
    return DONE


async def _say(screen: Screen, facts: Mapping[str, object]) -> None:
    await screen.say("".join(f"{name + ':':17}{one_line(str(value))}\n" for name, value in facts.items()))


async def remake(screen: Screen, distros: Distros, wanted: WslSandbox, lines: Lines, *, says_yes: bool) -> int:
    """Throw it away, when the user writes its name, and make it anew."""
    if not await distros.available():
        complain(NO_WSL)
        return FAILED
    if not await distros.exists(wanted.distro):
        await screen.say(f"There is no distribution {plain(wanted.distro)}. aar sandbox setup makes it.\n")
        return DONE
    if not says_yes:
        await screen.tell(f"All files in {plain(wanted.distro)} will be lost. Write its name to go on: ")
        if (await lines.read() or "").strip() != wanted.distro:
            await screen.tell("Nothing was done.\n")
            return FAILED
    return await make(screen, distros, wanted, replace=True)
