"""`/model` without a name: which model is in use, and which ones there are."""

from __future__ import annotations

from aar.messages.settings import AgentConfig

__all__ = ["model_listing"]


def model_listing(config: AgentConfig) -> str:
    """The active model and the profiles of the settings, the active one marked `*`."""
    active = config.resolve_provider()
    lines = [f"Active: {active.label}"]
    for key, profile in config.providers.items():
        lines.append(f"  {'*' if profile == active else ' '} {key}  {profile.label}")
    if not config.providers:
        lines.append("  No profiles: name some under `providers` in the config file to switch between them.")
    return "\n".join([*lines, ""])
