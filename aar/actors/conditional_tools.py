"""Tools that are there only while a condition holds."""

from __future__ import annotations

import logging

from aar.actors.session_facts import facts_of
from aar.conditions import parse_condition
from aar.errors import ConfigError, InvalidSetting
from aar.journal.state import Session
from aar.messages.settings import AgentConfig

__all__ = ["absent_tools", "check_definitions"]

logger = logging.getLogger(__name__)


def absent_tools(session: Session, config: AgentConfig) -> frozenset[str]:
    """Those whose condition does not hold now. One that cannot be understood or asked does not hold."""
    told = {name: entry["condition"] for name, entry in config.tools.definitions.items() if "condition" in entry}
    if not told:
        return frozenset()
    facts = facts_of(session, config)
    absent = set()
    for name, text in told.items():
        try:
            holds = parse_condition(text).holds_now(facts)
        except InvalidSetting as error:
            logger.warning("tools.definitions.%s.condition: %s", name, error)
            holds = False
        if not holds:
            absent.add(name)
    return frozenset(absent)


def check_definitions(config: AgentConfig) -> None:
    """Raises `ConfigError` for a condition of a tool that cannot be understood, or that looks outside the session."""
    for name, entry in config.tools.definitions.items():
        if "condition" not in entry:
            continue
        where = f"tools.definitions.{name}.condition"
        try:
            outside = parse_condition(entry["condition"]).looks_outside
        except InvalidSetting as error:
            raise ConfigError(f"{where}: {error}") from error
        if outside:
            raise ConfigError(f"{where}: `{min(outside)}:` cannot be asked here, only what the session itself knows.")
