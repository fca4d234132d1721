"""Installing a package that brings an extension, with the pip of the Python that runs Aar."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from aar.config.extensions import GROUP, site_folders
from aar.errors import ConfigError, ExtensionError
from aar.processes.command import run_command
from aar.processes.environment import child_environment

__all__ = ["PIP", "install_package"]

PIP = (sys.executable, "-P", "-m", "pip")  # and no folder named `pip` that a project may have
INSTALL_TIMEOUT = 1800.0  # seconds
OUTPUT_LIMIT = 20_000  # characters


async def install_package(
    package: str, cwd: str, *, report: Callable[[str], None] | None = None, pip: Sequence[str] = PIP
) -> list[str]:
    """Install a package by its name, requirement, file or folder; gives the names of the extensions it brings.

    Raises `ConfigError` for what is no package, `ExtensionError` with what pip said when it fails.
    """
    if not package.strip() or package.startswith("-"):
        raise ConfigError(f"{package!r} is no package: give a name, or the path of a file or folder.")
    with tempfile.TemporaryDirectory(prefix="aar-install-") as folder:
        written = Path(folder, "report.json")
        command = [*pip, "install", "--disable-pip-version-check", "--no-input", "--report", str(written), package]
        done = await run_command(
            command,
            cwd=cwd,
            env=child_environment(),
            timeout=INSTALL_TIMEOUT,
            output_limit=OUTPUT_LIMIT,
            report=report,
        )
        if done.timed_out:
            raise ExtensionError(f"pip took longer than {INSTALL_TIMEOUT:g} s and was ended.")
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).strip()
            raise ExtensionError(f"{package} could not be installed:\n{said}")
        names = _installed_now(written)
    return await trio.to_thread.run_sync(_extensions_of, names, cwd, abandon_on_cancel=True)


def _installed_now(report: Path) -> set[str]:
    """Names of the packages that pip has put there; none when all were there already."""
    try:
        entries: Any = json.loads(report.read_text(encoding="utf-8")).get("install", [])
        return {_normal(entry["metadata"]["name"]) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def _extensions_of(packages: set[str], cwd: str) -> list[str]:
    """The extensions of these packages; without any, of all that are installed."""
    from importlib.metadata import distributions

    names: dict[str, None] = {}
    for distribution in distributions(path=list(site_folders(cwd))):
        if not packages or _normal(str(distribution.metadata["Name"])) in packages:
            names |= {point.name: None for point in distribution.entry_points.select(group=GROUP)}
    return list(names)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
