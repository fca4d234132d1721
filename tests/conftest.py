"""Shared by all tests: `pytest --covered` lists the checklist rows that have a passing test."""

from __future__ import annotations

from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--covered", action="store_true", help="list the checklist rows with a passing test")


_passed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        for marker in item.iter_markers("covers"):
            _passed.update(marker.args)
    return report


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
