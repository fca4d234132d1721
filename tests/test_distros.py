"""Against a `wsl` that keeps its distributions in a folder: a name in it is one, and each call is noted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from aar.distros import DistroError, Distros, download, install_path, set_up, walls
from aar.messages.settings import WslSandbox
from aar.transports.cli.app import run_command
from aar.transports.cli.lines import Lines
from aar.transports.cli.sandbox import make, remake, show
from aar.transports.program.screen import Screen

WSL = r"""#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >> calls
case $1 in
--status) test ! -e broken ;;
-l) for name in distros/*; do basename "$name"; done | sed '/\*/d' | iconv -t UTF-16LE; exit 0 ;;
--import) mkdir "distros/$2" && test -d "$3" && cat "$4" > contents ;;
--unregister) rmdir "distros/$2" ;;
-d) shift 3; shift; exec sh -c "$2" ;;
esac
"""


class Wsl:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "distros").mkdir()
        program = folder / "wsl"
        program.write_text(WSL)
        program.chmod(0o755)
        self.distros = Distros(str(program))

    def has(self, *names: str) -> None:
        for name in names:
            (self._folder / "distros" / name).mkdir()

    def is_broken(self) -> None:
        (self._folder / "broken").touch()

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in (self._folder / "distros").iterdir())

    @property
    def calls(self) -> list[str]:
        return (self._folder / "calls").read_text().splitlines()

    @property
    def contents(self) -> str:
        return (self._folder / "contents").read_text()


@pytest.fixture
def wsl(tmp_path: Path) -> Wsl:
    folder = tmp_path / "wsl"
    folder.mkdir()
    return Wsl(folder)


@pytest.fixture
async def rootfs(nursery: trio.Nursery) -> AsyncIterator[str]:
    """An address that has 100 kB; below `/missing` there is nothing."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            asked = await stream.receive_some()
            status, body = ("404 Not Found", b"") if b"/missing" in asked else ("200 OK", b"root" * 25_000)
            head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            await stream.send_all(head.encode() + body)

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    nursery.cancel_scope.cancel()


def wanted(**fields: object) -> WslSandbox:
    return WslSandbox.model_validate({"distro": "box", "packages": [], **fields})


@pytest.mark.covers("CLI-18")
@pytest.mark.parametrize(
    ("command", "code"), [(["setup"], 1), (["status"], 0), ([], 0), (["reset"], 1), (["reset", "--yes"], 1)]
)
def test_systems_without_wsl_say_so(command: list[str], code: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["sandbox", *command]) == code
    out, err = capfd.readouterr()
    assert (out, "which only Windows has. On Linux say" in err) == ("", True)
    assert ("This kernel can put up its walls (Landlock, ABI " in err) is (code == 0)


def test_what_the_sandbox_linux_needs_is_looked_for_in_the_kernel() -> None:
    assert [walls(abi).partition(" (")[0] for abi in (3, 7)] == ["This kernel can put up its walls"] * 2
    for abi, why in ((0, "no Landlock"), (1, "(ABI 1) is too old"), (2, "(ABI 2) is too old")):
        assert (why in walls(abi), walls(abi).endswith("be asked about.")) == (True, True)


@pytest.mark.covers("SBX-18")
async def test_wsl_is_there_when_it_answers(wsl: Wsl, tmp_path: Path) -> None:
    assert await wsl.distros.available()
    wsl.is_broken()
    assert not await wsl.distros.available()
    assert not await Distros(str(tmp_path / "nothing")).available()


@pytest.mark.covers("SBX-18")
async def test_names_are_listed_whatever_their_letters_and_compared_without_case(wsl: Wsl) -> None:
    assert await wsl.distros.names() == []
    wsl.has("Ubuntu", "größe")
    assert sorted(await wsl.distros.names()) == ["Ubuntu", "größe"]
    assert [await wsl.distros.exists(name) for name in ("ubuntu", "GRÖSSE", "GRÖßE", "box")] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.covers("SBX-18")
async def test_a_distribution_is_made_used_and_removed(wsl: Wsl, tmp_path: Path) -> None:
    tarball = tmp_path / "rootfs"
    tarball.write_text("root")
    await wsl.distros.import_tarball("box", tmp_path / "a" / "b", tarball)
    done = await wsl.distros.run("box", "echo here; exit 3")
    assert (wsl.names, wsl.contents, done.stdout, done.exit_code) == (["box"], "root", "here\n", 3)
    await wsl.distros.unregister("box")
    with pytest.raises(DistroError, match="wsl --unregister failed: rmdir"):
        await wsl.distros.unregister("box")
    assert wsl.calls[0] == f"--import box {tmp_path}/a/b {tarball}"


def test_it_is_put_where_the_settings_say_or_where_programs_keep_their_data() -> None:
    home = Path("/home/ada/.aar")
    assert install_path(wanted(install_path="/x"), home, {}) == Path("/x")
    assert install_path(wanted(), home, {"LOCALAPPDATA": "/local"}) == Path("/local/aar/wsl-distros/box")
    assert install_path(wanted(), home, {}) == home / "wsl-distros" / "box"


async def test_a_setup_fetches_imports_and_furnishes(
    wsl: Wsl, rootfs: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = wanted(
        rootfs_url=rootfs,
        install_path=str(tmp_path / "there"),
        pre_install_commands=["echo before", "echo broken >&2; exit 1"],
        packages=["python3", "git"],
        package_install_command="test '{packages}' = 'python3 git'",
    )
    assert await make(Screen(), wsl.distros, settings, replace=False) == 0
    out, err = capfd.readouterr()
    assert json.loads(out.partition("\n")[2]) == {"safety": {"sandbox": {"mode": "wsl", "wsl": {"distro": "box"}}}}
    assert [line for line in err.splitlines() if "%" in line][-1] == "  100 %"
    assert [line for line in err.splitlines() if "Warning" in line] == ["Warning: echo broken >&2; exit 1: broken"]
    assert (wsl.names, len(wsl.contents)) == (["box"], 100_000)


async def test_one_that_is_there_is_made_anew_only_with_force(wsl: Wsl, rootfs: str, tmp_path: Path) -> None:
    wsl.has("box")
    settings = wanted(rootfs_url=rootfs, install_path=str(tmp_path / "there"))
    assert await make(Screen(), wsl.distros, settings, replace=False) == 1
    assert await make(Screen(), wsl.distros, settings, replace=True) == 0
    assert [call.split()[0] for call in wsl.calls if call.startswith("--")][-2:] == ["--unregister", "--import"]


async def test_without_wsl_the_way_to_it_is_told(wsl: Wsl, capfd: pytest.CaptureFixture[str]) -> None:
    wsl.is_broken()
    codes = [
        await make(Screen(), wsl.distros, wanted(), replace=False),
        await show(Screen(), wsl.distros, wanted()),
        await remake(Screen(), wsl.distros, wanted(), Lines(), says_yes=True),
    ]
    assert codes == [1, 1, 1]
    assert capfd.readouterr().err.count("wsl --install") == 3


async def test_what_cannot_be_fetched_is_told_and_nothing_is_imported(wsl: Wsl, rootfs: str, tmp_path: Path) -> None:
    async def tell(line: str) -> None: ...

    for url in (f"{rootfs}/missing", "http://127.0.0.1:1/", "nonsense"):
        with pytest.raises(DistroError, match="could not be fetched"):
            await set_up(wsl.distros, wanted(rootfs_url=url), tmp_path / "there", replace=False, tell=tell)
    assert wsl.names == []


async def test_a_download_tells_how_far_it_is(rootfs: str, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    async def progress(so_far: int, total: int) -> None:
        told.append((so_far, total))

    await download(rootfs, tmp_path / "file", progress)
    assert told == sorted(told)
    assert told[-1] == (100_000, 100_000)


async def test_status_shows_what_is_wanted_and_what_there_is(wsl: Wsl, capfd: pytest.CaptureFixture[str]) -> None:
    settings = wanted(system_prompt_hint="x" * 100, workspace=r"C:\ws")
    assert await show(Screen(), wsl.distros, settings) == 0
    told = dict(line.split(": ", 1) for line in capfd.readouterr().out.splitlines())
    assert [told[name].strip() for name in ("Distribution", "Workspace", "Exists")] == [
        "box",
        r"C:\ws",
        "no: aar sandbox setup",
    ]
    assert told["Hint"].strip() == "x" * 80
    wsl.has("box")
    assert await show(Screen(), wsl.distros, settings) == 0
    told = dict(line.split(": ", 1) for line in capfd.readouterr().out.splitlines())
    assert told["Exists"].strip() == "yes"
    assert told["Python"].strip().startswith("Python 3")


@pytest.mark.parametrize(("answer", "code", "left"), [("box\n", 0, ["box"]), ("Box\n", 1, ["box"]), ("", 1, ["box"])])
async def test_a_reset_wants_the_name(
    wsl: Wsl, rootfs: str, tmp_path: Path, answer: str, code: int, left: list[str]
) -> None:
    settings = wanted(rootfs_url=rootfs, install_path=str(tmp_path / "there"))
    (tmp_path / "answer").write_text(answer)
    with (tmp_path / "answer").open() as typed:
        assert await remake(Screen(), wsl.distros, settings, Lines(typed.fileno()), says_yes=False) == 0  # not there
        wsl.has("box")
        assert await remake(Screen(), wsl.distros, settings, Lines(typed.fileno()), says_yes=False) == code
    assert wsl.names == left
    assert any(call.startswith("--unregister") for call in wsl.calls) == (code == 0)
