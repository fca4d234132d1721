"""A `wsl` that says how it was called stands in for the one of Windows; nothing here needs Windows."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from aar.messages.settings import AgentConfig
from aar.messages.settings import WslSandbox as WslSettings
from aar.safety.sandbox import CommandResult, sandbox_for
from aar.safety.sandbox.wsl import WslSandbox, wsl_path


@pytest.fixture
def wsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wsl"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"; echo err >&2; exit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.covers("SBX-12")
@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        ({}, ["-d", "aar-sandbox", "--cd", "/mnt/c/ws", "--", "sh", "-c", "ls | wc"]),
        (
            {"distro": "mine", "shell": "bash", "wsl_user": "ada"},
            ["-d", "mine", "--cd", "/mnt/c/ws", "--user", "ada", "--", "bash", "-c", "ls | wc"],
        ),
        (
            {"restrict_to_workspace": False},
            ["-d", "aar-sandbox", "--", "sh", "-c", "cd /mnt/c/ws && eval 'ls | wc'"],
        ),
    ],
)
async def test_a_command_goes_to_the_distribution(wsl: None, settings: dict[str, object], argv: list[str]) -> None:
    sandbox = WslSandbox(r"C:\ws", WslSettings.model_validate(settings))
    result = await sandbox.execute("ls | wc", timeout=60, cwd=r"C:\ws", output_limit=1000)
    assert result == CommandResult("".join(f"{word}\n" for word in argv), "err\n", 3)


@pytest.mark.covers("SBX-16")
async def test_variables_go_before_the_command(wsl: None) -> None:
    sandbox = WslSandbox("/ws", WslSettings())
    result = await sandbox.execute("a; b", timeout=60, env={"A": "it's", "B": "x y"}, output_limit=1000)
    assert result.stdout.endswith("-c\nexport A='it'\"'\"'s' B='x y'; a; b\n")


@pytest.mark.covers("SBX-13")
@pytest.mark.parametrize(
    ("windows", "linux"),
    [
        (r"B:\foo\bar", "/mnt/b/foo/bar"),
        ("c:/a/./b/../c/", "/mnt/c/a/c"),
        ("C:", "/mnt/c"),
        ("C:\\", "/mnt/c"),
        ("/home/ada/../bob", "/home/bob"),
        (r"\\server\share\x", "//server/share/x"),
        (r"some\where", "some/where"),
    ],
)
def test_paths_are_translated(windows: str, linux: str) -> None:
    assert wsl_path(windows) == linux


@pytest.mark.covers("SBX-14")
@pytest.mark.parametrize("cwd", [r"C:\other", r"C:\ws\..\other", r"C:\wsx", "/mnt/c"])
async def test_a_folder_outside_the_workspace_is_refused(cwd: str) -> None:
    result = await WslSandbox(r"C:\ws", WslSettings()).execute("ls", timeout=60, cwd=cwd, output_limit=1000)
    assert result == CommandResult("", rf"Refused: cwd '{cwd}' resolves outside the sandbox workspace 'C:\ws'.", 1)


@pytest.mark.parametrize("cwd", [r"c:\WS\Sub", "/mnt/c/ws/Sub"])
async def test_a_folder_inside_may_be_written_in_any_way(wsl: None, cwd: str) -> None:
    result = await WslSandbox(r"C:\ws", WslSettings()).execute("ls", timeout=60, cwd=cwd, output_limit=1000)
    assert result.stdout.splitlines()[3].casefold() == "/mnt/c/ws/sub"


@pytest.mark.covers("SBX-15")
async def test_without_wsl_the_result_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = sandbox_for(AgentConfig().patched({"safety": {"sandbox": "wsl"}}), str(tmp_path))
    result = await sandbox.execute("ls", timeout=60, output_limit=1000)
    assert result == CommandResult("", "wsl.exe not found — WSL2 is not available on this system.", 1)
    assert (sandbox.name, sandbox.enforces_paths) == ("wsl", False)


async def test_model_keys_stay_here_and_output_is_cut(
    tmp_path: Path, wsl: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    (tmp_path / "wsl").write_text("#!/bin/sh\nenv; seq 10000\n")
    reported: list[str] = []
    result = await WslSandbox("/ws", WslSettings()).execute("x", timeout=60, report=reported.append, output_limit=1000)
    assert "canary" not in result.stdout
    assert len(result.stdout) < 1000
    assert result.stdout.endswith("10000\n")
    assert 0 < len("".join(reported)) < 1000


async def test_a_timeout_and_a_cancel_end_it(tmp_path: Path, wsl: None) -> None:
    (tmp_path / "wsl").write_text("#!/bin/sh\necho so far; exec sleep 1000\n")
    sandbox = WslSandbox("/ws", WslSettings())
    result = await sandbox.execute("x", timeout=0.1, output_limit=1000)
    assert (result.exit_code, result.timed_out) == (-1, True)
    with trio.CancelScope() as scope:
        await sandbox.execute("x", timeout=None, report=lambda _: scope.cancel(), output_limit=1000)
    assert scope.cancelled_caught
