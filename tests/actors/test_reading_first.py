"""`safety.read_before_write`: what the model has not seen as it is, it does not change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.actors.reading_first import SEEN, SeenFiles
from aar.errors import ToolError
from aar.hooks import Hooks
from aar.messages.events import ApprovalRequested, ToolCall, ToolResult
from aar.messages.settings import BUILTIN_TOOLS, AgentConfig, SafetyConfig, ToolConfig
from aar.safety.paths import PathGuard
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools.registry import ToolContext, ToolRegistry

READ = ("read_file", {"path": "a.txt"})
WRITE = ("write_file", {"path": "a.txt", "content": "new\n"})
EDIT = ("edit_file", {"path": "a.txt", "old_string": "old", "new_string": "new"})
AGAIN = ("edit_file", {"path": "./a.txt", "old_string": "new", "new_string": "newer"})
PATCH = ("patch", {"patch": "*** Begin Patch\n*** Update File: a.txt\n-old\n+new\n*** End Patch"})
DELETE = ("patch", {"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"})

Call = tuple[str, dict[str, Any]]


def settings(*, is_on: bool = True, **safety: Any) -> AgentConfig:
    return AgentConfig(
        tools=ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, "patch", "batch"]),
        safety=SafetyConfig(**{"require_approval_for_writes": False, "read_before_write": is_on, **safety}),
    )


def one_by_one(*calls: Call) -> ScriptedProvider:
    provider = ScriptedProvider()
    for name, arguments in calls:
        provider = provider.call(name, **arguments)
    return provider.text("done")


def results(session: Any) -> list[ToolResult]:
    return [event for event in facts_of(session) if isinstance(event, ToolResult)]


def told(session: Any) -> list[str]:
    """What each call came to, in a word."""
    words = ("was not read", "has changed since")
    outputs = ((one.is_error, one.output) for one in results(session))
    return [next((word for word in words if word in text), "failed" if bad else "ok") for bad, text in outputs]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("old\n")
    return folder / "a.txt"


@pytest.mark.covers("AURA-75")
@pytest.mark.parametrize("call", [WRITE, EDIT, PATCH, DELETE])
async def test_a_file_is_read_before_it_is_changed(live, file: Path, call: Call) -> None:
    async with live(one_by_one(call, READ, call), settings()) as session:
        await session.prompt("go")
        refused, read, changed = results(session)
    assert refused.output == (f"Error [blocked]: {file} was not read in this session: read it before you change it")
    assert (read.is_error, changed.is_error) == (False, False)


async def test_new_files_need_no_reading_and_what_was_written_is_known(live, file: Path) -> None:
    new = ("write_file", {"path": "b.txt", "content": "1"})
    async with live(one_by_one(new, new, READ, EDIT, AGAIN, AGAIN, DELETE, WRITE, WRITE), settings()) as session:
        await session.prompt("go")
        assert told(session) == ["ok"] * 9


async def test_calls_of_one_step_that_change_one_file_do_not_take_each_other_for_strangers(live, file: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(10, 20))
    write = ("write_file", {"path": "b.txt", "content": text})
    edits = [
        ("edit_file", {"path": "b.txt", "old_string": f"line {number}", "new_string": "x"}) for number in range(10, 20)
    ]
    provider = ScriptedProvider().calls(write).calls(*edits).text("done")
    async with live(provider, settings()) as session:
        await session.prompt("go")
        assert told(session) == ["ok"] * 11


def meddled(file: Path, how: str) -> None:
    status = file.stat()
    match how:
        case "touched":
            os.utime(file, ns=(1, 1))
        case "other size":
            file.write_text("old, and more\n")
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "other text":
            file.write_text("old!")
            os.utime(file, ns=(2, 2))
        case "gone":
            file.unlink()


def changing(file: Path, how: str) -> Hooks:
    """Somebody else, who does something to the file before it is edited."""

    async def meddle(call: ToolCall) -> None:
        if call.tool_name == "edit_file":
            meddled(file, how)

    return Hooks(before_tool_call=(meddle,))


@pytest.mark.covers("AURA-75")
@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("touched", "ok"),
        ("other size", "has changed since"),
        ("other text", "has changed since"),
        ("gone", "failed"),
    ],
)
async def test_a_file_that_somebody_else_has_changed_is_read_again(live, file: Path, how: str, outcome: str) -> None:
    async with live(one_by_one(READ, EDIT), settings(), hooks=changing(file, how)) as session:
        await session.prompt("go")
        assert told(session) == ["ok", outcome]


async def test_what_was_seen_is_known_when_the_session_is_resumed(tmp_path: Path, file: Path) -> None:
    provider = ScriptedProvider().call(READ[0], **READ[1]).text("read").call(EDIT[0], **EDIT[1]).text("edited")
    store, session_id = MemoryStore(), ""
    for prompt in ("read", "edit"):
        async with open_test_runtime(provider, settings(), home=tmp_path / "home", store=store) as runtime:
            sessions = runtime.sessions
            session = await (sessions.load(session_id) if session_id else sessions.open(str(file.parent)))
            session_id = session.session_id
            await session.prompt(prompt)
            outcome = told(session)
    assert outcome == ["ok", "ok"]


async def test_a_read_that_failed_shows_nothing(live, file: Path) -> None:
    tools = ToolRegistry()
    tools.register("read_file", side_effects=["read"])(lambda path: 1 / 0)
    async with live(one_by_one(READ, EDIT), settings(), tools=tools) as session:
        await session.prompt("go")
        assert told(session) == ["failed", "was not read"]


async def test_reads_inside_a_batch_count_for_what_comes_after_it(live, file: Path) -> None:
    batch = ("batch", {"calls": [{"tool": name, "arguments": arguments} for name, arguments in (READ, READ)]})
    async with live(one_by_one(batch, EDIT), settings()) as session:
        await session.prompt("go")
        assert told(session) == ["ok", "ok"]
        assert [list(one.data.get(SEEN, ())) for one in results(session)] == [[str(file)]] * 2


async def test_nobody_is_asked_about_a_change_that_cannot_be(live, file: Path) -> None:
    config = settings(require_approval_for_writes=True)
    async with live(one_by_one(EDIT), config) as session, session.attend():
        await session.prompt("go")
        assert told(session) == ["was not read"]
        assert not any(isinstance(event, ApprovalRequested) for event in facts_of(session))


async def test_it_can_be_turned_on_in_between_and_leaves_no_trace_when_off(live, file: Path) -> None:
    provider = ScriptedProvider().call(EDIT[0], **EDIT[1]).text("edited").call(AGAIN[0], **AGAIN[1]).text("refused")
    async with live(provider, settings(is_on=False)) as session:
        await session.prompt("go")
        await session.configure({"safety": {"read_before_write": True}})
        await session.prompt("on")
        assert told(session) == ["ok", "was not read"]
        assert [one.data for one in results(session)] == [{}, {}]


@pytest.mark.parametrize("said", [None, 3, {"a": 1}, [1], [1, 2, 3], [1, 2, None]])
def test_what_makes_no_sense_was_never_seen(file: Path, said: object) -> None:
    seen = SeenFiles([ToolResult(tool_name="read_file", data={SEEN: {str(file): said}}), ToolResult(data={SEEN: said})])
    with pytest.raises(ToolError, match="was not read"):
        seen.require(PathGuard(str(file.parent), SafetyConfig()), ["a.txt"])


async def test_a_tool_that_changes_files_may_have_other_tools_change_some(live, file: Path, autojump_clock) -> None:
    tools = ToolRegistry()

    @tools.register("change", side_effects=["write"])
    async def change(ctx: ToolContext, path: str) -> str:
        inner = await ctx.run_calls([("write_file", {"path": "b.txt", "content": "1"}), EDIT])
        return f"{path}: {[one.is_error for one in inner]}"

    model = one_by_one(READ, ("change", {"path": "c.txt"}), AGAIN)
    async with live(model, settings(), tools=tools) as session:
        with trio.fail_after(60):
            await session.prompt("go")
    assert [one.output for one in results(session)][1] == "c.txt: [False, False]"
    assert told(session) == ["ok", "ok", "ok"]
