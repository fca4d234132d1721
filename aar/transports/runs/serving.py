"""A command that serves runs over HTTP, from its flags to its exit code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import trio

from aar.messages.settings import AgentConfig
from aar.transports.http.access import Access
from aar.transports.http.flags import access_of, host_of, port_of
from aar.transports.http.listening import listening_sockets
from aar.transports.http.serving import load_server, serving
from aar.transports.program.flags import SettingFlags
from aar.transports.program.listen_flags import ListenFlags
from aar.transports.program.screen import Screen
from aar.transports.program.stopping import open_stop
from aar.transports.runs.host import Host
from aar.transports.runs.opening import code_of, host_for, setup_of

__all__ = ["Api", "serve_runs"]


class Api(NamedTuple):
    """What is served: `build` makes the application, after its `modules` have been imported.

    `banner` says that it is there, from its addresses and the settings.
    """

    build: Callable[[Host, Access], Any]
    banner: Callable[[list[str], AgentConfig], str]
    port: int
    modules: tuple[str, ...] = ()
    has_page: bool = False  # on which people answer questions


async def serve_runs(api: Api, listen: ListenFlags, flags: SettingFlags) -> int:
    """Serve until a signal ends it. Answers with the exit code."""
    access, port = access_of(listen), port_of(listen, api.port)
    screen = Screen()
    async with open_stop() as stop, trio.open_nursery() as nursery:
        setup = await stop.before(partial(setup_of, flags, listen.mcp, screen, access.token))
        await stop.before(partial(load_server, *api.modules))
        host = host_for(setup, says_yes=flags.says_yes)
        app = api.build(host, access)
        sockets = await stop.before(partial(listening_sockets, host_of(listen), port))
        async with serving(app, sockets, host.close_runs) as addresses:
            await screen.tell(api.banner(addresses, setup.config) + _answers(flags, api))
            nursery.start_soon(stop.by_event, host.gone)
            await stop.asked.wait()
            is_broken = host.gone.is_set()
        nursery.cancel_scope.cancel()
    return code_of(is_broken=is_broken)


def _answers(flags: SettingFlags, api: Api) -> str:
    nobody = "unless somebody has the session open in a browser" if api.has_page else "since nobody is there to ask"
    answer = "yes" if flags.says_yes else f"no, {nobody} (--yes allows everything)"
    return f"Questions before a tool runs are answered with {answer}. Ctrl+C ends it.\n"
