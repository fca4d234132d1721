"""`aar acp --http`: the API on a port of this machine, until Ctrl+C or SIGTERM."""

from __future__ import annotations

from functools import partial

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig
from aar.transports.acp_http.app import build_app
from aar.transports.http.access import Access
from aar.transports.program.exits import run_to_code
from aar.transports.program.flags import SettingFlags
from aar.transports.program.listen_flags import HttpFlags
from aar.transports.runs.host import DESCRIPTION, Host
from aar.transports.runs.serving import Api, serve_runs

__all__ = ["serve_http"]

PORT = 8000
MODULES = ("quart_trio", "aar.transports.acp_http.stream")


def serve_http(*, http: HttpFlags, flags: SettingFlags) -> int:
    """Serve until a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve_http, http, flags))


async def _serve_http(http: HttpFlags, flags: SettingFlags) -> int:
    name = _name(http)

    def build(host: Host, access: Access) -> object:
        return build_app(host, access, name, http.description or DESCRIPTION)

    def banner(addresses: list[str], config: AgentConfig) -> str:
        label = config.resolve_provider().label
        return f"Aar listens on {' and '.join(addresses)}: agent {name!r}, model {label}.\n"

    return await serve_runs(Api(build, banner, PORT, MODULES), http, flags)


def _name(http: HttpFlags) -> str:
    name = "aar" if http.name is None else http.name
    if not name or "/" in name:
        raise ConfigError(f"--name {name}: a name has at least one character, and no slash.")
    return name
