"""Agents and modes: Markdown files of the user, what they say of settings, and the text they add to the prompt.

Nothing of this is imported by a session that has none. Reading needs the packages of the extra `agents`.
"""

from __future__ import annotations

from aar.config.agents.collections import FileKeyed, StringKeyed
from aar.config.agents.entities import Entity, Kind
from aar.config.agents.homes import Home, homes_of
from aar.config.agents.inheritance import Whole, whole
from aar.config.agents.loading import Entities, Library, load
from aar.config.agents.switching import Facts, Switch, switched

__all__ = [
    "Entities",
    "Entity",
    "Facts",
    "FileKeyed",
    "Home",
    "Kind",
    "Library",
    "StringKeyed",
    "Switch",
    "Whole",
    "homes_of",
    "load",
    "switched",
    "whole",
]
