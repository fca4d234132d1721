"""The user's commands around tool calls, run for real."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.actors import shell_hooks
from aar.errors import InvalidSetting
from aar.messages.events import ToolCall, ToolResult
from aar.messages.settings import AgentConfig
from aar.messages.tools import ToolOutcome
from aar.processes.guard import open_guard
from aar.testing import ScriptedProvider, facts_of
from aar.tools.registry import ToolRegistry


@pytest.fixture
def tools() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("echo")(lambda text="", path="": text)
    return registry


def config(**hooks: dict[str, Any]) -> AgentConfig:
    return AgentConfig(tools={"enabled_builtins": []}, shell_hooks=hooks)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def results(live: Any, tools: ToolRegistry, said: AgentConfig, *calls: dict[str, Any]) -> list[tuple[str, bool]]:
    """What the model gets from calls of `echo`, one after the other."""
    provider = ScriptedProvider()
    for call in calls or ({"text": "hi"},):
        provider = provider.call("echo", **call)
    async with live(provider.text("done"), said, tools=tools) as session:
        assert (await session.prompt("go")).stop == "end_turn"
        return [(fact.output, fact.is_error) for fact in facts_of(session) if isinstance(fact, ToolResult)]


@pytest.mark.covers("AURA-97")
@pytest.mark.parametrize(
    ("event", "command", "expected"),
    [
        ("pre", "exit 0", ("hi", False)),
        ("pre", "echo no >&2; exit 2", ("Error [blocked]: [check] no", True)),
        ("pre", "exit 2", ("Error [blocked]: [check] not this call", True)),
        ("pre", "echo hm >&2; exit 1", ("hi\n[check] exit code 1: hm", False)),
        ("post", "echo fine; exit 0", ("hi", False)),
        ("post", "echo bad >&2; exit 2", ("hi\n[check] exit code 2: bad", False)),
        ("post", "exit 3", ("hi\n[check] exit code 3", False)),
        ("pre", """echo '{"message": "careful"}'""", ("hi\n[check] careful", False)),
        ("pre", """echo '{"deny": true, "reason": "late"}'""", ("Error [blocked]: [check] late", True)),
        ("post", """echo '{"message": "m", "deny": true, "reason": "r"}'""", ("hi\n[check] m\n[check] r", True)),
        ("post", """echo '{"deny": "yes", "message": 3'""", ("hi", False)),
    ],
)
async def test_what_a_hook_says_by_its_exit_code_and_its_output(live, tools, event, command, expected) -> None:
    said = config(check={"event": event, "command": command})
    assert await results(live, tools, said) == [expected]


@pytest.mark.covers("AURA-97")
async def test_a_silent_hook_is_not_heard_but_stops_calls(live, tools) -> None:
    silent = {"event": "pre", "silent": True}
    told = config(a={**silent, "command": """echo '{"message": "m"}'"""}, b={**silent, "command": "exit 1"})
    assert await results(live, tools, told) == [("hi", False)]
    stops = config(a={**silent, "command": "echo no >&2; exit 2"})
    assert await results(live, tools, stops) == [("Error [blocked]: [a] no", True)]


@pytest.mark.covers("AURA-97")
async def test_a_hook_gets_the_call_and_the_first_file_that_fits(live, tools, tmp_path) -> None:
    both = 'cat > "$OUT/$N"; echo "$FILE" >> "$OUT/$N"'
    command = both.replace("$OUT", str(tmp_path))
    hooks = {
        "before": {"event": "pre", "tool": "ec.o", "files": ["*.py"], "command": command.replace("$N", "pre")},
        "after": {"event": "post", "files": ["src/*"], "command": command.replace("$N", "post")},
        "other": {"event": "post", "tool": "ech", "command": "exit 1"},
    }
    calls = [{"text": "hi", "path": "src/-a.py"}, {"text": "again", "path": "b.txt"}]
    assert await results(live, tools, config(**hooks), *calls) == [("hi", False), ("again", False)]
    file = str(tmp_path / "project" / "src" / "-a.py")
    text = (tmp_path / "pre").read_text()
    said, end = json.JSONDecoder().raw_decode(text)
    assert text[end:].strip() == file
    assert said == {
        "event": "pre",
        "tool": "echo",
        "arguments": calls[0],
        "files": [file],
        "cwd": str(tmp_path / "project"),
        "session_id": said["session_id"],
    }
    after = json.JSONDecoder().raw_decode((tmp_path / "post").read_text())[0]
    assert (after["output"], after["is_error"]) == ("hi", False)


@pytest.mark.covers("AURA-97")
async def test_hooks_run_in_order_and_the_first_one_that_stops_a_call_is_the_last(live, tools, tmp_path) -> None:
    def note(name: str, code: int = 0) -> dict[str, Any]:
        return {"event": "pre", "command": f"echo {name} >> {tmp_path}/order; exit {code}"}

    hooks = {"last": {**note("last"), "depends": ["no"]}, "no": {**note("no", 2), "depends": ["first"]}}
    assert (await results(live, tools, config(**hooks, first=note("first"))))[0][1]
    assert (tmp_path / "order").read_text().split() == ["first", "no"]


@pytest.mark.covers("AURA-97")
async def test_a_hook_that_takes_too_long_is_killed_with_its_group_and_the_call_does_not_run(
    live, tools, tmp_path
) -> None:
    command = f"sleep 60 & echo $! > {tmp_path}/child; sleep 60"
    said = config(slow={"event": "pre", "command": command, "timeout": 0.3})
    with trio.fail_after(20):
        assert await results(live, tools, said) == [("Error [blocked]: [slow] took longer than 0.3 s", True)]
    assert not is_alive(int((tmp_path / "child").read_text()))


async def test_a_hook_after_a_call_that_did_not_run_does_not_run_either(live, tools, tmp_path) -> None:
    said = config(no={"event": "pre", "command": "exit 2"}, after={"event": "post", "command": f"touch {tmp_path}/ran"})
    assert (await results(live, tools, said))[0][1]
    assert not (tmp_path / "ran").exists()


async def test_a_hook_has_no_keys_of_models(live, tools, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    said = config(look={"event": "post", "command": 'printf \'{"message": "%s"}\' "[$OPENAI_API_KEY]"'})
    assert await results(live, tools, said) == [("hi\n[look] []", False)]


async def test_a_mistake_leaves_no_session_behind(live) -> None:
    said = config(a={"event": "pre", "command": "true", "depends": ["b"]})
    with pytest.raises(InvalidSetting, match="there is no hook 'b'"):
        async with live(ScriptedProvider(), said):
            raise AssertionError("it was opened")


async def test_settings_that_are_changed_in_a_session_bring_no_hooks(live, tools, tmp_path) -> None:
    """A client may change settings; what runs on this machine is said by its user beforehand."""
    provider = ScriptedProvider().call("echo", text="hi").text("done")
    async with live(provider, config(), tools=tools) as session:
        await session.configure({"shell_hooks": {"a": {"event": "pre", "command": f"touch {tmp_path}/ran"}}})
        await session.prompt("go")
    assert "ran" not in os.listdir(tmp_path)


async def test_what_was_to_be_told_of_calls_that_were_cancelled_is_forgotten_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_hooks, "MOST_TOLD", 1)
    said = {"check": {"event": "pre", "command": """echo '{"message": "careful"}'"""}}
    async with open_guard():
        around = shell_hooks.hooks_of_shell(said, AgentConfig, session_id="s", cwd=str(tmp_path))
        calls = [ToolCall(tool_call_id=name, tool_name="echo", arguments={}) for name in "ab"]
        for call in calls:
            assert await around.before_tool_call[0](call) is None
        told = [await around.after_tool_call[0](call, ToolOutcome("out", duration_ms=1.0)) for call in calls]
    assert [one.output for one in told if one is not None] == ["out", "out\n[check] careful"]
