"""`initialize`: what Aar can do, and what the client can. Imports next to nothing: editors wait for this answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from aar._version import __version__
from aar.transports.acp.frames import INVALID_PARAMS, RpcError

__all__ = ["PROTOCOL_VERSION", "ClientCapabilities", "Greeting", "capabilities_of", "initialize_result"]

PROTOCOL_VERSION = 1


class ClientCapabilities(NamedTuple):
    """What this client offers. Whatever it did not mention it does not have."""

    can_read_files: bool = False
    can_write_files: bool = False
    has_terminals: bool = False
    has_booleans: bool = False
    has_notices: bool = False
    shows_output: bool = False  # as a terminal of ours, which is an extension of the protocol


class Greeting(NamedTuple):
    """What was settled before the event loop ran: the client, if it has introduced itself, and what it said then."""

    client: ClientCapabilities | None = None
    received: bytes = b""


def initialize_result(params: dict[str, Any]) -> dict[str, Any]:
    """The answer to `initialize`. A client of another version gets ours and decides. Raises `RpcError`."""
    version = params.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RpcError(INVALID_PARAMS, "protocolVersion must be a whole number")
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "mcpCapabilities": {"http": True, "sse": False},
            "promptCapabilities": {"embeddedContext": True, "image": False, "audio": False},
            "sessionCapabilities": {"list": {}, "close": {}, "fork": {}, "resume": {}, "delete": {}},
        },
        "agentInfo": {"name": "aar", "title": "Aar Agent", "version": __version__},
        "authMethods": [],
    }


def capabilities_of(params: dict[str, Any]) -> ClientCapabilities:
    """What `initialize` says of the client; what makes no sense counts as not said."""
    told = _part(params, "clientCapabilities")
    files, session = _part(told, "fs"), _part(told, "session")
    return ClientCapabilities(
        can_read_files=files.get("readTextFile") is True,
        can_write_files=files.get("writeTextFile") is True,
        has_terminals=told.get("terminal") is True,
        has_booleans=isinstance(_part(session, "configOptions").get("boolean"), dict),
        has_notices=isinstance(session.get("notices"), dict),
        shows_output=_part(told, "_meta").get("terminal_output") is True,
    )


def _part(whole: dict[str, Any], name: str) -> dict[str, Any]:
    found = whole.get(name)
    return found if isinstance(found, dict) else {}
