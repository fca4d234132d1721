"""What a session makes of a sandbox: whether it asks, and what the model reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aar.messages.settings import AgentConfig, SafetyConfig
from aar.messages.tools import SideEffect
from aar.safety.policy import decide
from aar.safety.sandbox.linux import LinuxSandbox
from aar.testing import ScriptedProvider, open_test_runtime
from aar.tools.registry import ToolSpec

TRUSTING = SafetyConfig(require_approval_for_execute=False)
BASH = ToolSpec(name="bash", side_effects=[SideEffect.EXECUTE])


async def outputs_of(command: str, cwd: Path, home: Path) -> list[str]:
    config = AgentConfig().patched({"safety": {"require_approval_for_execute": False, "sandbox": "auto"}})
    model = ScriptedProvider().call("bash", command=command).text("Done.")
    async with open_test_runtime(model, config, home=home) as runtime:
        session = await runtime.sessions.open(str(cwd))
        await session.prompt("Go on.")
        return [event.output for event in session.snapshot().events if event.type == "tool_result"]


async def test_walls_that_hold_take_the_place_of_a_question(tmp_path: Path) -> None:
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    (output,) = await outputs_of("echo one > here && cat here; echo no > ../there", folder, home)
    assert output.startswith("one\n\nSTDERR:\n")
    assert output.endswith("../there: Permission denied\n\nExit code: 1")


async def test_a_question_is_asked_where_a_command_could_change_the_settings(tmp_path: Path) -> None:
    (output,) = await outputs_of("echo one", tmp_path, tmp_path / ".aar")
    assert output.startswith("Error [denied]")


@pytest.mark.covers("SAFE-10")
@pytest.mark.parametrize(("abi", "action"), [(0, "ask"), (2, "ask"), (3, "allow"), (7, "allow")])
def test_without_landlock_the_policy_asks_although_approvals_are_off(tmp_path: Path, abi: int, action: str) -> None:
    sandbox = LinuxSandbox(str(tmp_path), AgentConfig().safety.sandbox.linux, abi=abi)
    enforces = sandbox.enforces_paths
    assert decide(BASH, {"command": "ls"}, TRUSTING, str(tmp_path), sandbox_enforces=enforces).action == action


@pytest.mark.covers("SAFE-08")
async def test_a_session_asks_in_the_modes_without_walls(tmp_path: Path) -> None:
    for mode in ("local", "wsl"):
        config = AgentConfig().patched({"safety": {"require_approval_for_execute": False, "sandbox": mode}})
        model = ScriptedProvider().call("bash", command="echo one").text("Done.")
        async with open_test_runtime(model, config, home=tmp_path / "home") as runtime:
            session = await runtime.sessions.open(str(tmp_path))
            await session.prompt("Go on.")
            outputs = [event.output for event in session.snapshot().events if event.type == "tool_result"]
        assert [output[:14] for output in outputs] == ["Error [denied]"]


def test_nothing_of_the_walls_is_loaded_before_a_command_wants_them() -> None:
    program = "import sys, aar.runtime, aar.safety.sandbox; print([m for m in sys.modules if 'sandbox.' in m])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded == "['aar.safety.sandbox.base']\n"
