"""Tests with the real small model: collected only where `aar local install` and the extra `local` were used."""

from __future__ import annotations

from importlib.util import find_spec

from aar.providers.local import DEFAULT_FILE, models_folder

is_there = (models_folder() / DEFAULT_FILE).is_file() and find_spec("xllamacpp") is not None
collect_ignore_glob = [] if is_there else ["test_*.py"]
