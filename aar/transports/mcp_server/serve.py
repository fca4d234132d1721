"""`aar mcp`: Aar's sessions as tools of other agents, over standard input and output or over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from aar.errors import TransportError
from aar.transports.http.access import Access
from aar.transports.http.bodies import MOST_BODY, Measured
from aar.transports.http.flags import access_of, host_of, port_of
from aar.transports.http.guarding import Guarded
from aar.transports.http.listening import listening_sockets
from aar.transports.http.serving import load_server, serving
from aar.transports.mcp_server.wires import serve_stdio
from aar.transports.program.exits import run_to_code
from aar.transports.program.flags import SettingFlags
from aar.transports.program.listen_flags import HttpFlags
from aar.transports.program.screen import Screen
from aar.transports.program.stopping import Stop, open_stop
from aar.transports.runs.host import DESCRIPTION, Host
from aar.transports.runs.opening import code_of, host_for, setup_of

__all__ = ["serve_mcp"]

PATH = "/mcp"
PORT = 8000

_SENT = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id")


def serve_mcp(*, http: HttpFlags, flags: SettingFlags) -> int:
    """Serve until the client leaves, or a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve, http, flags))


async def _serve(http: HttpFlags, flags: SettingFlags) -> int:
    access, port = access_of(http), port_of(http, PORT)
    async with open_stop() as stop, trio.open_nursery() as nursery:
        setup = await stop.before(partial(setup_of, flags, http.mcp, Screen(), access.token))
        await stop.before(_load)
        host = host_for(setup, says_yes=flags.says_yes)
        await nursery.start(host.run)
        nursery.start_soon(stop.by_event, host.gone)
        try:
            server = _server(host, http)
            if http.http:
                await _listen(server, host, access, host_of(http), port, stop)
            else:
                await _talk(server, stop)
            is_broken = host.gone.is_set()
        finally:
            with trio.CancelScope(shield=True):  # bounded by the runtime's own grace
                await host.close_runs()
                await host.stop()
        nursery.cancel_scope.cancel()
    return code_of(is_broken=is_broken)


async def _load() -> None:
    """In a thread: a signal need not wait for what is heavy. Raises `TransportError` when a package is missing."""

    def load() -> None:

        import aar.transports.mcp_server.offered  # noqa: F401

    try:
        await trio.to_thread.run_sync(load, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
    except ImportError as error:
        raise TransportError("`aar mcp` needs packages that are not there: pip install 'aar-agent[mcp,web]'") from error


def _server(host: Host, http: HttpFlags) -> Any:
    from aar.transports.mcp_server.offered import build_server

    return build_server(host, http.name or "aar", http.description or DESCRIPTION)


async def _talk(server: Any, stop: Stop) -> None:
    async with trio.open_nursery() as nursery:

        async def end_when_asked() -> None:
            await stop.asked.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end_when_asked)
        await serve_stdio(server)
        nursery.cancel_scope.cancel()


async def _listen(server: Any, host: Host, access: Access, name: str, port: int, stop: Stop) -> None:
    from mcp.server.transport_security import TransportSecuritySettings

    # Hosts and origins are checked by `access`, for everything that comes in.
    settings = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=settings, max_request_body_size=MOST_BODY
    )
    app = Guarded(Measured(inner), access, methods="GET, POST, DELETE, OPTIONS", sent=_SENT, read=["mcp-session-id"])
    await stop.before(load_server)
    sockets = await stop.before(partial(listening_sockets, name, port))
    async with serving(app, sockets, host.close_runs) as addresses:
        listed = " and ".join(f"{address}{PATH}" for address in addresses)
        await Screen().tell(f"Aar listens on {listed} for MCP clients. Ctrl+C ends it.\n")
        await stop.asked.wait()
