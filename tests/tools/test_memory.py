"""Notes that outlive a session: where they are kept, what bounds them, and who may write them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import ToolError
from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig, SafetyConfig, ToolConfig
from aar.testing import MemoryStore, ScriptedProvider, facts_of, open_test_runtime
from aar.tools import ToolContext, builtin_tools, invoke, memory

NAMES = ["memory_read", "memory_write"]
FREE = SafetyConfig(require_approval_for_writes=False)
WITH_MEMORY = AgentConfig(tools=ToolConfig(enabled_builtins=NAMES), safety=FREE)
TOOLS = {spec.name: spec for spec in builtin_tools(ToolConfig(enabled_builtins=NAMES))}

Remember = Callable[..., Awaitable[str]]


def results(session: Any) -> list[str]:
    return [event.output for event in facts_of(session) if isinstance(event, ToolResult)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def at(home: Path, context: ToolContext) -> ToolContext:
    return replace(context, home=str(home))


@pytest.fixture
def write(at: ToolContext) -> Remember:
    async def run(key: str, text: str, **more: Any) -> str:
        return await invoke(TOOLS["memory_write"], {"key": key, "text": text, **more}, at)

    return run


@pytest.fixture
def read(at: ToolContext) -> Remember:
    async def run(**arguments: Any) -> str:
        text = await invoke(TOOLS["memory_read"], arguments, at)
        assert isinstance(text, str)
        return text

    return run


@pytest.mark.covers("AURA-85")
async def test_what_one_session_writes_the_next_one_reads(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    first = (
        ScriptedProvider()
        .call("memory_write", key="build", text="# Build\nRun `make -j2`.")
        .call("memory_write", key="style", text="The user likes short answers.", scope="global")
        .text("noted")
    )
    async with open_test_runtime(first, WITH_MEMORY, home=tmp_path / "home", store=MemoryStore()) as runtime:
        await (await runtime.sessions.open(str(project))).prompt("remember")
    later = ScriptedProvider()
    for arguments in ({"key": "build"}, {}, {"query": "MAKE"}):
        later.call("memory_read", **arguments)
    later.text("I know").call("memory_read").text("nothing")
    async with open_test_runtime(later, WITH_MEMORY, home=tmp_path / "home", store=MemoryStore()) as runtime:
        here, elsewhere = [await runtime.sessions.open(str(folder)) for folder in (project, other)]
        await here.prompt("how do I build?")
        await elsewhere.prompt("and here?")
        said, listed, found = results(here)
        (there,) = results(elsewhere)
    assert said.startswith("[project] build, written 20")
    assert said.endswith(":\n\n# Build\nRun `make -j2`.")
    assert [line.split(" (")[0] for line in listed.splitlines()] == ["[project] build", "[global] style"]
    assert [line.split("): ")[1] for line in listed.splitlines()] == ["# Build", "The user likes short answers."]
    assert found == "[project] build, line 2: Run `make -j2`."
    assert [line.split(" (")[0] for line in there.splitlines()] == ["[global] style"]
    assert list(project.iterdir()) == list(other.iterdir()) == []


async def test_a_note_of_the_project_goes_before_a_global_one_with_its_name(write: Remember, read: Remember) -> None:
    await write("style", "Tabs.", scope="global")
    await write("style", "Blanks.")
    assert (await read(key="style")).endswith("Blanks.")
    assert (await read(key="style", scope="global")).endswith("Tabs.")
    assert await read(query="a", scope="global") == "[global] style, line 1: Tabs."


async def test_a_text_takes_the_place_of_the_old_one_and_an_empty_one_deletes(write: Remember, read: Remember) -> None:
    for text in ("one", "two"):
        await write("Plan.md", text)
    assert (await read(key="plan")).endswith("two")
    assert await write("plan", " ") == "Deleted the note 'plan' (project)."
    assert await read() == "There are no notes."
    for told in (write("plan", ""), read(key="plan")):
        with pytest.raises(ToolError, match="there is no note 'plan'"):
            await told


async def test_notes_are_for_their_user_alone(write: Remember, home: Path) -> None:
    told = await write("plan", "x")
    (folder,) = (home / "memory").iterdir()
    assert told == f"Wrote 1 bytes to {folder / 'plan.md'}"
    assert [path.stat().st_mode & 0o777 for path in (home, home / "memory", folder)] == [0o700] * 3


async def test_a_project_that_is_reached_through_a_link_is_the_same(
    write: Remember, at: ToolContext, work: Path, tmp_path: Path
) -> None:
    await write("plan", "x")
    (tmp_path / "link").symlink_to(work)
    text = await invoke(TOOLS["memory_read"], {"key": "plan"}, replace(at, cwd=str(tmp_path / "link")))
    assert text.endswith("x")


@pytest.mark.parametrize(
    "key", ["..", "../../etc/passwd", "a/b", "/tmp/x", "", ".hidden", "a\0b", "a.b", "a" * 65, "ä"]
)
async def test_no_key_leads_out_of_the_folder(key: str, write: Remember, home: Path) -> None:
    with pytest.raises(ToolError, match="a key has up to 64 of these characters"):
        await write(key, "x")
    assert os.listdir(home.parent) == ["work"]


@given(st.text())
def test_a_key_is_refused_or_names_a_file_of_the_folder(key: str) -> None:
    try:
        name = memory._checked(key)
    except ToolError:
        return
    assert os.path.dirname(os.path.normpath(f"/notes/{name}.md")) == "/notes"


async def test_sizes_and_counts_are_bounded(write: Remember, read: Remember, home: Path, work: Path) -> None:
    with pytest.raises(ToolError, match="32,768 bytes at most, and this one 32,769"):
        await write("big", "x" * (memory.LARGEST_NOTE + 1))
    await write("n", "line\n" * 60)
    folder = Path(memory.notes_folder(str(home), str(work), "project"))
    for number in range(memory.MOST_NOTES - 1):
        (folder / f"n{number}.md").write_text("x")
    with pytest.raises(ToolError, match="there are 200 notes already"):
        await write("more", "x")
    await write("n", "line\n" * 61)
    await write("more", "x", scope="global")
    assert (await read(query="line")).splitlines()[-1] == "... (11 more lines)"


async def test_what_is_no_note_is_passed_over(write: Remember, read: Remember, home: Path, work: Path) -> None:
    await write("plan", "x")
    folder = Path(memory.notes_folder(str(home), str(work), "project"))
    os.mkfifo(folder / "pipe.md")
    (folder / "secret.md").symlink_to("/etc/hostname")
    (folder / "sub.md").mkdir()
    (folder / "README.txt").write_text("not a note")
    (folder / "large.md").write_bytes(b"\xff" * (memory.LARGEST_NOTE + 5))
    assert [line.split(" (")[0] for line in (await read()).splitlines()] == ["[project] large", "[project] plan"]
    assert (await read(key="large")).endswith("\n(only the first 32,768 of 32,773 bytes)")
    for key in ("pipe", "secret", "sub"):
        with pytest.raises(ToolError, match="there is no note"):
            await read(key=key)
    for key in ("pipe", "secret", "sub"):
        with pytest.raises(OSError, match=r"^(Not a regular file|Is a folder): "):
            await write(key, "x")
    assert [name for name in os.listdir(folder) if name.startswith(".")] == []


async def test_writers_wait_for_one_another(write: Remember, read: Remember, monkeypatch: pytest.MonkeyPatch) -> None:
    await write("plan", "x")
    monkeypatch.setattr(memory, "LOCK_TIMEOUT", 0.0)
    told = await write("plan", "y")
    folder = os.open(Path(told.removeprefix("Wrote 1 bytes to ")).parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(ToolError, match="another process is writing notes"):
        await write("plan", "z")
    assert (await read(key="plan")).endswith("y")
    os.close(folder)
    await write("plan", "z")


async def test_many_at_once_keep_to_the_bound(write: Remember, read: Remember, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_NOTES", 3)
    refused = []

    async def one(number: int) -> None:
        try:
            await write(f"n{number}", "x")
        except ToolError:
            refused.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(one, number)
    assert len((await read()).splitlines()) == 3
    assert len(refused) == 5


async def test_writing_asks_and_reading_does_not(live) -> None:
    config = AgentConfig(tools=ToolConfig(enabled_builtins=NAMES))
    provider = ScriptedProvider().call("memory_write", key="a", text="x").call("memory_read").text("well")
    async with live(provider, config) as session:
        await session.prompt("go")
        assert results(session) == [
            "Error [denied]: this call needs an approval and nobody is there to give it",
            "There are no notes.",
        ]


async def test_nothing_is_written_in_read_only_mode(live) -> None:
    config = WITH_MEMORY.patched({"safety": {"read_only": True}})
    provider = ScriptedProvider().call("memory_write", key="a", text="x").text("well")
    async with live(provider, config) as session:
        await session.prompt("go")
        assert results(session) == ["Error [blocked]: blocked by safety policy: read-only mode"]


async def test_file_tools_do_not_reach_notes(live, tmp_path: Path) -> None:
    config = AgentConfig(tools=ToolConfig(enabled_builtins=[*NAMES, "read_file"]), safety=FREE)
    place = memory.notes_folder(str(tmp_path / "home"), str(tmp_path / "project"), "project")
    provider = ScriptedProvider().call("memory_write", key="a", text="x").call("read_file", path=f"{place}/a.md")
    async with live(provider.text("no"), config) as session:
        await session.prompt("go")
        assert results(session)[1].startswith("Error [blocked]")


def test_the_tools_are_there_only_where_they_are_named() -> None:
    assert set(NAMES).isdisjoint(spec.name for spec in builtin_tools(ToolConfig()))
    assert list(TOOLS) == NAMES
