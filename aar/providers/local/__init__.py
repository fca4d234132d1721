"""A model in this machine: llama.cpp's server as a child process, spoken to like any other OpenAI-style server."""

from __future__ import annotations

from aar.providers.local.model_files import DEFAULT_FILE, DEFAULT_MODEL, model_file, models_folder
from aar.providers.local.provider import LocalProvider

__all__ = ["DEFAULT_FILE", "DEFAULT_MODEL", "LocalProvider", "model_file", "models_folder"]
