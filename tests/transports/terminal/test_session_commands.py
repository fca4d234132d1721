"""Slash commands that change or repeat what a session says."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aar.errors import InvalidMessage
from aar.messages.settings import AgentConfig
from aar.revising import exported
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.program.opening import Conversation
from aar.transports.terminal.session_commands import SESSION, words_of
from aar.transports.terminal.slash import Inputs, SlashCommands

Opened = Callable[..., AbstractAsyncContextManager[SlashCommands]]
FREE = {"require_approval_for_writes": False, "require_approval_for_execute": False, "allowed_paths": []}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def opened(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    home = tmp_path / "home"
    monkeypatch.setenv("AAR_HOME", str(home))

    @asynccontextmanager
    async def open_commands(provider: ScriptedProvider | None = None, **settings: Any) -> AsyncIterator[SlashCommands]:
        config = AgentConfig.model_validate({"safety": FREE, **settings})
        async with open_test_runtime(provider, config, home=home) as runtime:
            handle = await runtime.sessions.open(str(project))
            yield SlashCommands(Conversation(runtime.sessions, handle, config), SESSION)

    return open_commands


async def take(inputs: Inputs | None, taken: list[str]) -> None:
    """All lines, as an interface would take them."""
    assert inputs is not None
    async with aclosing(inputs.lines) as lines:
        async for line in lines:
            taken.append(line)


def contents(slash: SlashCommands) -> list[Any]:
    return [message["content"] for message in slash.handle.snapshot().to_messages()]


@pytest.mark.covers("AURA-48")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d e\"", ["a", "b c", "d e"]),
        ("it's one", ["it's", "one"]),
        ('"open', ['"open']),
        ("trailing \\", ["trailing", "\\"]),
        ("", []),
    ],
)
async def test_arguments_are_split_as_a_shell_would_unless_quotes_do_not_match(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.covers("AURA-48")
@pytest.mark.parametrize("command", [names.names[0] for names in SESSION])
async def test_a_quote_without_its_end_ends_nothing(opened: Opened, command: str) -> None:
    async with opened() as slash:
        reply = await slash.run(f"/{command} 'x")
        assert reply.problem or command in ("rename", "export", "bookmark")


# --- taken back, put in -----------------------------------------------------------------------


@pytest.mark.covers("AURA-104")
async def test_messages_are_dropped_and_inserted(opened: Opened) -> None:
    async with opened(ScriptedProvider().text("one").text("two")) as slash:
        await slash.handle.prompt("a")
        assert (await slash.run("/drop")).text == "1 message dropped: the model does not see them any more."
        assert (await slash.run("/insert assistant it's  so")).text == "Inserted as a message of the assistant."
        assert (await slash.run("/insert USER and then?")).text == "Inserted as a message of the user."
        assert contents(slash) == ["a", "it's  so", "and then?"]
        assert (await slash.run("/drop 99")).text.startswith("3 messages")
        assert "nothing has been said" in (await slash.run("/drop 1")).problem
        assert "begins with a message of the user" in (await slash.run("/insert assistant x")).problem


@pytest.mark.parametrize(
    "line",
    [
        "/drop -1",
        "/drop 1 2",
        "/drop x",
        "/insert",
        "/insert user",
        "/undo x",
        "/undo 1 code",
        "/undo 1 files x",
        "/redo x",
    ],
)
async def test_what_makes_no_sense_is_answered_with_how_it_is_done(opened: Opened, line: str) -> None:
    async with opened() as slash:
        assert (await slash.run(line)).problem.startswith("Usage: ")


@pytest.mark.covers("AURA-104")
async def test_undo_takes_back_files_messages_or_both(opened: Opened, project: Path) -> None:
    provider = ScriptedProvider()
    for number in ("1", "2", "3"):
        provider.call("write_file", path="a.txt", content=number).text(f"wrote {number}")
    async with opened(provider, file_snapshots=True) as slash:
        for number in ("1", "2", "3"):
            await slash.handle.prompt(f"write {number}")
        table = (await slash.run("/undo")).table
        assert table is not None
        assert [(row[0], *row[2:]) for row in table.rows] == [
            ("1", "files, messages", "write 3"),
            ("2", "files, messages", "write 2"),
            ("3", "files, messages", "write 1"),
        ]
        reply = await slash.run("/undo 1 messages")
        assert reply.text == "Back to before: write 3\n4 messages dropped."
        assert (project / "a.txt").read_text() == "3"
        assert (await slash.run("/undo 1 files")).text.splitlines()[:3] == [
            "Back to before: write 2",
            "1 file brought back.",
            "  changed: a.txt",
        ]
        assert (project / "a.txt").read_text() == "1"
        assert len(contents(slash)) == 8
        for content in ("3", "1"):
            assert (await slash.run("/redo")).text.splitlines()[0] == "1 file brought back."
            assert (project / "a.txt").read_text() == content
        lines = (await slash.run("/undo 2")).text.splitlines()
        assert lines[:4] == [
            "Back to before: write 1",
            "8 messages dropped.",
            "1 file brought back.",
            "  removed: a.txt",
        ]
        assert not (project / "a.txt").exists()
        assert contents(slash) == []
        assert "there are 0 turns" in (await slash.run("/undo 1")).problem


async def test_undo_without_kept_files_takes_back_the_messages_and_says_so(opened: Opened) -> None:
    async with opened(ScriptedProvider().text("one").text("two")) as slash:
        await slash.handle.prompt("a")
        assert "`file_snapshots`" in (await slash.run("/undo 1 files")).problem
        assert (await slash.run("/undo 1")).text.splitlines()[1:] == [
            "2 messages dropped.",
            "No file was brought back, since none were kept (`file_snapshots` in the settings keeps them).",
        ]


async def test_nothing_can_be_done_again_where_nothing_was_undone(opened: Opened) -> None:
    async with opened() as slash:
        assert "no files were brought back" in (await slash.run("/redo")).problem


async def test_nothing_is_taken_back_while_a_turn_runs(opened: Opened) -> None:
    provider = ScriptedProvider().hang()
    async with opened(provider) as slash, slash.handle.running("go"):
        await provider.reached(1)
        assert "a turn is running" in (await slash.run("/undo 1")).problem
        assert "a turn is running" in (await slash.run("/drop 1")).problem


# --- named, written out -----------------------------------------------------------------------


@pytest.mark.covers("AURA-105")
async def test_a_conversation_is_written_to_a_new_file(opened: Opened, project: Path) -> None:
    async with opened(ScriptedProvider().text("Hello.")) as slash:
        await slash.handle.prompt("hi")
        assert (await slash.run("/export 'my talk.txt'")).text == f"Written: {project}/my talk.txt"
        assert (project / "my talk.txt").read_text() == "## User\n\nhi\n\n## Assistant\n\nHello.\n"
        assert (project / "my talk.txt").stat().st_mode & 0o777 == 0o600
        await slash.run("/export talk.json")
        events = json.loads((project / "talk.json").read_text())
        assert [event["content"] for event in events if event["type"].endswith("message")] == ["hi", "Hello."]
        assert "Name another file" in (await slash.run("/export talk.json")).problem


@pytest.mark.covers("AURA-105")
async def test_the_newest_answer_is_copied(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("STY", raising=False)
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TERM_PROGRAM", raising=False)
    async with opened(ScriptedProvider().text("Hello.")) as slash:
        assert (await slash.run("/export clipboard")).problem == "There is no answer yet."
        await slash.handle.prompt("hi")
        reply = await slash.run("/export clipboard")
        assert reply.codes == f"\x1b]52;c;{base64.b64encode(b'Hello.').decode()}\x07"
        assert reply.text == "Sent to the clipboard: 6 characters."


async def test_a_session_is_named(opened: Opened) -> None:
    async with opened() as slash:
        assert (await slash.run("/rename my work")).text == "This session is named my work."
        assert slash.handle.metadata["name"] == "my work"
        assert (await slash.run("/rename")).text == "This session has no name any more."
        assert "name" not in slash.handle.metadata


@pytest.mark.covers("AURA-22")
async def test_a_bookmark_is_on_record_and_in_what_is_exported_and_no_model_sees_it(opened: Opened) -> None:
    provider = ScriptedProvider().text("Hello.").text("Bye.")
    async with opened(provider) as slash:
        await slash.handle.prompt("hi")
        assert (await slash.run("/bookmark   Chapter  2")).text == "There is a bookmark now: Chapter 2"
        assert (await slash.run("/bookmark")).problem == "Usage: /bookmark LABEL"
        await slash.handle.prompt("bye")
        assert "──── Chapter 2 ────" in exported(slash.handle, as_json=False)
    assert [one["content"] for one in provider.requests[1].messages] == ["hi", "Hello.", "bye"]


# --- conditions -------------------------------------------------------------------------------


@pytest.mark.covers("AURA-116")
async def test_assert_says_whether_a_condition_holds(opened: Opened, project: Path) -> None:
    (project / "a b").touch()
    async with opened(ScriptedProvider().call("nosuch").text("Hello."), context_window=1000) as slash:
        await slash.handle.prompt("hi")
        true = ["turns_gt:0 and tool_calls_gt:0", "'tool_errors_gt:0'", "history_lt:5", "auto", "context_below:50"]
        true += ["exists:'a b'", "not exists:nosuch", "bash:test -e 'a b'", "not bash:exit 3", "bash:echo Exit code"]
        for condition in true:
            assert (await slash.run(f"/assert {condition}")).text.startswith("It holds: "), condition
        assert (await slash.run("/assert not auto")).problem == "It does not hold: not auto"
        assert "do you mean `auto`" in (await slash.run("/assert atuo")).problem
        assert (await slash.run("/assert")).problem.startswith("Usage: ")


async def test_a_command_of_a_condition_that_may_not_run_is_no_answer(opened: Opened) -> None:
    async with opened(safety={**FREE, "read_only": True}) as slash:
        assert "blocked" in (await slash.run("/assert not bash:true")).problem


@pytest.mark.covers("AURA-116")
async def test_until_says_it_again_until_the_condition_holds(opened: Opened, project: Path) -> None:
    async with opened() as slash:
        reply = await slash.run("/until --max 5 'exists:done and not auto or' it's  this")
        assert "is no condition" in reply.problem
        reply = await slash.run("/until --max 5 'exists:done' it's  this")
        assert reply.inputs is not None
        said = []
        async with aclosing(reply.inputs.lines) as lines:
            async for line in lines:
                said.append(line)
                if len(said) == 3:
                    (project / "done").touch()
        assert said == ["it's  this"] * 3
        assert reply.inputs.are_typed


@pytest.mark.covers("AURA-116")
@pytest.mark.parametrize(("line", "rounds"), [("/until --max 3 exists:x go", 3), ("/until exists:x go", 10)])
async def test_until_ends_after_so_many_rounds_and_says_so(opened: Opened, line: str, rounds: int) -> None:
    async with opened() as slash:
        said: list[str] = []
        reply = await slash.run(line)
        with pytest.raises(InvalidMessage, match=f"after {rounds} rounds this does not hold: exists:x"):
            await take(reply.inputs, said)
        assert said == ["go"] * rounds


async def test_a_condition_may_count_the_rounds(opened: Opened) -> None:
    async with opened() as slash:
        said: list[str] = []
        await take((await slash.run("/until iteration_gt:1 go")).inputs, said)
        assert said == ["go", "go"]


@pytest.mark.parametrize("line", ["/until", "/until auto", "/until --max 0 auto x", "/until --max x auto y"])
async def test_until_without_all_that_it_needs_says_how(opened: Opened, line: str) -> None:
    async with opened() as slash:
        assert (await slash.run(line)).problem.startswith("Usage: /until")


# --- typed again ------------------------------------------------------------------------------


@pytest.mark.covers("AURA-105")
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.yaml", "- one\n- /model x\n- |\n  two\n  lines\n"), ("a.json", '["one","/model x","two\\nlines"]')],
)
async def test_a_file_is_replayed_from_where_one_says(opened: Opened, project: Path, name: str, text: str) -> None:
    (project / name).write_text(text)
    async with opened() as slash:
        for start, expected in (("", ["one", "/model x", "two\nlines"]), (" 3", ["two\nlines"])):
            inputs, taken = (await slash.run(f"/replay {name}{start}")).inputs, list[str]()
            await take(inputs, taken)
            assert inputs is not None
            assert (taken, inputs.are_typed) == (expected, False)
        assert "there is no number 4" in (await slash.run(f"/replay {name} 4")).problem


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("none.yaml", None, "No such file"),
        ("a.yaml", "a: 1", "is no list"),
        ("a.yaml", "[]", "is no list"),
        ("a.yaml", "- 1", "item 1 is no text: '1'"),
        ("a.yaml", "- [", "is no YAML"),
        ("a.yaml", "- !!python/object/apply:os.system ['true']", "is no YAML"),
        ("a.json", "[", "is no JSON"),
        ("a.json", json.dumps(["x"] * 1001), "is no list of 1 to 1000"),
        ("a.json", " " * 1_000_001, "larger than 1 MB"),
    ],
)
async def test_a_file_that_cannot_be_replayed_is_named(
    opened: Opened, project: Path, name: str, text: str | None, words: str
) -> None:
    if text is not None:
        (project / name).write_text(text)
    async with opened() as slash:
        problem = (await slash.run(f"/replay {name}")).problem
        assert words in problem
        assert str(project / name) in problem
