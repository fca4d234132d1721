"""The examples of the documentation are programs that run.

A block of Python whose first line is `# example: NAME` is run as a program, and its tests are run after it. When it has
an async `main` that it does not run itself, `trio.run(main)` does. A block marked `output` right after it is what it
prints. Every other block is at least valid Python.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from trio.testing import MockClock

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("README.md")]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\s*^```output\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"# example: (?P<name>.+)\n")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    code: str
    output: str | None

    @property
    def name(self) -> str | None:
        mark = MARK.match(self.code)
        return mark["name"] if mark else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}" + (f" {self.name}" if self.name else "")


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(page.relative_to(ROOT)), line, match["code"], match["output"]))
    return found


BLOCKS = blocks()
EXAMPLES = [block for block in BLOCKS if block.name]
FRAGMENTS = [block for block in BLOCKS if not block.name]


def left_to_run(module: ModuleType, code: str) -> list[Callable[..., Any]]:
    functions = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    tests = [function for name, function in functions.items() if name.startswith("test_")]
    return tests if "main" not in functions or "run(main" in code else [functions["main"], *tests]


def run(function: Callable[..., Any]) -> None:
    """Run a `main` or a test, under virtual time if it asks for that."""
    wanted = inspect.signature(function).parameters
    assert set(wanted) <= {"autojump_clock"}, f"{function.__name__} takes what only a test run has"
    clock = MockClock(autojump_threshold=0.001) if wanted else None
    if inspect.iscoroutinefunction(function):
        trio.run(partial(function, **dict.fromkeys(wanted, clock)), clock=clock)
    else:
        function()


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_an_example_runs_and_prints_what_its_page_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setenv("AAR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    padding = "\n" * block.line  # so that a traceback shows the line of the page
    exec(compile(padding + block.code, ROOT / block.page, "exec", dont_inherit=True), module.__dict__)
    for function in left_to_run(module, block.code):
        run(function)
    printed = capsys.readouterr().out
    if block.output is not None:
        assert printed == block.output


@pytest.mark.parametrize("block", FRAGMENTS, ids=str)
def test_a_fragment_is_valid_python(block: Block) -> None:
    compile(block.code, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def test_no_two_examples_of_a_page_have_the_same_name() -> None:
    names = [(block.page, block.name) for block in EXAMPLES]
    assert len(set(names)) == len(names)


def test_there_are_examples() -> None:
    assert [block for block in EXAMPLES if block.page == "docs/actors.md"]
