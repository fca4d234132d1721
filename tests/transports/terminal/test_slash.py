"""Slash commands: what they answer, as data, whoever draws it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.config.themes import Themes
from aar.messages.events import PromptQueued, TurnStarted
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedAnswer, ScriptedProvider, open_test_runtime
from aar.transports.program.opening import Conversation
from aar.transports.terminal.slash import CHAT, FULL_SCREEN, INLINE, Effect, Reply, SlashCommands, Table, totals

Opened = Callable[..., AbstractAsyncContextManager[SlashCommands]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """`async with opened(provider, FULL_SCREEN) as slash`: commands over a new session."""

    @asynccontextmanager
    async def open_commands(
        provider: ScriptedProvider | None = None, commands: Any = INLINE, /, **settings: Any
    ) -> AsyncIterator[SlashCommands]:
        config = AgentConfig.model_validate(settings)
        async with open_test_runtime(provider, config, home=tmp_path) as runtime:
            handle = await runtime.sessions.open(str(tmp_path))
            conversation = Conversation(runtime.sessions, handle, config)
            conversation.is_new = True
            themes = Themes(tmp_path)
            yield SlashCommands(conversation, commands, themes=themes, theme=themes.get("default"))

    return open_commands


def names(table: Table | None) -> list[str]:
    assert table is not None
    return [row[0].split()[0] for row in table.rows]


@pytest.mark.covers("TUI-01")
async def test_help_lists_every_command_with_what_it_takes(opened: Opened) -> None:
    async with opened() as slash:
        table = (await slash.run("/help")).table
        assert (await slash.run("/H")).table == table
        own = ["/model", "/status", "/tools", "/policy", "/theme", "/clear", "/help", "/quit"]
        assert [name for name in names(table) if name in own] == own
        assert table is not None
        assert ("/theme [NAME|next]", "Show the themes, or use another one.") in table.rows


async def test_each_interface_has_the_commands_that_mean_something_there() -> None:
    chat, inline, full = (
        {name for command in table for name in command.names} for table in (CHAT, INLINE, FULL_SCREEN)
    )
    assert inline - chat == {"theme"}
    assert full - inline == {"think", "queue"}
    assert {"quit", "exit", "q"} <= chat


@pytest.mark.parametrize("line", ["/quit", "/exit", "/q", "/QUIT now"])
async def test_quit_has_three_names(opened: Opened, line: str) -> None:
    async with opened() as slash:
        assert await slash.run(line) == Reply(effect=Effect.LEAVE)


async def test_an_unknown_command_is_named_with_those_there_are(opened: Opened) -> None:
    async with opened() as slash:
        for line in ("/nosuch thing", "/", "//x"):
            reply = await slash.run(line)
            assert reply.problem == f"Unknown command: {line}"
            assert names(reply.table)[-1] == "/quit"


# --- looking ----------------------------------------------------------------------------------


@pytest.mark.covers("TUI-06")
async def test_status_before_anything_was_said_and_after(opened: Opened) -> None:
    provider = ScriptedProvider().text("Hi.").usage(input_tokens=150, output_tokens=80)
    async with opened(provider) as slash:
        assert await slash.run("/status") == Reply(text="No active session.")
        await slash.handle.prompt("hello")
        session = f"{slash.handle.session_id[:8]}..."
        rows = (("session", session), ("steps", "1"), ("tokens", "150in / 80out"))
        assert await slash.run("/status") == Reply(table=Table("Status", (), rows))


async def test_status_has_a_price_where_there_is_one(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "pricing.json").write_text('{"scripted": {"input_per_million": 1000.0}}')
    provider = ScriptedProvider().text("Hi.").usage(input_tokens=1230, output_tokens=1)
    async with opened(provider, provider={"name": "generic", "model": "scripted"}) as slash:
        await slash.handle.prompt("hello")
        table = (await slash.run("/status")).table
        assert table is not None
        assert table.rows[-1] == ("cost", "$1.23")
    assert totals(1, 2, 0.0032) == "1in / 2out ($0.0032)"


async def test_on_the_full_screen_status_says_the_state(opened: Opened) -> None:
    async with opened(ScriptedProvider().text("Hi."), FULL_SCREEN) as slash:
        await slash.handle.prompt("hello")
        table = (await slash.run("/status")).table
        assert table is not None
        assert table.rows[1:] == (("steps", "1"), ("state", "completed"))


@pytest.mark.covers("TUI-06")
async def test_tools_are_listed_with_their_effects(opened: Opened) -> None:
    async with opened(tools={"enabled_builtins": ["read_file", "bash"]}) as slash:
        table = (await slash.run("/tools")).table
        assert table is not None
        assert table.columns == ("tool", "effects", "description")
        assert [row[:2] for row in table.rows] == [("bash", "execute"), ("read_file", "read")]
        assert table.rows[0][2].startswith("Execute a shell command")
        assert table.rows[0][2].endswith("exit code.")  # the first sentence


@pytest.mark.covers("TUI-06")
async def test_policy_shows_the_rules_in_force(opened: Opened) -> None:
    safety = {"read_only": True, "denied_paths": ["**/.env", "**/x"], "allowed_paths": [], "acp_approval_timeout": 90}
    async with opened(safety=safety) as slash:
        assert (await slash.run("/policy")).table == Table(
            "Policy",
            (),
            (
                ("read only", "yes"),
                ("asks before writing", "yes"),
                ("asks before running commands", "yes"),
                ("denied paths", "2 patterns"),
                ("allowed paths", "all (no whitelist)"),
                ("sandbox", "local"),
                ("waits for an answer", "90 s"),
            ),
        )
    async with opened() as slash:
        table = (await slash.run("/policy")).table
        assert table is not None
        assert ("allowed paths", "<cwd>/**") in table.rows


# --- changing ---------------------------------------------------------------------------------


async def test_model_shows_and_switches(opened: Opened) -> None:
    async with opened(provider={"name": "generic", "model": "a", "base_url": "http://127.0.0.1:9"}) as slash:
        assert (await slash.run("/model")).text.startswith("Active: generic/a\n")
        assert await slash.run("/model b") == Reply(text="Switched to generic/b")
        assert slash.config.resolve_provider().model == "b"


@pytest.mark.covers("TUI-04")
async def test_themes_are_listed_set_and_gone_through(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "broken.json").write_text("{}")
    async with opened() as slash:
        table = (await slash.run("/theme")).table
        assert table is not None
        assert [row[:2] for row in table.rows] == [
            (" ", "broken"),
            (" ", "contrast"),
            (" ", "decker"),
            ("*", "default"),
            (" ", "sleek"),
        ]
        assert table.rows[0][2].startswith("cannot be used: ")
        assert await slash.run("/theme decker") == Reply(text="Theme: decker", effect=Effect.RESTYLE)
        assert slash.theme.name == "decker"
        assert (await slash.run("/theme next")).text == "Theme: default"
        assert (await slash.run("/theme nosuch")).problem.startswith("Unknown theme: nosuch.")
        assert "name: is missing" in (await slash.run("/theme broken")).problem
        assert slash.theme.name == "default"


async def test_a_theme_that_was_named_by_its_path_is_listed_while_it_is_used(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    file.write_text(json.dumps({"name": "night"}))
    async with opened() as slash:
        await slash.run(f"/theme {file}")
        table = (await slash.run("/theme")).table
        assert table is not None
        assert table.rows[0][:2] == ("*", "night")


@pytest.mark.covers("TUI-05")
async def test_clear_leaves_the_session_for_a_new_one_in_the_same_folder(opened: Opened) -> None:
    async with opened(ScriptedProvider().text("Hi.").text("Hi again.")) as slash:
        first = slash.handle
        assert await slash.run("/clear") == Reply(effect=Effect.CLEAR)
        assert slash.handle is first  # nothing was said in it
        await first.prompt("hello")
        assert await slash.run("/clear") == Reply(text=f"Session saved: {first.session_id}", effect=Effect.CLEAR)
        assert slash.handle.session_id != first.session_id
        assert slash.handle.cwd == first.cwd
        assert await slash.run("/status") == Reply(text="No active session.")
        await slash.handle.prompt("hello again")
        assert (await slash.handle.status()).step_count == 1


async def test_what_the_model_thinks_is_for_the_interface_to_show(opened: Opened) -> None:
    async with opened(None, FULL_SCREEN) as slash:
        assert await slash.run("/think") == Reply(effect=Effect.THINK)
    async with opened() as slash:
        assert (await slash.run("/think")).problem == "Unknown command: /think"


@pytest.mark.covers("FTUI-10")
async def test_the_queue_is_listed_and_cleared(opened: Opened, until: Any) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().reply(ScriptedAnswer(text="one", gate=gate))
    async with opened(provider, FULL_SCREEN) as slash, trio.open_nursery() as nursery:
        assert await slash.run("/queue") == Reply(text="No queued prompts.")
        nursery.start_soon(slash.handle.prompt, "first")
        await until(slash.handle, TurnStarted)
        for times, prompt in enumerate(("a  b\nc", "x" * 70), 1):
            nursery.start_soon(slash.handle.prompt, prompt)
            await until(slash.handle, PromptQueued, times=times)
        assert await slash.run("/queue") == Reply(text=f"  1. a b c\n  2. {'x' * 60}...")
        assert await slash.run("/queue clear") == Reply(text="Cleared 2 queued prompt(s).")
        assert await slash.run("/queue all") == Reply(problem="Usage: /queue or /queue clear")
        gate.set()
