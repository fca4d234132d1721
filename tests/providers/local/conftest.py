"""Fixtures of the tests of local models."""

from __future__ import annotations

from pathlib import Path

import pytest

from aar.providers.local import DEFAULT_FILE
from tests.providers.local.serving import (
    StandIn,
)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return StandIn(folder)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    models = tmp_path / "home" / "models"
    models.mkdir(parents=True)
    for name in (DEFAULT_FILE, "other.gguf"):
        (models / name).write_bytes(b"GGUF...")
    return tmp_path / "home"
