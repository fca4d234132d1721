"""A model for somebody who named none: what is there already, and one that needs no account."""

from __future__ import annotations

from aar.local.finding import DEFAULT_SERVERS, Found, find_model
from aar.local.installing import InstalledModel, install_model, installed_models
from aar.local.words import SMALL_MODEL_REMARK, model_remark, three_ways

__all__ = [
    "DEFAULT_SERVERS",
    "SMALL_MODEL_REMARK",
    "Found",
    "InstalledModel",
    "find_model",
    "install_model",
    "installed_models",
    "model_remark",
    "three_ways",
]
