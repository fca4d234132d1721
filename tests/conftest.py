"""Shared by all tests: `pytest --covered` lists the checklist rows that have a passing test.

The fixtures are what tests of whole sessions have in common: a live session, its story, and waiting for a fact.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import trio
import trio.testing

from aar.client import SessionHandle
from aar.messages.events import (
    ApprovalResolved,
    AssistantMessage,
    Event,
    Recorded,
    ToolResult,
    TurnEnded,
    UserMessage,
)
from aar.testing import facts_of, open_test_runtime


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--covered", action="store_true", help="list the checklist rows with a passing test")


# What an example takes depends on what else the machine does.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What there is now stays to the end. Tests that look for garbage need not look through all of it each time."""
    gc.collect()
    gc.freeze()


_passed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        rows = [row for marker in item.iter_markers("covers") for row in marker.args]
        report.user_properties.append(("covers", rows))  # these reach us from other processes, too
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.passed:
        _passed.update(row for name, rows in report.user_properties if name == "covers" for row in rows)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--covered"):
        return
    terminalreporter.section("checklist rows with a passing test")
    for row in sorted(_passed, key=_in_checklist_order):
        terminalreporter.line(row)
    terminalreporter.line(f"{len(_passed)} rows")


def _in_checklist_order(row: str) -> tuple[str, int]:
    topic, _, number = row.rpartition("-")
    return topic, int(number) if number.isdigit() else 0


# --- time -------------------------------------------------------------------------------------


def _all_tasks() -> Generator[trio.lowlevel.Task, None, None]:
    root = trio.lowlevel.current_root_task()
    tasks = [root] if root is not None else []
    while tasks:
        task = tasks.pop()
        yield task
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


_IN_THREADS = {
    "to_thread_run_sync",
    "Batching.run",
    "Piece.wait",
}  # trio's own way there, and that of the session store


def _waits_for_a_thread(task: trio.lowlevel.Task) -> bool:
    return any(frame.f_code.co_qualname in _IN_THREADS for frame, _ in task.iter_await_frames())


def _patient_clock() -> trio.testing.MockClock:
    clock = trio.testing.MockClock(autojump_threshold=0.0005)
    jump = clock._autojump

    def jump_unless_a_thread_works() -> None:
        if not any(_waits_for_a_thread(task) for task in _all_tasks()):
            jump()

    clock._autojump = jump_unless_a_thread_works  # type: ignore[method-assign]
    return clock


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Virtual time: as soon as everything waits for time alone, it has passed.

    Trio's own jumps also while a thread works: to its run loop that looks like nothing to do.
    """
    return _patient_clock()


@pytest.fixture(scope="session")
def in_virtual_time() -> Callable[..., Any]:
    """`in_virtual_time(async_function, *arguments)`: a run of its own, for tests that make many."""

    def run(async_function: Callable[..., Any], *arguments: Any) -> Any:
        return trio.run(async_function, *arguments, clock=_patient_clock())

    return run


# --- whole sessions ---------------------------------------------------------------------------

_TOLD = {
    "session": "{action}",
    "tool_call": "{tool_call_id} {tool_name}",
    "tool_started": "{tool_call_id}",
    "approval_requested": "{tool_call_id}",
    "error": "{message}",
    "notice": "{kind}",
    "reasoning": "{content}",
    "prompt_queued": "{content}",
    "prompts_cleared": "{count}",
    "config_changed": "{patch}",
    "compacted": "{summary}",
    "provider_switch": "{from_provider}/{from_model} -> {to_provider}/{to_model}",
    "turn_ended": "{stop}",
}


def _line(event: Event) -> str:
    """One fact in a few words: its type, and what tells it from others of its type."""
    match event:
        case UserMessage():
            return f"{event.data.get('kind', 'user')}: {event.content}"
        case AssistantMessage():
            partial = " (partial)" if event.data.get("partial") else ""
            return f"assistant {event.stop_reason}: {event.content}{partial}"
        case ToolResult():
            return f"tool_result {event.tool_call_id} {'failed' if event.is_error else 'ok'}: {event.output}"
        case ApprovalResolved():
            return f"approval_resolved {event.tool_call_id or event.key}: {event.decision} {event.scope} by {event.by}"
    return f"{event.type} {_TOLD.get(event.type, '').format_map(dict(event))}".strip()


@pytest.fixture
def story() -> Callable[..., list[str]]:
    """`story(session)`: a line for each fact after the one it was opened with; or for each event of a list."""

    def tell(told: SessionHandle | Sequence[Event], *, after: int = 1) -> list[str]:
        return [_line(event) for event in (facts_of(told, after=after) if isinstance(told, SessionHandle) else told)]

    return tell


@pytest.fixture
def until() -> Callable[..., Any]:
    """`await until(session, TurnEnded)`: the first such fact, or the one that `times` says."""

    async def wait(session: SessionHandle, kind: type[Event], *, times: int = 1, after: int = 0) -> Recorded:
        with session.follow(after=after) as records:
            async for record in records:
                times -= isinstance(record.event, kind)
                if not times:
                    return record
        raise AssertionError(f"the session was closed without a {kind.__name__}")

    return wait


@pytest.fixture
def watched() -> Callable[..., Any]:
    """`await watched(session, "go")`: every event of a turn, facts and hints, as a paced reader sees them."""

    async def watch(session: SessionHandle, prompt: str) -> list[Event]:
        seen: list[Event] = []
        async with trio.open_nursery() as nursery:
            with session.follow(after=session.seq, pace=100) as records:
                nursery.start_soon(session.prompt, prompt)
                async for record in records:
                    seen.append(record.event)
                    if isinstance(record.event, TurnEnded):
                        break
        return seen

    return watch


@pytest.fixture
def live(tmp_path: Path) -> Callable[..., Any]:
    """`async with live(provider, config) as session`: one session in a new folder, in a runtime of its own."""

    @asynccontextmanager
    async def open_session(*arguments: Any, cwd: Path | None = None, **named: Any) -> AsyncIterator[SessionHandle]:
        folder = cwd or tmp_path / "project"
        folder.mkdir(exist_ok=True)
        async with open_test_runtime(*arguments, home=tmp_path / "home", **named) as runtime:
            yield await runtime.sessions.open(str(folder))

    return open_session


@pytest.fixture(scope="session")
def problems_of() -> Callable[[Sequence[Any]], list[str]]:
    """What a model's API would refuse in these messages: calls without results next to them, results without calls."""

    def find(messages: Sequence[Any]) -> list[str]:
        problems, waiting = [], list[str]()
        for message in messages:
            blocks = message["content"] if isinstance(message["content"], list) else []
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if sorted(results) != sorted(waiting):
                problems.append(f"calls {waiting} are followed by results {results}")
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        return problems + [f"no result for {call_id}" for call_id in waiting]

    return find
