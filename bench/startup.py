"""What starting costs: help and version against importing asyncio; the first request against a bare script's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.server import Server, open_server
from bench.table import Row, is_quick, median, print_rows, rounds

PYTHON = [sys.executable]


@contextmanager
def installed() -> Iterator[dict[str, str]]:
    """An environment in which everything is compiled to byte code, as after an installation; nothing of the user's."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        yield {**kept, "PYTHONPYCACHEPREFIX": f"{folder}/cache", "AAR_HOME": f"{folder}/home"}


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment)


def _cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Milliseconds of CPU of a whole process, its children included; waits for its end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def _printing(environment: dict[str, str], repeats: int) -> list[Row]:
    def work(*words: str) -> Callable[[], float]:
        _cpu_of(_start([*PYTHON, *words], environment))  # compiles
        return lambda: _cpu_of(_start([*PYTHON, *words], environment))

    help_text, version, plain = rounds(
        repeats, work("-m", "aar", "--help"), work("-m", "aar", "--version"), work("-c", "import asyncio")
    )
    return [
        Row("aar --help, CPU", f"{help_text:.0f} ms", f"{plain:.0f} ms", help_text / plain, "x", 2.0),
        Row("aar --version, CPU", f"{version:.0f} ms", f"{plain:.0f} ms", version / plain, "x", 2.0),
    ]


def until_request(server: Server, command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds from the start to the moment the server has the request, and CPU until the end."""
    start = time.monotonic_ns()
    process = _start(command, environment)
    try:
        waited = (server.wait_for("request") - start) / 1e6
    except BaseException:  # no request came in time
        process.kill()
        process.wait()
        raise
    return waited, _cpu_of(process)


def _first_request(server: Server, environment: dict[str, str], repeats: int) -> list[Row]:
    url = server.url("/first")
    aar = [*PYTHON, "-m", "aar", "run", "-p", "generic", "-m", "m", "--base-url", url, "say hello"]
    plain = [*PYTHON, "-m", "bench.bare", url]
    until_request(server, aar, environment)  # compiles, and makes the user's folder
    until_request(server, plain, environment)
    found = [
        (until_request(server, aar, environment), until_request(server, plain, environment)) for _ in range(repeats)
    ]
    rows = []
    for index, name in enumerate(("aar run, time to the first request", "aar run, CPU from start to end")):
        ours = median([aar_run[index] for aar_run, _ in found])
        theirs = median([bare_run[index] for _, bare_run in found])
        rows.append(Row(name, f"{ours:.0f} ms", f"{theirs:.0f} ms", ours / theirs, "x", 1.6))
    return rows


def main() -> None:
    repeats = 3 if is_quick() else 11
    with installed() as environment, open_server() as server:
        print_rows(_printing(environment, repeats))
        print_rows(_first_request(server, environment, repeats))


if __name__ == "__main__":
    main()
