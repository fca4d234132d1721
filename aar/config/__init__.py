"""Where settings come from: find, merge, explain and hide.

Explicit flags win over API keys from the environment, those over the configuration file, that over the defaults.
Everything a user owns lies below `aar_home()`; no file of a project is read here. What `aar init` writes is in
`starter.py`, which nobody else needs.
"""

from __future__ import annotations

from aar.config.files import aar_home, load_config, user_config_file
from aar.config.masking import holds_secret, masked, secret_values, without_keys
from aar.config.merge import API_KEY_VARIABLES, Loaded, merge_config
from aar.config.unknown import unknown_settings

__all__ = [
    "API_KEY_VARIABLES",
    "Loaded",
    "aar_home",
    "load_config",
    "holds_secret",
    "masked",
    "merge_config",
    "secret_values",
    "unknown_settings",
    "user_config_file",
    "without_keys",
]
