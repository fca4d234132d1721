"""`aar tasks`: prompts that are kept in a file, done by hand or when they are due."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import trio

from aar.display import plain
from aar.errors import ConfigError
from aar.runtime import Runtime, check_provider, open_runtime, session_store
from aar.tasks.reading import Task, read_tasks, tasks_file
from aar.tasks.running import Outcome, run_task
from aar.tasks.scheduling import keep_schedule
from aar.transports.cli.signals import open_interrupts
from aar.transports.program.exits import DONE, FAILED, USAGE, complain, run_to_code
from aar.transports.program.finding import with_model
from aar.transports.program.flags import LogFlags, SettingFlags
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen
from aar.transports.program.settings import here, loaded_settings

__all__ = ["listing", "run", "watch"]


def listing(file: Path | None, *, flags: LogFlags) -> int:
    """List the tasks, and when they are due next."""

    async def work() -> int:
        loaded_settings(flags)
        tasks = await _tasks(file)
        wide = max(map(len, tasks), default=0)
        lines = [f"  {name:{wide}}  {_due(task):16}  {_what(task)}\n" for name, task in tasks.items()]
        kept = file or tasks_file(home_folder())
        nothing = f"There are no tasks: keep them in {kept}, one line each: `NAME: PROMPT`.\n"
        await Screen().say(plain("".join(lines) or nothing))
        return DONE

    return run_to_code(work)


def _due(task: Task) -> str:
    if task.schedule is None:
        return "by hand"
    due = task.schedule.after(datetime.now())
    return f"{due:%Y-%m-%d %H:%M}" if due is not None else "never"


def _what(task: Task) -> str:
    text = " ".join(task.prompts[0].split())
    more = f" (and {len(task.prompts) - 1} more)" if len(task.prompts) > 1 else ""
    return (text if len(text) <= 60 else f"{text[:59]}…") + more


def run(names: Sequence[str], file: Path | None, *, flags: SettingFlags) -> int:
    """Do tasks now, one after the other; what fails does not keep the others back."""

    async def work() -> int:
        tasks, screen, failed = await _tasks(file), Screen(), False
        chosen = [_named(name, tasks) for name in names]
        async with open_interrupts() as interrupts, _runtime(flags, screen) as runtime:
            for task in chosen:
                outcome = await run_task(task, runtime.sessions, here(), says_yes=flags.says_yes)
                failed = failed or bool(outcome.problem)
                await _tell(screen, outcome)
        if interrupts.code is not None:
            return interrupts.code
        return FAILED if failed else DONE

    return run_to_code(work)


def watch(file: Path | None, *, at_once: int, flags: SettingFlags) -> int:
    """Do tasks whenever they are due."""
    if at_once < 1:
        complain("--at-once: at least one task has to run.")
        return USAGE

    async def work() -> int:
        tasks, screen = await _tasks(file), Screen()
        due = [task for task in tasks.values() if task.schedule is not None]
        if not due:
            raise ConfigError("No task has a schedule: give one a line such as `when: daily 09:00`.")

        async def tell(text: str) -> None:
            await screen.tell(f"{datetime.now():%Y-%m-%d %H:%M} {plain(text)}\n")

        async with open_interrupts() as interrupts, _runtime(flags, screen) as runtime:

            async def run_one(task: Task) -> None:
                await tell(f"{task.name}: begins.")
                outcome = await run_task(task, runtime.sessions, here(), says_yes=flags.says_yes)
                await tell(f"{task.name}: {outcome.problem or 'done.'}")

            await tell(f"Watching {len(due)} task{'' if len(due) == 1 else 's'}. Ctrl+C ends it.")
            await keep_schedule(due, run_one, now=datetime.now, tell=tell, at_once=at_once)
            await tell("Nothing is due any more.")
        return DONE if interrupts.code is None or interrupts.was_at_rest else interrupts.code

    return run_to_code(work)


async def _tell(screen: Screen, outcome: Outcome) -> None:
    """The answer for programs, all else for people."""
    if outcome.answer:
        await screen.say(f"{plain(outcome.answer)}\n")
    if outcome.problem:
        complain(f"{outcome.task}: {outcome.problem}")
    for session_id in dict.fromkeys(outcome.sessions):  # tried again in the same one
        await screen.tell(f"Session: {session_id}\n")


def _named(name: str, tasks: Mapping[str, Task]) -> Task:
    if name not in tasks:
        known = f"There are: {', '.join(tasks)}" if tasks else "There are none yet"
        raise ConfigError(f"There is no task {name!r}. {known}.")
    return tasks[name]


async def _tasks(file: Path | None) -> Mapping[str, Task]:
    """Those of the file; none where the user has no such file."""

    def read() -> Mapping[str, Task]:
        path = file.expanduser() if file is not None else tasks_file(home_folder())
        return read_tasks(path) if file is not None or path.exists() else {}

    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


@asynccontextmanager
async def _runtime(flags: SettingFlags, screen: Screen) -> AsyncIterator[Runtime]:
    config = await with_model(loaded_settings(flags), screen)
    check_provider(config)
    home = home_folder()
    store = session_store(config, home=home, cwd=here())
    async with open_runtime(config, store=store, home=home, extensions=True) as runtime:
        yield runtime
