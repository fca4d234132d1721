"""`aar mcp`: Aar's sessions as tools of other agents, over standard input and output or over HTTP."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import trio

from aar.errors import ConfigError
from aar.transports.acp_http.access import Access
from aar.transports.acp_http.app import DESCRIPTION
from aar.transports.acp_http.host import Host
from aar.transports.acp_http.listening import listening_sockets
from aar.transports.acp_http.serve import (
    HOST,
    access_of,
    always_yes,
    port_of,
    serving,
    set_when_gone,
    setup_of,
    watch_signals,
)
from aar.transports.cli.exits import DONE, FAILED, complain, run_to_code
from aar.transports.cli.flags import HttpFlags, SettingFlags
from aar.transports.cli.screen import Screen
from aar.transports.mcp_server.guarding import Guarded
from aar.transports.mcp_server.wires import serve_stdio

__all__ = ["serve_mcp"]

PATH = "/mcp"


def serve_mcp(*, http: HttpFlags, flags: SettingFlags) -> int:
    """Serve until the client leaves, or a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve, http, flags))


async def _serve(http: HttpFlags, flags: SettingFlags) -> int:
    access, port, stop = access_of(http), port_of(http), trio.Event()
    setup = await setup_of(http, flags, Screen(), access.token)
    host = Host(lambda: setup, approval_callback=always_yes if flags.says_yes else None)
    try:
        from aar.transports.mcp_server.offered import build_server

        server = build_server(host, http.name or "aar", http.description or DESCRIPTION)
    except ImportError as error:
        raise ConfigError("`aar mcp` needs packages that are not there: pip install 'aar-agent[mcp,web]'") from error
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, stop)
        await nursery.start(host.run)
        nursery.start_soon(set_when_gone, host, stop)
        try:
            if http.http:
                await _listen(server, host, access, http.host or HOST, port, stop)
            else:
                await _talk(server, stop)
            is_broken = host.gone.is_set()
        finally:
            with trio.CancelScope(shield=True):  # bounded by the runtime's own grace
                await host.close_runs()
                await host.stop()
        nursery.cancel_scope.cancel()
    if is_broken:
        complain("A part of Aar stopped working, so the server has ended. What was said until then is kept.")
    return FAILED if is_broken else DONE


async def _talk(server: Any, stop: trio.Event) -> None:
    async with trio.open_nursery() as nursery:

        async def end_when_asked() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end_when_asked)
        await serve_stdio(server)
        nursery.cancel_scope.cancel()


async def _listen(server: Any, host: Host, access: Access, name: str, port: int, stop: trio.Event) -> None:
    from mcp.server.transport_security import TransportSecuritySettings

    # Hosts and origins are checked by `access`, for everything that comes in.
    settings = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = Guarded(server.streamable_http_app(streamable_http_path=PATH, transport_security=settings), access)
    sockets = await listening_sockets(name, port)
    async with AsyncExitStack() as stack:
        addresses = await stack.enter_async_context(serving(app, host, sockets))
        listed = " and ".join(f"{address}{PATH}" for address in addresses)
        await Screen().tell(f"Aar listens on {listed} for MCP clients. Ctrl+C ends it.\n")
        await stop.wait()
