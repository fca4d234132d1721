"""Doing a task: commands and prompts in order, in its session, until one does not end well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aar.client import Sessions
from aar.errors import ProviderUnauthorized
from aar.messages.settings import AgentConfig
from aar.tasks.reading import Task
from aar.tasks.running import run_task
from aar.testing import MemoryStore, ScriptedProvider, open_test_runtime

Opened = Callable[..., AbstractAsyncContextManager[Sessions]]
FREE = {"require_approval_for_execute": False, "allowed_paths": []}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    store = MemoryStore()

    @asynccontextmanager
    async def open_sessions(provider: ScriptedProvider, **settings: Any) -> AsyncIterator[Sessions]:
        config = AgentConfig.model_validate({"safety": FREE, **settings})
        async with open_test_runtime(provider, config, home=tmp_path / "home", store=store) as runtime:
            yield runtime.sessions

    return open_sessions


def asked(provider: ScriptedProvider) -> list[list[Any]]:
    return [[message["content"] for message in request.messages] for request in provider.requests]


@pytest.mark.covers("AURA-117")
async def test_all_of_it_is_done_in_order(opened: Opened, project: Path) -> None:
    provider = ScriptedProvider().text("one").text("two")
    task = Task(
        name="t",
        prompts=("a", "!echo between >> log", "b"),
        pre=("echo pre >> log",),
        post=("echo post >> log",),
        finally_=("echo finally >> log",),
    )
    async with opened(provider) as sessions:
        outcome = await run_task(task, sessions, str(project))
    assert (outcome.answer, outcome.problem, len(outcome.sessions)) == ("two", "", 1)
    assert asked(provider) == [["a"], ["a", "one", "b"]]
    assert (project / "log").read_text().split() == ["pre", "between", "post", "finally"]


@pytest.mark.covers("AURA-117")
@pytest.mark.parametrize(
    ("fields", "words", "log"),
    [
        ({"pre": ("exit 3",), "prompts": ("a",)}, "!exit 3: ", ["finally"]),
        ({"prompts": ("!echo x >&2; false", "a")}, "!echo x >&2; false: STDERR:\nx", ["finally"]),
        ({"prompts": ("a", "b"), "post": ("echo post >> log",)}, "a turn ended with error: ", ["finally"]),
    ],
)
async def test_what_does_not_end_well_ends_it_but_for_the_last_commands(
    opened: Opened, project: Path, fields: dict[str, Any], words: str, log: list[str]
) -> None:
    provider = ScriptedProvider().error(ProviderUnauthorized("no"))
    async with opened(provider) as sessions:
        outcome = await run_task(Task(name="t", finally_=("echo finally >> log",), **fields), sessions, str(project))
    assert words in outcome.problem
    assert (project / "log").read_text().split() == log


@pytest.mark.covers("AURA-117")
async def test_it_is_tried_again_as_often_as_it_says(opened: Opened, project: Path) -> None:
    task = Task(name="t", prompts=("!echo x >> log; test $(wc -l < log) = 3",), retries=3)
    async with opened(ScriptedProvider()) as sessions:
        outcome = await run_task(task, sessions, str(project))
        assert (outcome.problem, len(outcome.sessions)) == ("", 3)
        outcome = await run_task(Task(name="t", prompts=("!false",), retries=1), sessions, str(project))
        assert (outcome.problem.startswith("!false: "), len(outcome.sessions)) == (True, 2)


@pytest.mark.covers("AURA-117")
async def test_it_is_done_for_each_item(opened: Opened, project: Path) -> None:
    provider = ScriptedProvider().text("1").text("2")
    task = Task(name="t", prompts=("look at {item}", "!test {item} != c || false"), foreach=("a", "b"))
    async with opened(provider) as sessions:
        assert (await run_task(task, sessions, str(project))).problem == ""
        assert asked(provider) == [["look at a"], ["look at b"]]
        failing = Task(name="t", prompts=("!echo {item} >> log; test {item} != b",), foreach=("a", "b", "c"))
        assert (await run_task(failing, sessions, str(project))).problem.startswith("b: !echo b")
    assert (project / "log").read_text().split() == ["a", "b"]


@pytest.mark.covers("AURA-117")
async def test_a_named_session_goes_on_from_time_to_time(opened: Opened, project: Path) -> None:
    provider = ScriptedProvider().text("1").text("2")
    task = Task(name="t", prompts=("again",), session="daily work")
    for _ in range(2):
        async with opened(provider) as sessions:
            await run_task(task, sessions, str(project))
    assert asked(provider) == [["again"], ["again", "1", "again"]]


async def test_a_step_limit_may_be_no_failure(opened: Opened, project: Path) -> None:
    for what, expected in (("fail", "a turn ended with max_steps: Reached max steps (1)"), ("continue", "")):
        provider = ScriptedProvider().call("list_directory", path=".").text("x")
        async with opened(provider, max_steps=1) as sessions:
            task = Task(name="t", prompts=("go",), on_max_steps=what)
            assert (await run_task(task, sessions, str(project))).problem == expected


async def test_questions_are_answered_only_when_somebody_said_yes_beforehand(opened: Opened, project: Path) -> None:
    task = Task(name="t", prompts=("!touch made",))
    async with opened(ScriptedProvider(), safety={}) as sessions:
        assert "nobody is there" in (await run_task(task, sessions, str(project))).problem
        assert not (project / "made").exists()
        assert (await run_task(task, sessions, str(project), says_yes=True)).problem == ""
        assert (project / "made").exists()


async def test_a_folder_that_is_not_there_is_a_problem(opened: Opened, project: Path) -> None:
    async with opened(ScriptedProvider()) as sessions:
        outcome = await run_task(Task(name="t", prompts=("!pwd",), folder="nosuch"), sessions, str(project))
        assert outcome.problem


@pytest.mark.parametrize("last", ["echo finally >> log", "echo finally >> log; exit 3"])
async def test_a_task_that_is_cancelled_ends_its_turn_and_says_its_last_words(
    opened: Opened, project: Path, last: str
) -> None:
    provider = ScriptedProvider().hang("thinking")
    task = Task(name="t", prompts=("a",), finally_=(last,), retries=2)
    async with opened(provider) as sessions, trio.open_nursery() as nursery:
        nursery.start_soon(run_task, task, sessions, str(project))
        while not provider.requests:
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (project / "log").read_text().split() == ["finally"]
    assert len(provider.requests) == 1
