"""What the modules offer: every `__all__` is there, is true, and leaves nothing out."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import aar

ROOT = Path(__file__).parent.parent
PATHS = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.glob("aar/**/*.py"))}
TREES = {name.removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}
PACKAGES = [name.removesuffix(".__init__") for name in PATHS if name.endswith(".__init__")]
PROGRAMS = ["aar.__main__", "aar.processes.keeper", "aar.tools.match_lines"]  # started, never imported from
WITHOUT = [*PROGRAMS, "aar._version"]


def is_empty(tree: ast.Module) -> bool:
    """Nothing but a docstring."""
    return all(isinstance(node, ast.Expr) for node in tree.body)


OFFERING = [name for name, tree in TREES.items() if name not in WITHOUT and not is_empty(tree)]


def taken_from_it() -> dict[str, set[str]]:
    """For each module the names that other modules import from it."""
    taken: dict[str, set[str]] = {name: set() for name in TREES}
    for importer, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in TREES and node.module != importer:
                taken[node.module] |= {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in TREES}
    return taken


TAKEN = taken_from_it()


def reexported(package: str) -> set[str]:
    """What a package imports from its own modules when it is imported."""
    return {
        alias.asname or alias.name
        for node in TREES[package].body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{package}.")
        for alias in node.names
    }


@pytest.mark.parametrize("name", OFFERING)
def test_a_module_says_what_it_offers_and_has_all_of_it(name: str) -> None:
    module = import_module(name)
    offered = module.__all__
    assert [entry for entry in offered if not hasattr(module, entry)] == []
    assert len(set(offered)) == len(offered)
    assert sorted(TAKEN[name] - set(offered)) == []  # what others use is meant to be used


@pytest.mark.parametrize("name", PROGRAMS)
def test_nobody_imports_from_a_program(name: str) -> None:
    assert TAKEN[name] == set()


@pytest.mark.parametrize("name", [package for package in PACKAGES if package != "aar"])
def test_a_package_offers_all_that_it_imports_from_its_modules(name: str) -> None:
    assert sorted(reexported(name) - set(getattr(import_module(name), "__all__", []))) == []


@pytest.mark.parametrize("name", aar.__all__)
def test_a_public_name_of_aar_resolves_and_is_listed(name: str) -> None:
    assert getattr(aar, name) is not None
    assert name in dir(aar)


def test_type_checkers_see_the_same_public_names() -> None:
    blocks = [node for node in TREES["aar"].body if isinstance(node, ast.If)]
    seen = [
        alias
        for block in blocks
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(alias.asname or alias.name for alias in seen) == sorted(set(aar.__all__) - {"__version__"})


def test_a_name_that_aar_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'aar' has no attribute 'Agnet'"):
        _ = aar.Agnet  # type: ignore[attr-defined]


def test_importing_aar_imports_neither_trio_nor_anything_else_of_size() -> None:
    script = "import sys, aar; print(*sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    heavy = ["trio", "pydantic", "httpx2", "ssl", "rich", "cyclopts"]
    done = subprocess.run([sys.executable, "-c", script, *heavy], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
