"""What all ways in share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.transports.cli.warm import WarmProgram


@pytest.fixture(scope="session")
def warm_program() -> Iterator[WarmProgram]:
    program = WarmProgram()
    yield program
    program.close()
