"""Flags of the commands that serve: how they are reached, and by whom.

Annotations are values here and not text, as in `flags.py`.
"""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from aar.transports.program.flags import McpFile, whole

__all__ = ["HttpFlags", "ListenFlags", "ServeFlags"]


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
        int | None, Parameter(metavar="PORT", converter=whole, help="Port to listen on: 8000 unless given.")
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
        int | None, Parameter(metavar="PORT", converter=whole, help="Port to listen on: 8080 unless given.")
    ] = None
    allow_loosening: Annotated[
        bool, Parameter(negative="", help="Requests may also allow more than these settings do.")
    ] = False
