"""From flags to the settings in force, and where a session of this process works."""

from __future__ import annotations

import os

from aar.config import Loaded, merge_config, secret_values
from aar.errors import ConfigError
from aar.logs import configure_logging
from aar.transports.program.exits import complain
from aar.transports.program.flags import LogFlags
from aar.transports.program.home import home_folder

__all__ = ["here", "loaded_settings"]


def loaded_settings(flags: LogFlags) -> Loaded:
    """Settings from these flags, the environment and the file; logging is on when this returns.

    Raises `ConfigError`. Warnings about the file go to standard error.
    """
    home_folder()
    loaded = merge_config(file=flags.config, flags=flags.settings())
    if loaded.config.agent or loaded.config.mode:
        from aar.transports.program.casting import cast  # most users have neither

        loaded = cast(loaded, flags, here())
    config = loaded.config
    configure_logging(config.log_level, config.log_file, secrets=secret_values(config))
    for warning in loaded.warnings:
        complain(warning)
    return loaded


def here() -> str:
    """The folder that a new session works in: this one, with links resolved."""
    try:
        return os.path.realpath(os.getcwd())
    except FileNotFoundError as error:
        raise ConfigError("This folder does not exist any more: change to another one.") from error
