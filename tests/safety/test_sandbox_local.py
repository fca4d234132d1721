from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from aar.messages.settings import AgentConfig
from aar.processes.guard import open_guard
from aar.safety.sandbox import CommandResult, Sandbox, render, sandbox_for


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with open_guard():
        yield sandbox_for(AgentConfig(), str(tmp_path))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.covers("SBX-02")
async def test_a_command_runs_in_the_sessions_folder_with_our_environment(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "vanilla")
    result = await sandbox.execute("pwd; echo $FLAVOUR", timeout=60, output_limit=1000)
    assert result == CommandResult(f"{tmp_path}\nvanilla\n", "", 0, timed_out=False)
    assert (sandbox.name, sandbox.enforces_paths) == ("local", False)


async def test_another_folder_and_more_variables_may_be_given(sandbox: Sandbox) -> None:
    result = await sandbox.execute("pwd; echo $MORE", timeout=60, cwd="/", env={"MORE": "more"}, output_limit=1000)
    assert result.stdout == "/\nmore\n"


async def test_model_keys_are_not_inherited_unless_the_settings_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("GEMINI_API_KEY", "canary")
    config = AgentConfig().patched({"tools": {"env_keep": ["GEMINI_API_KEY"]}})
    result = await sandbox_for(config, str(tmp_path)).execute("env", timeout=60, output_limit=100_000)
    assert "OPENAI_API_KEY" not in result.stdout
    assert "GEMINI_API_KEY=canary" in result.stdout.splitlines()


async def test_a_restricted_environment_has_path_home_and_term_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aar.safety.sandbox.local import LocalSandbox

    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("TERM", raising=False)
    sandbox = LocalSandbox(str(tmp_path), restricted_env={"MORE": "more"})
    result = await sandbox.execute("exec env", timeout=60, output_limit=100_000)
    seen = dict(line.split("=", 1) for line in result.stdout.splitlines())
    own = {name: value for name, value in seen.items() if name not in {"AAR_PROCESS", "PWD", "SHLVL", "_", "OLDPWD"}}
    assert own == {"PATH": os.environ["PATH"], "HOME": "/home/ada", "TERM": "xterm", "MORE": "more"}


@pytest.mark.covers("SBX-09", "SBX-10")
async def test_a_timeout_is_told_and_leaves_nothing(sandbox: Sandbox, mock_clock: trio.testing.MockClock) -> None:
    mock_clock.rate = 1.0
    result = await sandbox.execute(
        "setsid sleep 1000 & echo $!; sleep 1000",
        timeout=30,
        report=lambda _: mock_clock.jump(30),
        output_limit=1000,
    )
    assert (result.exit_code, result.timed_out) == (-1, True)
    assert not is_alive(int(result.stdout))


@pytest.mark.covers("SBX-10")
async def test_a_cancel_leaves_nothing(sandbox: Sandbox) -> None:
    reported: list[str] = []

    def cancel(text: str) -> None:
        reported.append(text)
        scope.cancel()

    with trio.CancelScope() as scope:
        await sandbox.execute("setsid sleep 1000 & echo $!; wait", timeout=None, report=cancel, output_limit=1000)
    assert scope.cancelled_caught
    assert not is_alive(int("".join(reported)))


async def test_bytes_that_are_no_text_are_replaced(sandbox: Sandbox) -> None:
    assert (await sandbox.execute(r"printf '\377'", timeout=60, output_limit=100)).stdout == "\ufffd"


async def test_a_rendered_result_stays_within_the_limit_and_keeps_its_exit_code(sandbox: Sandbox) -> None:
    result = await sandbox.execute("seq 100000; seq 100000 >&2; exit 7", timeout=60, output_limit=2000)
    text = render(result)
    assert len(text) <= 2000
    assert text.endswith("100000\n\nExit code: 7")


@pytest.mark.covers("SBX-17", "TOOL-23")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (CommandResult("out\n", "", 0), "out\n"),
        (CommandResult("out\n", "err\n", 2), "out\n\nSTDERR:\nerr\n\nExit code: 2"),
        (CommandResult("", "err", 0), "STDERR:\nerr"),
        (CommandResult("so far", "", -1, timed_out=True), "so far\nExit code: -1\n(timed out)"),
        (CommandResult("", "", 1), "Exit code: 1"),
        (CommandResult("", "", 0), "(no output)"),
    ],
)
def test_a_result_reads_as_its_four_parts(result: CommandResult, text: str) -> None:
    assert render(result) == text
