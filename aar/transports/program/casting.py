"""From flags and settings that name an agent or a mode to the settings in force."""

from __future__ import annotations

from pathlib import Path

from aar.config import Loaded
from aar.config.merge import all_origins
from aar.config.overrides import variables_of
from aar.messages.settings import BUILTIN_TOOLS, AgentConfig
from aar.roles import NOBODY, Places, Roles, resolve
from aar.transports.program.flags import LogFlags, PromptFlags
from aar.transports.program.home import home_folder

__all__ = ["CLEAN", "cast", "places_of", "roles_of"]

CLEAN = {"agent": "", "mode": ""}


def cast(loaded: Loaded, flags: LogFlags, cwd: str) -> Loaded:
    """The settings with the agent and mode that they name, and where each came from. Blocking. Raises `ConfigError`."""
    plain = loaded.config.model_copy(update=CLEAN)
    agent, mode = (_meant(name) for name in (loaded.config.agent, loaded.config.mode))
    if not agent and not mode:
        return loaded._replace(config=plain)
    names = [name for name in BUILTIN_TOOLS if name in plain.tools.enabled_builtins]
    switch = resolve(plain, places_of(loaded, flags, cwd), agent, mode or None, names)
    config = switch.config.model_copy(update={"provider": switch.config.resolve_provider()})
    said = {path: place if place == "--override" else f"file {place}" for path, place in switch.origins.items()}
    if "provider.model" in said:  # whose it is was chosen with it
        said.setdefault("provider.name", said["provider.model"])
    warnings = (*loaded.warnings, *switch.remarks, *_outvoted(loaded, plain, config))
    return Loaded(config, all_origins(config, {**loaded.origins, **said}), warnings, plain)


def _meant(name: str) -> str:
    return "" if name.casefold() == NOBODY else name


def _outvoted(loaded: Loaded, plain: AgentConfig, config: AgentConfig) -> list[str]:
    """A flag that an agent goes over is said: it is not what somebody expects who typed it."""
    before, after = plain.resolve_provider(), config.resolve_provider()
    if loaded.origins.get("provider.model") != "flag" or before.label == after.label:
        return []
    return [
        f"{after.label} is used and not {before.label}, for the agent says so: "
        f"--override provider.model={before.model} goes over it."
    ]


def places_of(loaded: Loaded, flags: LogFlags, cwd: str) -> Places:
    """Where agents and modes are, and what these flags say of them. Raises `ConfigError`."""
    fixed = {path for path, origin in loaded.origins.items() if origin == "flag"}
    if not isinstance(flags, PromptFlags):
        return Places(home_folder(), cwd, fixed=fixed)
    more = [Path(name.strip()) for name in (flags.homes or "").split(",") if name.strip()]
    return Places(home_folder(), cwd, more, flags.overrides(), variables_of(flags.set), fixed)


def roles_of(loaded: Loaded, config: AgentConfig, flags: LogFlags, cwd: str) -> Roles:
    """Those of a session that is opened with `roles.plain`. `config` is what is in force, its model found."""
    plain = loaded.plain
    if plain is None:
        plain = config.model_copy(update=CLEAN)
    else:
        changes: dict[str, object] = {"streaming": config.streaming}
        if loaded.config.provider == plain.provider:
            changes["provider"] = config.provider
        plain = plain.model_copy(update=changes)
    return Roles(plain, places_of(loaded, flags, cwd))
