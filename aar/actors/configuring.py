"""Changing the settings of a running session: in its journal and memory, never in a file."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from aar.actors.workbench import Workbench
from aar.config import holds_secret
from aar.errors import InvalidSetting
from aar.messages.events import ConfigChanged, Event, ProviderSwitchEvent
from aar.messages.settings import AgentConfig, merge_settings

__all__ = ["apply_patch"]


async def apply_patch(bench: Workbench, patch: dict[str, Any], reason: dict[str, Any] | None = None) -> AgentConfig:
    """Record a change of settings and answer with what is in force. Raises `InvalidSetting`; then nothing changed.

    `reason` is kept with the fact that another model answers from now on.
    """
    if holds_secret(patch):
        raise InvalidSetting(
            "keys are not changed in a running session: put them into a profile of the config file or the environment"
        )
    settings = bench.config
    before = settings.resolve_provider()
    current = bench.journal.session.patch
    if isinstance(patch.get("provider"), dict) and isinstance(current.get("provider"), str):
        patch = {**patch, "provider": {"name": before.name, **patch["provider"]}}
    try:
        after = bench.base.patched(merge_settings(current, patch))
        provider = after.resolve_provider()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidSetting(f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise InvalidSetting(str(error)) from error
    facts: list[Event] = [ConfigChanged(patch=patch)]
    if provider.label != before.label:
        facts.append(
            ProviderSwitchEvent(
                from_provider=before.name,
                from_model=before.model,
                to_provider=provider.name,
                to_model=provider.model,
                data=reason or {},
            )
        )
    await bench.journal.append(*facts)
    if bench.injecting is not None and _is_switch(settings, after):
        await bench.injecting.switched(bench, settings, after)
    return bench.config


def _is_switch(before: AgentConfig, after: AgentConfig) -> bool:
    """Whether somebody else answers now: another agent, mode or model, or the same one with other orders or tools."""
    return _who(before) != _who(after)


def _who(config: AgentConfig) -> tuple[object, ...]:
    return (
        config.resolve_provider(),
        config.agent,
        config.mode,
        config.prompts,
        config.system_prompt,
        config.tools,
    )
