"""The calls to Windows, in order, against stand-ins for its libraries. The programs that run are real."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig
from aar.messages.settings import WindowsSandbox as WindowsSettings
from aar.safety.sandbox import CommandResult, sandbox_for
from aar.safety.sandbox.job_object import JobObject, limits
from aar.safety.sandbox.low_integrity import LOW_LABEL, NOT_LOWERED, lower_integrity, run
from aar.safety.sandbox.windows import WindowsSandbox


class Function:
    """A function of a library: notes its call and answers. `restype` may be set, as on a real one."""

    restype: Any = None

    def __init__(self, name: str, calls: list[tuple[Any, ...]], answer: int) -> None:
        self._name, self._calls, self._answer = name, calls, answer

    def __call__(self, *arguments: Any) -> int:
        self._calls.append((self._name, *(getattr(one, "value", one) for one in arguments)))
        return self._answer


class Library:
    """Functions by name; those in `answers` answer with that."""

    def __init__(self, **answers: int) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._answers = answers
        self._functions: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        if name not in self._functions:
            self._functions[name] = Function(name, self.calls, self._answers.get(name, 1))
        return self._functions[name]

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


KERNEL = {"CreateJobObjectW": 71, "OpenProcess": 72, "GetCurrentProcess": 73}
HELD = ["CreateJobObjectW", "SetInformationJobObject", "OpenProcess", "AssignProcessToJobObject", "CloseHandle"]


@pytest.fixture
def icacls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notes each call in the file that is given."""
    program = tmp_path / "System32" / "icacls.exe"
    program.parent.mkdir()
    noted = tmp_path / "noted"
    program.write_text(f'#!/bin/sh\necho "$@" >> {noted}\n')
    program.chmod(0o755)
    monkeypatch.setenv("SYSTEMROOT", str(tmp_path))
    return noted


def noted(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.covers("SBX-11")
async def test_a_command_is_held_by_a_job_before_it_runs(tmp_path: Path, icacls: Path) -> None:
    kernel = Library(**KERNEL)
    settings = WindowsSettings(use_low_integrity=False, max_processes=7, max_memory_mb=64)
    sandbox = WindowsSandbox(str(tmp_path), settings, kernel=kernel)
    result = await sandbox.execute("pwd; echo err >&2; exit 5", timeout=60, output_limit=1000)
    assert result == CommandResult(f"{tmp_path}\n", "err\n", 5)
    assert kernel.names == [*HELD, "CloseHandle"]
    assert kernel.calls[-2:] == [("CloseHandle", 72), ("CloseHandle", 71)]
    assert kernel.calls[3] == ("AssignProcessToJobObject", 71, 72)
    assert (sandbox.enforces_paths, noted(icacls)) == (False, [])


@pytest.mark.covers("SBX-11")
def test_the_job_limits_processes_and_memory_and_ends_all_when_it_is_closed() -> None:
    wanted = limits(processes=7, memory=64 << 20)
    assert (wanted.basic.flags, wanted.basic.active_processes, wanted.process_memory) == (0x2108, 7, 64 << 20)
    assert ctypes.sizeof(wanted) == 144  # as Windows has it on 64 bits


@pytest.mark.covers("SBX-11")
def test_a_process_lowers_itself_and_then_runs_the_command() -> None:
    order: list[str] = []

    def noting(what: str, answer: Any) -> Callable[..., Any]:
        return lambda *_: order.append(what) or answer

    doing = {"wait": noting("wait", "\n"), "lower": noting("lower", None), "call": noting("call", 5)}
    assert run(["low", "bash", "-c", "x"], **doing) == 5
    assert run(["same", "bash", "-c", "x"], **doing) == 5
    assert order == ["wait", "lower", "call", "wait", "call"]
    assert run(["low", "bash"], wait=str, lower=doing["lower"], call=doing["call"]) == NOT_LOWERED
    assert len(order) == 5


@pytest.mark.covers("SBX-11")
def test_lowering_sets_the_label_of_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    class Windows:
        kernel32 = Library(**KERNEL)
        advapi32 = Library(GetLengthSid=12)

    lower_integrity(Windows)
    calls = Windows.advapi32.calls
    assert [call[0] for call in calls] == [
        "OpenProcessToken",
        "ConvertStringSidToSidW",
        "GetLengthSid",
        "SetTokenInformation",
    ]
    assert (calls[0][1:3], calls[1][1], calls[3][2]) == ((73, 0x88), LOW_LABEL, 25)

    class Refusing(Windows):
        advapi32 = Library(SetTokenInformation=0)

    code = run(["low", "bash"], wait=lambda: "\n", lower=lambda: lower_integrity(Refusing), call=lambda _: 0)
    assert code == NOT_LOWERED
    assert "nothing was run: SetTokenInformation failed" in capsys.readouterr().err


@pytest.mark.covers("SBX-11")
async def test_the_workspace_is_labelled_once_and_a_command_that_cannot_be_lowered_is_not_run(
    tmp_path: Path, icacls: Path
) -> None:
    sandbox = WindowsSandbox(str(tmp_path), WindowsSettings(), kernel=Library(**KERNEL))
    for _ in range(2):  # there is nothing here that could lower it
        result = await sandbox.execute("echo ran", timeout=60, output_limit=10_000)
        assert (result.stdout, result.exit_code != 0) == ("", True)
    assert noted(icacls) == [f"{tmp_path} /setintegritylevel (OI)(CI)Low"]
    assert sandbox.enforces_paths


async def test_what_fails_on_the_way_is_warned_of(
    tmp_path: Path, icacls: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "System32" / "icacls.exe").write_text("#!/bin/sh\necho denied >&2; exit 5\n")
    with caplog.at_level(logging.WARNING):
        await WindowsSandbox(str(tmp_path), WindowsSettings(), kernel=Library(CreateJobObjectW=0)).execute(
            "true", timeout=60, output_limit=10_000
        )
    assert [message.partition(":")[2] for message in caplog.messages] == [" denied", " CreateJobObjectW failed"]
    kernel = Library(**KERNEL, SetInformationJobObject=0)
    with pytest.raises(OSError, match="SetInformationJobObject"):
        JobObject(kernel, processes=1, memory=1)
    assert kernel.calls[-1] == ("CloseHandle", 71)


async def test_the_environment_is_what_programs_of_windows_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMROOT", "windows")
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    sandbox = WindowsSandbox(str(tmp_path), WindowsSettings(use_low_integrity=False), kernel=Library(**KERNEL))
    result = await sandbox.execute("exec env", timeout=60, output_limit=9000)
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert "SYSTEMROOT" in names
    assert names <= {*("PATH", "HOME", "TERM", "LANG", "SYSTEMROOT", "PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE")}


@pytest.mark.covers("SBX-01")
def test_auto_is_what_the_system_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = AgentConfig().patched({"safety": {"sandbox": "auto"}})
    found = {}
    for platform in ("linux", "win32", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        found[platform] = sandbox_for(config, str(tmp_path)).name
    assert found == {"linux": "linux", "win32": "windows", "darwin": "local"}


@pytest.mark.covers("SBX-01")
def test_a_mode_is_the_one_that_is_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(mode: str) -> str:
        return sandbox_for(AgentConfig().patched({"safety": {"sandbox": mode}}), str(tmp_path)).name

    assert [chosen(mode) for mode in ("local", "linux", "wsl")] == ["local", "linux", "wsl"]
    with pytest.raises(ConfigError, match=r"'windows', which this system does not have\. Nothing was run"):
        chosen("windows")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="'linux', which this system does not have"):
        chosen("linux")
