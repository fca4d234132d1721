"""`aar acp --http`: the API on a port of this machine, until Ctrl+C or SIGTERM."""

from __future__ import annotations

from functools import partial

import trio

from aar.errors import ConfigError
from aar.messages.settings import AgentConfig
from aar.transports.acp_http.app import build_app
from aar.transports.http.flags import access_of, host_of, port_of
from aar.transports.http.listening import listening_sockets
from aar.transports.http.serving import load_server, serving
from aar.transports.program.exits import run_to_code
from aar.transports.program.flags import HttpFlags, SettingFlags
from aar.transports.program.screen import Screen
from aar.transports.program.stopping import open_stop
from aar.transports.runs.host import DESCRIPTION
from aar.transports.runs.opening import code_of, host_for, setup_of

__all__ = ["serve_http"]


def serve_http(*, http: HttpFlags, flags: SettingFlags) -> int:
    """Serve until a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve_http, http, flags))


async def _serve_http(http: HttpFlags, flags: SettingFlags) -> int:
    access, name, port = access_of(http), _name(http), port_of(http)
    screen = Screen()
    async with open_stop() as stop, trio.open_nursery() as nursery:
        setup = await stop.before(partial(setup_of, flags, http.mcp, screen, access.token))
        await stop.before(partial(load_server, "quart_trio", "aar.transports.acp_http.stream"))
        host = host_for(setup, says_yes=flags.says_yes)
        app = build_app(host, access, name, http.description or DESCRIPTION)
        sockets = await stop.before(partial(listening_sockets, host_of(http), port))
        async with serving(app, sockets, host.close_runs) as addresses:
            await screen.tell(_banner(addresses, name, setup.config, says_yes=flags.says_yes))
            nursery.start_soon(stop.by_event, host.gone)
            await stop.asked.wait()
            is_broken = host.gone.is_set()
        nursery.cancel_scope.cancel()
    return code_of(is_broken=is_broken)


def _name(http: HttpFlags) -> str:
    name = "aar" if http.name is None else http.name
    if not name or "/" in name:
        raise ConfigError(f"--name {name}: a name has at least one character, and no slash.")
    return name


def _banner(addresses: list[str], name: str, config: AgentConfig, *, says_yes: bool) -> str:
    answer = "yes" if says_yes else "no, since nobody is there to ask (--yes allows everything)"
    return (
        f"Aar listens on {' and '.join(addresses)}: agent {name!r}, model {config.resolve_provider().label}.\n"
        f"Questions before a tool runs are answered with {answer}. Ctrl+C ends it.\n"
    )
