"""Flags that several commands share, and the settings that they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aar.config import Loaded, merge_config, secret_values
from aar.logs import configure_logging
from aar.transports.cli.exits import complain

__all__ = ["Flags", "loaded_settings"]


@dataclass(frozen=True)
class Flags:
    """What was given on the command line; `None` leaves it to the environment and the config file."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    max_steps: int | None = None
    session: str | None = None
    resume: bool = False
    verbose: bool = False
    read_only: bool | None = None
    require_approval: bool | None = None
    yes: bool = False
    restrict_to_cwd: bool | None = None
    denied_paths: str | None = None
    allowed_paths: str | None = None
    config: str | None = None
    log_level: str | None = None
    log_file: str | None = None

    @property
    def says_yes(self) -> bool:
        """Whether every question is answered beforehand. What is denied stays denied."""
        return self.yes or self.require_approval is False

    def settings(self) -> dict[str, Any]:
        """By the names that `merge_config` knows."""
        return {
            "model": self.model,
            "provider": self.provider,
            "base_url": self.base_url,
            "api_key": self.api_key,
            "max_steps": self.max_steps,
            "read_only": self.read_only,
            "require_approval": False if self.yes else self.require_approval,
            "restrict_to_cwd": self.restrict_to_cwd,
            "denied_paths": _patterns(self.denied_paths),
            "allowed_paths": _patterns(self.allowed_paths),
            "log_level": self.log_level,
            "log_file": self.log_file,
        }


def loaded_settings(flags: Flags) -> Loaded:
    """Settings from these flags, the environment and the file; logging is on when this returns.

    Raises `ConfigError`. Warnings about the file go to standard error.
    """
    loaded = merge_config(file=Path(flags.config) if flags.config is not None else None, flags=flags.settings())
    config = loaded.config
    configure_logging(config.log_level, config.log_file, secrets=secret_values(config))
    for warning in loaded.warnings:
        complain(warning)
    return loaded


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
