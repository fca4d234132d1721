"""Flags that several commands share. What they lead to is in `settings.py`: parsing them imports nothing else of Aar.

Annotations are values here and not text, as in `cli/commands.py`: cyclopts would evaluate each of them several times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

__all__ = [
    "Flags",
    "LogFlags",
    "LogLevel",
    "McpFile",
    "PromptFlags",
    "SettingFlags",
    "whole",
]


class LogLevel(Enum):
    """In upper or lower case."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def whole(type_: Any, tokens: Sequence[Any]) -> int:
    """A whole number; 1.5 is none, and is not rounded."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"it needs a whole number, and {tokens[0].value!r} is none.") from None


McpFile = Annotated[
    Path | None,
    Parameter(
        name="--mcp",
        alias="--mcp-config",
        metavar="FILE",
        help="MCP servers to use, instead of those in ~/.aar/mcp_servers.json.",
    ),
]


@Parameter(name="*")
@dataclass
class LogFlags:
    """Flags of every command that reads settings; `None` leaves something to the environment and the config file."""

    config: Annotated[
        Path | None, Parameter(metavar="FILE", help="Config file to read instead of ~/.aar/config.json.")
    ] = None
    log_level: Annotated[LogLevel | None, Parameter(metavar="LEVEL", help="Least level that is logged.")] = None
    log_file: Annotated[str | None, Parameter(metavar="FILE", help="Append the log to this file, too.")] = None

    def settings(self) -> dict[str, Any]:
        """By the names that `merge_config` knows."""
        return {"log_level": self.log_level and self.log_level.value, "log_file": self.log_file}


@dataclass
class PromptFlags(LogFlags):
    """What the system prompt depends on besides."""

    model: Annotated[str | None, Parameter(alias="-m", metavar="NAME", help="Model to use.")] = None
    provider: Annotated[
        str | None,
        Parameter(alias="-p", metavar="NAME", help="A key of `providers` in the config file, or a provider's name."),
    ] = None
    read_only: Annotated[bool | None, Parameter(help="Forbid every tool that changes something.")] = None
    require_approval: Annotated[bool | None, Parameter(help="Ask before tools write or run commands.")] = None
    yes: Annotated[
        bool,
        Parameter(alias="-y", negative="", help="Answer every question with yes, like --no-require-approval."),
    ] = False
    agent: Annotated[str | None, Parameter(metavar="NAME", help="Agent to work as, from ~/.aar/agents.")] = None
    mode: Annotated[str | None, Parameter(metavar="NAME", help="Mode to begin in, from ~/.aar/modes.")] = None
    override: Annotated[
        tuple[str, ...],
        Parameter(metavar="SETTING=VALUE", negative="", help="Set this whatever agent and mode say; repeatable."),
    ] = ()
    set: Annotated[
        tuple[str, ...],
        Parameter(metavar="NAME=TEXT", negative="", help="A name for templates of agents: vars.NAME; repeatable."),
    ] = ()
    homes: Annotated[
        str | None,
        Parameter(metavar="DIRS", help="More folders with agents and modes, with commas between; the last one wins."),
    ] = None

    @property
    def says_yes(self) -> bool:
        """Whether every question is answered beforehand. What is denied stays denied."""
        return self.yes or self.require_approval is False

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "model": self.model,
            "provider": self.provider,
            "read_only": self.read_only,
            "require_approval": False if self.yes else self.require_approval,
            "agent": self.agent,
            "mode": self.mode,
            **self.overrides(),
        }

    def overrides(self) -> dict[str, Any]:
        """What `--override` says, by paths of settings. Raises `ConfigError`."""
        if not self.override:
            return {}
        from aar.config.overrides import overrides_of

        return overrides_of(self.override)


@dataclass
class SettingFlags(PromptFlags):
    """Every flag that stands for a setting."""

    base_url: Annotated[str | None, Parameter(metavar="URL", help="Address of the provider's API.")] = None
    api_key: Annotated[
        str | None, Parameter(metavar="KEY", help="Key for the provider; others on this machine may see it.")
    ] = None
    max_steps: Annotated[
        int | None, Parameter(metavar="N", converter=whole, help="Model calls in one turn at most.")
    ] = None
    restrict_to_cwd: Annotated[bool | None, Parameter(help="Keep tools inside this folder.")] = None
    denied_paths: Annotated[
        str | None, Parameter(metavar="PATTERNS", help="Deny these, too: patterns with commas between.")
    ] = None
    allowed_paths: Annotated[
        str | None, Parameter(metavar="PATTERNS", help="Allow only these; wins over --restrict-to-cwd.")
    ] = None

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "base_url": self.base_url,
            "api_key": self.api_key,
            "max_steps": self.max_steps,
            "restrict_to_cwd": self.restrict_to_cwd,
            "denied_paths": _patterns(self.denied_paths),
            "allowed_paths": _patterns(self.allowed_paths),
            **self.overrides(),
        }


@dataclass
class Flags(SettingFlags):
    """All flags of a command that works with a session."""

    session: Annotated[str | None, Parameter(alias="-s", metavar="ID", help="Go on with the session of this id.")] = (
        None
    )
    resume: Annotated[
        bool,
        Parameter(name="--continue", alias="-c", negative="", help="Go on with the newest session of this folder."),
    ] = False
    mcp: McpFile = None
    verbose: Annotated[bool, Parameter(alias="-v", negative="", help="Show effects and times of tools.")] = False


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
