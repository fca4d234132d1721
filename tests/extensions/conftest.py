"""A user with a folder of extensions, and a project that may bring its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from aar.client import SessionHandle
from aar.config.extensions import ExtensionFolder
from aar.extensions.finding import find_extensions
from aar.extensions.sources import read_source
from aar.extensions.trust import TrustFile
from aar.messages.settings import AgentConfig
from aar.runtime import Runtime
from aar.testing import ScriptedProvider, open_test_runtime


@dataclass(frozen=True)
class World:
    home: Path
    project: Path

    def user(self, name: str, code: str) -> Path:
        """Write a file of the user's extensions: `name` is `x.py` or `x/__init__.py`."""
        return _written(self.home / "extensions" / name, code)

    def of_project(self, name: str, code: str, *, folder: str = ".aar") -> Path:
        return _written(self.project / folder / "extensions" / name, code)

    def trust(self) -> None:
        """Trust every extension of the project as it is now."""
        folder = ExtensionFolder(self.project / ".aar" / "extensions", self.project)
        other = ExtensionFolder(self.project / ".agent" / "extensions", self.project)
        for found in find_extensions(self.home, self.project, folders=[folder, other]):
            if found.project is not None:
                source = read_source(Path(found.path), project=self.project)
                TrustFile(self.home).add(found, source.digest)

    @asynccontextmanager
    async def runtime(
        self, provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **more: Any
    ) -> AsyncIterator[Runtime]:
        async with open_test_runtime(provider, config, home=self.home, extensions=True, **more) as runtime:
            yield runtime

    @asynccontextmanager
    async def session(
        self, provider: ScriptedProvider | None = None, config: AgentConfig | None = None, **more: Any
    ) -> AsyncIterator[SessionHandle]:
        async with self.runtime(provider, config, **more) as runtime:
            yield await runtime.sessions.open(str(self.project))


def _written(path: Path, code: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(code))
    return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return World(home, project)


@pytest.fixture
def notes(tmp_path: Path) -> Callable[[], list[str]]:
    """What extensions have written to the file `notes` beside the project."""

    def read() -> list[str]:
        file = tmp_path / "notes"
        return file.read_text().splitlines() if file.exists() else []

    return read
