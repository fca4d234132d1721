from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio.testing

from aar.messages.settings import AgentConfig, ToolConfig
from aar.messages.tools import SideEffect
from aar.processes.guard import open_guard
from aar.safety.paths import PathGuard
from aar.safety.sandbox import CommandResult, sandbox_for
from aar.tools.registry import ToolContext
from aar.tools.shell import bash_tool, clamp_timeout


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class Desk:
    """What stands around the tool in a session: asks of the sandbox are noted, live output may have an effect."""

    def __init__(self, cwd: str, tools: dict[str, object]) -> None:
        self.config = AgentConfig().patched({"tools": tools})
        self.cwd = cwd
        self.timeouts: list[float] = []
        self.on_output: Callable[[str], None] = lambda _: None
        self._sandbox = sandbox_for(self.config, cwd)

    async def run_command(self, command: str, timeout: float) -> CommandResult:
        self.timeouts.append(timeout)
        limit = self.config.tools.max_output_chars
        return await self._sandbox.execute(command, timeout=timeout, report=self.on_output, output_limit=limit)

    async def bash(self, command: str, **arguments: int) -> str:
        handler = bash_tool(self.config.tools).handler
        assert handler is not None
        context = ToolContext(
            cwd=self.cwd,
            session_id="s",
            tool_call_id="c",
            report=self.on_output,
            run_command=self.run_command,
            paths=PathGuard(self.cwd, self.config.safety),
            config=self.config.tools,
        )
        text: str = await handler(ctx=context, command=command, **arguments)
        return text


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_guard():
        yield Desk(str(tmp_path), {})


@pytest.mark.covers("TOOL-23")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo hello", "hello\n"),
        ("echo out; echo err >&2; exit 3", "out\n\nSTDERR:\nerr\n\nExit code: 3"),
        ("true", "(no output)"),
        ("exit 1", "Exit code: 1"),
        ("cat", "(no output)"),
    ],
)
async def test_the_model_reads_output_errors_and_exit_code(desk: Desk, command: str, text: str) -> None:
    assert await desk.bash(command) == text


async def test_the_command_runs_in_the_sessions_folder(desk: Desk, tmp_path: Path) -> None:
    assert await desk.bash("pwd") == f"{tmp_path}\n"


@pytest.mark.covers("TOOL-25")
async def test_a_timeout_keeps_the_output_and_ends_the_whole_group(
    desk: Desk, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1.0  # cleaning up has limits of its own
    desk.on_output = lambda _: mock_clock.jump(60)
    first, *rest = (await desk.bash("sleep 1000 & echo $!; sleep 1000", timeout=60)).split("\n")
    assert rest == ["", "Exit code: -1", "(timed out)"]
    assert not is_alive(int(first))


@pytest.mark.covers("TOOL-24")
async def test_the_default_timeout_comes_from_the_settings(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    desk = Desk(str(tmp_path), {})
    spec = bash_tool(desk.config.tools)
    assert "120" in spec.description
    assert "larger timeout for slow commands" in spec.description
    assert spec.input_schema["properties"]["timeout"]["description"] == "Timeout in seconds (default 120)"
    desk.on_output = lambda _: mock_clock.jump(119)
    assert await desk.bash("echo in time") == "in time\n"
    desk.on_output = lambda _: mock_clock.jump(120)
    assert (await desk.bash("echo too late; sleep 1000")).endswith("(timed out)")
    assert desk.timeouts == [120, 120]
    assert "(default 7)" in str(bash_tool(ToolConfig(bash_default_timeout=7)).input_schema)


async def test_a_timeout_of_the_model_ends_before_the_executors_would(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), {"command_timeout": 300})
    for wanted in (-5, 0, 1, 200, 300, 10**12):
        await desk.bash("true", timeout=wanted)
    assert desk.timeouts == [1, 1, 1, 200, 299, 299]


@pytest.mark.parametrize(("wanted", "command_timeout", "seconds"), [(10, 1, 0.5), (10, 5, 4), (10**9, 0, 86_400)])
def test_timeouts_are_clamped(wanted: float, command_timeout: float, seconds: float) -> None:
    assert clamp_timeout(wanted, command_timeout) == seconds


def test_the_tool_says_what_it_is() -> None:
    spec = bash_tool(ToolConfig())
    assert (spec.name, spec.side_effects, spec.input_schema["required"]) == ("bash", (SideEffect.EXECUTE,), ["command"])
    assert spec.prompt_snippet == "Execute a shell command (returns stdout, stderr, exit code)"
