from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, os, trio
from aar.processes.command import run_command

def dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)

async def main():
    print(dumpable())
    for _ in range(2):
        look = ["cat", "/proc/self/environ"]
        finished = await run_command(look, cwd="/", env={"A": "1"}, timeout=30, output_limit=999)
        print(dumpable(), finished.stdout[:3])
    print(os.path.isdir("/proc/self/fd/" + str(os.open("/", os.O_PATH))))

trio.run(main)
"""


def told(environment: dict[str, str]) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return run.stdout.split("\n")[:-1]


def test_with_the_first_command_the_process_is_closed_to_others_and_children_are_as_ever() -> None:
    assert told({}) == ["1", "0 A=1", "0 A=1", "True"]


def test_who_wants_to_debug_can() -> None:
    assert told({"AAR_DEBUGGABLE": "1"}) == ["1", "1 A=1", "1 A=1", "True"]
