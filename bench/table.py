"""Rows of the table: what was measured, against what, and whether the result keeps its limit."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

__all__ = ["Row", "headline", "median", "print_rows", "rendered", "rounds"]

MEASURED_WITH = ("trio", "httpx2", "pydantic")


@dataclass(frozen=True)
class Row:
    """`result` is in `unit` (`x` for a ratio); the limit is kept when it is not above it. No limit: for information."""

    name: str
    aar: str
    baseline: str
    result: float
    unit: str
    limit: float | None = None

    @property
    def is_met(self) -> bool:
        return self.limit is None or self.result <= self.limit

    @property
    def mark(self) -> str:
        if self.limit is None:
            return ""
        return "yes" if self.is_met else "NO"

    def cells(self) -> tuple[str, ...]:
        limit = "" if self.limit is None else _number(self.limit, self.unit)
        return (self.name, self.aar, self.baseline, _number(self.result, self.unit), limit, self.mark)


def _number(value: float, unit: str) -> str:
    figure = f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.2f}"
    return figure + unit if unit in ("x", "") else f"{figure} {unit}"


def headline() -> str:
    """The machine and the versions, in one line."""
    parts = [
        f"aar {_aar_version()}",
        f"Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in MEASURED_WITH),
        f"{os.cpu_count()} cores",
        f"{platform.system()} {platform.machine()}",
        f"load {os.getloadavg()[0]:.1f}",
    ]
    return ", ".join(parts)


def _aar_version() -> str:
    from aar import __version__

    return __version__


def rendered(rows: Sequence[Row]) -> str:
    """The rows under each other, columns aligned."""
    table = [("measured", "Aar", "baseline", "result", "limit", "met"), *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(6)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def print_rows(rows: Sequence[Row]) -> None:
    """For the parent process: one line of JSON each."""
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def rounds(count: int, *works: Callable[[], float], pick: Callable[[Sequence[float]], float] = min) -> list[float]:
    """One of `count` results of each work, taken in turns, so that a busy moment hits all of them.

    The least one for CPU, since whatever disturbs a measurement of it only adds; the median for time.
    """
    results: list[list[float]] = [[] for _ in works]
    for _ in range(count):
        for work, found in zip(works, results, strict=True):
            found.append(work())
    return [pick(found) for found in results]


def is_quick() -> bool:
    return "--quick" in sys.argv


def cpu() -> float:
    """Milliseconds of CPU that this process has used, in all its threads."""
    return time.process_time() * 1000
