"""The folder of everything a user owns."""

from __future__ import annotations

from pathlib import Path

from aar.config import aar_home
from aar.errors import ConfigError

__all__ = ["home_folder"]


def home_folder() -> Path:
    """`$AAR_HOME`, else `~/.aar`; it need not exist. Raises `ConfigError` when something else has its place."""
    home = aar_home()
    try:
        is_taken = home.exists() and not home.is_dir()
    except OSError:  # not even to be looked at: whoever uses it says so
        is_taken = False
    if is_taken:
        raise ConfigError(f"{home} is no folder: move it away, or set AAR_HOME to another one.")
    return home
