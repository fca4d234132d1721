"""The extension for Zed: its manifest, its archives, and the launcher in them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import aar

ROOT = Path(__file__).parent.parent.parent
ZED = ROOT / "editors" / "zed"
TARGETS = {
    "darwin-aarch64": "tar.gz",
    "darwin-x86_64": "tar.gz",
    "linux-aarch64": "tar.gz",
    "linux-x86_64": "tar.gz",
    "windows-x86_64": "zip",
}
URL = "https://host.example/v1"


def manifest(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "extension.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder with everything that is published, and what was printed."""
    folder = tmp_path_factory.mktemp("zed")
    command = [sys.executable, str(ZED / "build.py"), "--url", URL + "/", "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return folder, done.stdout


def program(folder: Path, target: str) -> tuple[list[str], bytes, int]:
    """The names in the archive of a target; its launcher, with its mode."""
    (path,) = folder.glob(f"*-{target}.*")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as zipped:
            return zipped.namelist(), zipped.read("aar-acp.cmd"), 0o755
    with tarfile.open(path) as tarred:
        launcher = tarred.extractfile("aar-acp")
        assert launcher is not None
        return tarred.getnames(), launcher.read(), tarred.getmember("aar-acp").mode


@pytest.mark.covers("PKG-03")
def test_the_version_of_the_package_is_that_of_the_manifest_and_of_the_agent(tmp_path: Path) -> None:
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        [sys.executable, "-m", "aar", "acp"],
        input=json.dumps(initialize) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AAR_HOME": str(tmp_path / "home")},
        timeout=60,
        check=True,
    )
    agent = json.loads(done.stdout.splitlines()[0])["result"]["agentInfo"]["version"]
    assert (manifest(ZED)["version"], agent) == (aar.__version__, aar.__version__)


@pytest.mark.covers("PKG-04")
def test_the_manifest_has_five_targets_that_start_the_launcher() -> None:
    kept = manifest(ZED)
    assert (kept["id"], kept["schema_version"]) == ("aar", 1)
    assert (ZED / kept["agent_servers"]["aar"]["icon"]).is_file()
    targets = kept["agent_servers"]["aar"]["targets"]
    assert {name: target["cmd"] for name, target in targets.items()} == {
        name: "./aar-acp.cmd" if kind == "zip" else "./aar-acp" for name, kind in TARGETS.items()
    }


@pytest.mark.covers("PKG-04")
def test_an_archive_is_built_for_each_target_and_its_checksum_printed(built: tuple[Path, str]) -> None:
    folder, printed = built
    names = {target: f"aar-zed-{aar.__version__}-{target}.{kind}" for target, kind in TARGETS.items()}
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names.values()}
    assert printed == "".join(f"{sums[name]}  {name}\n" for name in names.values())
    published = manifest(folder)
    assert published["version"] == aar.__version__
    targets = published["agent_servers"]["aar"]["targets"]
    assert {name: (target["archive"], target["sha256"]) for name, target in targets.items()} == {
        target: (f"{URL}/{name}", sums[name]) for target, name in names.items()
    }
    assert (folder / "icon.svg").is_file()
    for target in TARGETS:
        files, launcher, mode = program(folder, target)
        assert files == [targets[target]["cmd"].removeprefix("./"), "LICENSE"]
        assert (b" acp " in launcher, mode) == (True, 0o755)


def test_the_same_sources_give_the_same_archives(built: tuple[Path, str], tmp_path: Path) -> None:
    command = [sys.executable, str(ZED / "build.py"), "--output", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == built[1]


@pytest.fixture
def launcher(built: tuple[Path, str], tmp_path: Path) -> Path:
    """The launcher as it comes out of the archive for this platform."""
    path = next(built[0].glob("*-linux-x86_64.tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    return tmp_path / "unpacked" / "aar-acp"


def fake_aar(folder: Path) -> Path:
    """A program of that name that tells how it was started."""
    folder.mkdir(parents=True)
    program = folder / "aar"
    program.write_text('#!/bin/sh\necho "$AAR_LAUNCHED_BY $0 $*"\n')
    program.chmod(0o755)
    return program


def launched(launcher: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(launcher), *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.covers("PKG-04")
def test_the_launcher_finds_aar_and_starts_it_as_an_agent(launcher: Path, tmp_path: Path) -> None:
    user = fake_aar(tmp_path / "home" / ".local" / "bin")
    first = fake_aar(tmp_path / "bin")
    named = fake_aar(tmp_path / "with space")
    home = {"HOME": str(tmp_path / "home")}
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    assert launched(launcher, "--model", "m", PATH=path, **home).stdout == f"zed {first} acp --model m\n"
    assert launched(launcher, PATH="/usr/bin:/bin", **home).stdout == f"zed {user} acp\n"
    assert launched(launcher, PATH=path, AAR_COMMAND=str(named), **home).stdout == f"zed {named} acp\n"
    http = launched(launcher, "--http", PATH=path, ZED_AGENT_PORT="9000", **home)
    assert http.stdout == f"zed {first} acp --http --host 127.0.0.1 --port 9000\n"


def test_without_aar_the_launcher_says_so_and_keeps_its_output_clean(launcher: Path, tmp_path: Path) -> None:
    done = launched(launcher, PATH="/usr/bin:/bin", HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("aar was not found.")
