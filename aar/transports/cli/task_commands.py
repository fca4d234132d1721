"""`aar tasks` as it is called; see `commands.py`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from aar.transports.program.flags import LogFlags, SettingFlags, whole

__all__ = ["tasks_list", "tasks_run", "tasks_watch"]

TasksFile = Annotated[
    Path | None, Parameter(name="--file", metavar="FILE", help="File with tasks, instead of ~/.aar/tasks.yaml.")
]
TaskName = Annotated[str, Parameter(name="NAME", help="Name of a task, as `aar tasks` lists it.")]


def tasks_list(*, file: TasksFile = None, flags: LogFlags = LogFlags()) -> int:
    """List the tasks, and when they are due next."""
    from aar.transports.cli.tasks import listing

    return listing(file, flags=flags)


def tasks_run(
    *names: Annotated[TaskName, Parameter(required=True)],
    file: TasksFile = None,
    flags: SettingFlags = SettingFlags(),
) -> int:
    """Do tasks now, one after the other, in this folder or in their own."""
    from aar.transports.cli.tasks import run

    return run(names, file, flags=flags)


def tasks_watch(
    *,
    file: TasksFile = None,
    at_once: Annotated[int, Parameter(metavar="N", converter=whole, help="Tasks that run side by side at most.")] = 2,
    flags: SettingFlags = SettingFlags(),
) -> int:
    """Do tasks whenever they are due, until Ctrl+C or a signal."""
    from aar.transports.cli.tasks import watch

    return watch(file, at_once=at_once, flags=flags)
