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
    "HttpFlags",
    "ListenFlags",
    "LogFlags",
    "LogLevel",
    "McpFile",
    "PromptFlags",
    "ServeFlags",
    "SettingFlags",
]


class LogLevel(Enum):
    """In upper or lower case."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _whole(type_: Any, tokens: Sequence[Any]) -> int:
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
        }


@dataclass
class SettingFlags(PromptFlags):
    """Every flag that stands for a setting."""

    base_url: Annotated[str | None, Parameter(metavar="URL", help="Address of the provider's API.")] = None
    api_key: Annotated[
        str | None, Parameter(metavar="KEY", help="Key for the provider; others on this machine may see it.")
    ] = None
    max_steps: Annotated[
        int | None, Parameter(metavar="N", converter=_whole, help="Model calls in one turn at most.")
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


@dataclass
class _NameFlags:
    """What a server over HTTP is asked for, and how it calls itself."""

    http: Annotated[bool, Parameter(negative="", help="Serve programs over HTTP instead.")] = False
    name: Annotated[str | None, Parameter(alias="-n", metavar="NAME", help="Name of the agent: aar unless given.")] = (
        None
    )
    description: Annotated[
        str | None, Parameter(alias="-d", metavar="TEXT", help="What clients are told about the agent.")
    ] = None


@Parameter(name="*")
@dataclass
class ListenFlags:
    """How a server is reached, and by whom. `None`: not given."""

    host: Annotated[
        str | None, Parameter(alias="-h", metavar="HOST", help="Address to listen on: 127.0.0.1 unless given.")
    ] = None
    port: Annotated[
        int | None, Parameter(metavar="PORT", converter=_whole, help="Port to listen on: 8000 unless given.")
    ] = None
    token: Annotated[
        str | None, Parameter(metavar="TOKEN", help="Token that clients need; others on this machine may see it.")
    ] = None
    token_env: Annotated[
        str | None, Parameter(metavar="NAME", help="Variable that holds the token: AAR_HTTP_TOKEN unless given.")
    ] = None
    without_token: Annotated[
        bool, Parameter(negative="", help="Let other machines in without a token: whoever asks can run commands.")
    ] = False
    allow_origin: Annotated[
        str | None, Parameter(metavar="ORIGINS", help="Web pages that may use it: origins with commas between.")
    ] = None
    allow_host: Annotated[
        str | None, Parameter(metavar="NAMES", help="More names that this machine is called by, with commas between.")
    ] = None
    mcp: McpFile = None


@Parameter(name="*")
@dataclass
class HttpFlags(ListenFlags, _NameFlags):
    """Those of a command that serves over HTTP only when it is asked to."""

    def given(self) -> list[str]:
        """The flags that were given, without `--http` itself and what holds without it, too."""
        return [
            f"--{name.replace('_', '-')}"
            for name, value in vars(self).items()
            if name not in ("http", "mcp") and value not in (None, False)
        ]


@Parameter(name="*")
@dataclass
class ServeFlags(ListenFlags):
    """Those of `aar serve`."""

    port: Annotated[
        int | None, Parameter(metavar="PORT", converter=_whole, help="Port to listen on: 8080 unless given.")
    ] = None
    allow_loosening: Annotated[
        bool, Parameter(negative="", help="Requests may also allow more than these settings do.")
    ] = False


def _patterns(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
