"""Child processes: nothing else in Aar starts one."""

from __future__ import annotations

from aar.processes.command import Finished, run_command
from aar.processes.environment import child_environment
from aar.processes.group import Process, ProcessStatistics, open_process
from aar.processes.guard import Guard, open_guard
from aar.processes.orphans import reap_stale

__all__ = [
    "Finished",
    "Guard",
    "Process",
    "ProcessStatistics",
    "child_environment",
    "open_guard",
    "open_process",
    "reap_stale",
    "run_command",
]
