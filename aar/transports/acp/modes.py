"""Modes and options of a session: what they mean in settings, and how they are shown. Plain functions over settings.

A mode is a name for three settings. Clients that know options get the same thing there, and the model to choose.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from aar.catalogue import profiles_of
from aar.config.switching import model_patch
from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.transports.acp.casting import NOTHING, Offer
from aar.transports.acp.params import refused

__all__ = [
    "NO_AGENT",
    "current_mode",
    "is_ours",
    "mode_of",
    "mode_patch",
    "model_change",
    "modes_of",
    "option_patch",
    "options_of",
]

_MODES = {
    "auto": ("Auto", "Ask only what the rules for paths and commands demand"),
    "review": ("Review", "Ask before files are written and commands are run"),
    "read-only": ("Read-only", "Change nothing and run nothing"),
}
_SETTINGS: dict[str, dict[str, bool]] = {
    "auto": {"require_approval_for_writes": False, "require_approval_for_execute": False, "read_only": False},
    "review": {"require_approval_for_writes": True, "require_approval_for_execute": True, "read_only": False},
    "read-only": {"require_approval_for_writes": True, "require_approval_for_execute": True, "read_only": True},
}
NO_AGENT = "none"
_NO_PROFILE = " (no profile)"
_SWITCHES = {
    "auto_approve_writes": ("Write without asking", "require_approval_for_writes"),
    "auto_approve_execute": ("Run commands without asking", "require_approval_for_execute"),
    "read_only": ("Read-only", "read_only"),
}


def mode_of(safety: SafetyConfig) -> str:
    """The mode that these settings amount to; any question asked beforehand makes it `review`."""
    if safety.read_only:
        return "read-only"
    asks = safety.require_approval_for_writes or safety.require_approval_for_execute
    return "review" if asks else "auto"


def is_ours(mode: str) -> bool:
    """A mode that comes with Aar; a user's of the same name cannot be chosen by a client."""
    return mode in _MODES


def current_mode(config: AgentConfig) -> str:
    """A mode of the user's that is in force, else the one that the settings amount to."""
    return config.mode if config.mode and config.mode not in _MODES else mode_of(config.safety)


def mode_patch(mode: Any) -> dict[str, Any]:
    """The settings of a mode. Raises `RpcError` for one that there is none of."""
    settings = _SETTINGS.get(mode) if isinstance(mode, str) else None
    if settings is None:
        raise refused(f"Unknown session mode: '{mode}'. There are: {', '.join(_SETTINGS)}.")
    return {"safety": settings}


def modes_of(config: AgentConfig, offer: Offer = NOTHING) -> dict[str, Any]:
    modes = [{"id": key, "name": name, "description": about} for key, name, about in _all_modes(config, offer)]
    return {"currentModeId": current_mode(config), "availableModes": modes}


def _all_modes(config: AgentConfig, offer: Offer) -> list[tuple[str, str, str]]:
    """Ours, then those of the user that have no name of ours; the one in force also when it is hidden."""
    ours = [(key, name, about) for key, (name, about) in _MODES.items()]
    theirs = {name: about for name, about in offer.modes if name not in _MODES}
    theirs.setdefault(current_mode(config), "")
    return ours + [(name, name, about) for name, about in theirs.items() if name not in _MODES]


# --- options ----------------------------------------------------------------------------------


def options_of(
    base: AgentConfig, config: AgentConfig, offer: Offer = NOTHING, *, booleans: bool
) -> list[dict[str, Any]]:
    """All options of a session with these settings; `base` are those it was opened with."""
    options = [_model_option(base, config), _mode_option(config, offer)]
    if offer.agents:
        options.append(_agent_option(config, offer))
    return options + (_switches(config) if booleans else [])


def _model_option(base: AgentConfig, config: AgentConfig) -> dict[str, Any]:
    values = _models(base, config)
    active = config.resolve_provider()
    return {
        "id": "model",
        "name": "Model",
        "description": "Who answers, from the next question to the model on",
        "category": "model",
        "type": "select",
        "currentValue": next(value for value, provider in values.items() if provider == active),
        "options": [{"value": value, "name": _name_of(value, provider)} for value, provider in values.items()],
    }


def _models(base: AgentConfig, config: AgentConfig) -> dict[str, ProviderConfig]:
    """Providers by the values that choose them: the active one when it has no key, that of the files, the profiles."""
    profiles = {profile.key: profile.settings for profile in profiles_of(base) if profile.key}
    values: dict[str, ProviderConfig] = {}
    for provider in (config.resolve_provider(), base.resolve_provider()):
        if provider not in profiles.values():
            values.setdefault(_value_of(provider, profiles), provider)
    return {**values, **profiles}


def _value_of(provider: ProviderConfig, profiles: Container[str]) -> str:
    """What chooses a provider that is no profile; a profile may be called by the name of its model."""
    value = provider.label
    while value in profiles:
        value += _NO_PROFILE
    return value


def _name_of(value: str, provider: ProviderConfig) -> str:
    return value if value.endswith(_NO_PROFILE) else provider.label


def _agent_option(config: AgentConfig, offer: Offer) -> dict[str, Any]:
    known = {
        NO_AGENT: "None",
        **{name: name for name, _ in offer.agents},
        **({config.agent: config.agent} if config.agent else {}),
    }
    return {
        "id": "agent",
        "name": "Agent",
        "description": "Who works: with which model, tools, rules and prompt",
        "type": "select",
        "currentValue": config.agent or NO_AGENT,
        "options": [{"value": value, "name": name} for value, name in known.items()],
    }


def _mode_option(config: AgentConfig, offer: Offer) -> dict[str, Any]:
    return {
        "id": "mode",
        "name": "Mode",
        "description": "What is done without asking",
        "category": "mode",
        "type": "select",
        "currentValue": current_mode(config),
        "options": [
            {"value": key, "name": name, "description": about} for key, name, about in _all_modes(config, offer)
        ],
    }


def _switches(config: AgentConfig) -> list[dict[str, Any]]:
    return [
        {"id": key, "name": name, "type": "boolean", "currentValue": _is_on(config.safety, key)}
        for key, (name, _) in _SWITCHES.items()
    ]


def _is_on(safety: SafetyConfig, switch: str) -> bool:
    mode_is_strict = switch != "read_only" and safety.read_only
    value = bool(getattr(safety, _SWITCHES[switch][1]))
    return value if switch == "read_only" else not value and not mode_is_strict


def option_patch(base: AgentConfig, config: AgentConfig, option: str, value: Any) -> dict[str, Any]:
    """The change of settings for a value of an option. Raises `RpcError`, `InvalidSetting`."""
    if option == "model":
        if not isinstance(value, str) or not value:
            raise refused("The value of 'model' must be a text")
        return model_change(base, config, value)
    if option == "mode":
        return mode_patch(value)
    if option not in _SWITCHES:
        raise refused(f"Unknown config option: '{option}'")
    if not isinstance(value, bool):
        raise refused(f"The value of '{option}' must be true or false")
    return {"safety": {_SWITCHES[option][1]: value if option == "read_only" else not value}}


def model_change(base: AgentConfig, config: AgentConfig, name: str) -> dict[str, Any]:
    """The change that makes this model the active one; see `model_patch`. Raises `InvalidSetting`.

    The model of the files comes back with its key and address, which only the files have.
    """
    if name not in config.providers:
        if name == _value_of(base.resolve_provider(), config.providers):
            return {"provider": None}
        if name == _value_of(config.resolve_provider(), config.providers):
            return {}  # it is the active one already
    return model_patch(config, name)
