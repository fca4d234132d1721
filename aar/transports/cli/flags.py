"""Flags that several commands share, and the settings that they lead to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from aar.config import Loaded, merge_config, secret_values
from aar.logs import configure_logging
from aar.transports.cli.exits import complain

__all__ = ["LogFlags", "ModelFlags", "SafetyFlags", "SessionFlags", "WorkFlags", "loaded_settings"]

_NO_NEGATIVE = ""


@Parameter(name="*")
@dataclass(frozen=True)
class ModelFlags:
    model: Annotated[str | None, Parameter(alias="-m", help="Model to use.")] = None
    provider: Annotated[
        str | None, Parameter(alias="-p", help="A key of `providers` in the config file, or a provider's name.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class LogFlags:
    config: Annotated[Path | None, Parameter(help="Config file to read instead of config.json in ~/.aar.")] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, Parameter(help="Least level that is logged.")
    ] = None
    log_file: Annotated[str | None, Parameter(help="File to append the log to as well.")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class SafetyFlags:
    read_only: Annotated[bool | None, Parameter(help="Forbid every tool that changes something.")] = None
    require_approval: Annotated[bool | None, Parameter(help="Ask before tools write or run commands.")] = None
    yes: Annotated[
        bool,
        Parameter(
            alias="-y",
            negative=_NO_NEGATIVE,
            show_default=False,
            help="Answer every question with yes, like --no-require-approval.",
        ),
    ] = False
    restrict_to_cwd: Annotated[bool | None, Parameter(help="Keep tools inside this folder.")] = None
    denied_paths: Annotated[str | None, Parameter(help="Patterns to deny besides the usual ones, by commas.")] = None
    allowed_paths: Annotated[
        str | None, Parameter(help="Patterns to allow, by commas; wins over --restrict-to-cwd.")
    ] = None

    @property
    def says_yes(self) -> bool:
        """Whether every question is answered beforehand. What is denied stays denied."""
        return self.yes or self.require_approval is False

    def settings(self) -> dict[str, Any]:
        return {
            "read_only": self.read_only,
            "require_approval": False if self.yes else self.require_approval,
            "restrict_to_cwd": self.restrict_to_cwd,
            "denied_paths": _patterns(self.denied_paths),
            "allowed_paths": _patterns(self.allowed_paths),
        }


@Parameter(name="*")
@dataclass(frozen=True)
class WorkFlags:
    base_url: Annotated[str | None, Parameter(help="Address of the provider's API.")] = None
    api_key: Annotated[str | None, Parameter(help="Key for the provider; others on this machine may see it.")] = None
    max_steps: Annotated[int | None, Parameter(help="Model calls in one turn at most.")] = None
    verbose: Annotated[
        bool, Parameter(alias="-v", negative=_NO_NEGATIVE, show_default=False, help="Show effects and times of tools.")
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class SessionFlags:
    session: Annotated[str | None, Parameter(alias="-s", help="Go on with the session of this id.")] = None
    resume: Annotated[
        bool,
        Parameter(
            name="--continue",
            alias="-c",
            negative=_NO_NEGATIVE,
            show_default=False,
            help="Go on with the newest session of this folder.",
        ),
    ] = False


AnyFlags = ModelFlags | LogFlags | SafetyFlags | WorkFlags


def loaded_settings(*groups: AnyFlags) -> Loaded:
    """Settings from these flags, the environment and the file; logging is on when this returns.

    Raises `ConfigError`. Warnings about the file go to standard error.
    """
    flags: dict[str, Any] = {}
    file: Path | None = None
    for group in groups:
        if isinstance(group, SafetyFlags):
            flags.update(group.settings())
        else:
            flags.update({field.name: getattr(group, field.name) for field in fields(group)})
    file = flags.pop("config", None)
    flags.pop("verbose", None)
    loaded = merge_config(file=file, flags=flags)
    config = loaded.config
    configure_logging(config.log_level, config.log_file, secrets=secret_values(config))
    for warning in loaded.warnings:
        complain(warning)
    return loaded


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
