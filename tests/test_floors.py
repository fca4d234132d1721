"""Who may import whom. A floor knows the floors below it; neighbours on the second floor do not know each other."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.glob("aar/**/*.py")}
MODULES = {name.removesuffix(".__init__"): path for name, path in SOURCES.items()}

GROUND = ["messages", "errors", "groups", "_version"]
NEIGHBOURS = ["kernel", "journal", "providers", "tools", "processes", "safety", "hooks", "config", "prompt", "usage"]
NEIGHBOURS += ["attachments", "logs", "mcp", "injectors", "conditions", "snapshots"]
FACES = [
    "testing",
    "agent",
    "driving",
    "local",
    "distros",
    "runtime",
    "delegating",
    "roles",
    "catalogue",
    "editor",
    "companion",
    "extensions",
    "sharing",
    "ui",
    "tasks",
    "session_facts",
    "revising",
    "client",
    "handle",
    "engine",
    "directives",
    "display",
]  # each may use what stands after it
FOR_TRANSPORTS = ["config", "prompt", "usage", "attachments", "logs", "conditions", "snapshots"]
ROOMS = {  # of transports: those with a way in, which do not know one another, and then those that they share
    "cli": ["terminal", "program"],
    "fullscreen": ["terminal", "program"],
    "acp": ["stdio", "program"],
    "acp_http": ["runs", "http", "program"],
    "web": ["runs", "http", "program"],
    "mcp_server": ["runs", "http", "stdio", "program"],
    "runs": ["http", "program"],
    "http": ["program"],
    "stdio": [],
    "terminal": ["program"],
    "program": [],
}
COMMANDS = tuple(f"aar.transports.cli.{name}" for name in ("commands", "interfaces", "serving"))  # open every way in
ENTRANCES = ["aar", "aar.__main__"]  # the lazy public names, and the command line

EXCEPTIONS = {  # a module or package, and the neighbours that it may know
    "aar.tools": ["safety", "processes"],
    "aar.safety.sandbox": ["processes"],
    "aar.providers.local": ["processes"],
    "aar.mcp": ["processes"],
    "aar.snapshots": ["processes"],
    "aar.hooks": ["injectors"],
}


def unit(module: str) -> str:
    """The part of the house: `aar.journal.state` stands in `journal`."""
    return module.split(".")[1] if "." in module else ""


def allowed(module: str) -> list[str]:
    here = unit(module)
    extra = [name for place, names in EXCEPTIONS.items() if f"{module}.".startswith(f"{place}.") for name in names]
    if here in GROUND:
        return GROUND
    if here in NEIGHBOURS:
        return [here, *GROUND, *extra]
    if here == "actors":
        return [here, *NEIGHBOURS, *GROUND]
    if here == "engine":
        return [here, "journal", *GROUND]
    if here in FACES:
        return [*FACES[FACES.index(here) :], "actors", *NEIGHBOURS, *GROUND]
    assert here == "transports", f"{module} stands on no floor: give it one in this file"
    return [here, *FACES, *FOR_TRANSPORTS, *GROUND]


def imported(module: str) -> Iterator[str]:
    """The full names of all that a module imports, also inside functions and for type checkers only."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively: write the full name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module)


IMPORTED = {module: sorted(set(imported(module))) for module in sorted(MODULES)}


@pytest.mark.covers("ENG-03")
def test_imports_go_down_only() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, names in IMPORTED.items()
        for name in names
        if module not in ENTRANCES and name.split(".")[0] == "aar" and unit(name) not in allowed(module)
    ]
    assert wrong == []


def test_ways_in_share_what_they_share_in_rooms_below_them() -> None:
    def room(module: str) -> str:
        return module.split(".")[2] if module.startswith("aar.transports.") else ""

    wrong = [
        f"{module} imports {name}"
        for module, names in IMPORTED.items()
        for name in names
        if room(module) and room(name) and module not in COMMANDS
        if room(name) not in (room(module), *ROOMS[room(module)])
    ]
    assert wrong == []


def test_the_ground_floor_needs_only_pydantic_and_the_standard_library() -> None:
    known = {*sys.stdlib_module_names, "aar", "pydantic", "typing_extensions"}
    wrong = [
        f"{module} imports {name}"
        for module, names in IMPORTED.items()
        for name in names
        if unit(module) in GROUND and name.split(".")[0] not in known
    ]
    assert wrong == []


def test_nobody_imports_asyncio() -> None:
    wrong = [module for module, names in IMPORTED.items() if any(name.split(".")[0] == "asyncio" for name in names)]
    assert wrong == []


def test_no_module_imports_itself_in_a_ring() -> None:
    inside = {
        module: [name for name in names if name in MODULES]
        for module, names in IMPORTED.items()
        if module not in ENTRANCES
    }
    assert set(TopologicalSorter(inside).static_order()) >= set(inside)
