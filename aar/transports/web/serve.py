"""`aar serve`: the web API on a port of this machine, until Ctrl+C or SIGTERM."""

from __future__ import annotations

import secrets
from functools import partial

from aar.messages.settings import AgentConfig
from aar.transports.http.access import Access
from aar.transports.http.guarding import Application
from aar.transports.program.exits import run_to_code
from aar.transports.program.flags import SettingFlags
from aar.transports.program.listen_flags import ServeFlags
from aar.transports.runs.host import Host
from aar.transports.runs.serving import Api, serve_runs
from aar.transports.web.app import ENDPOINTS, LIVE_ENDPOINTS, build_app
from aar.transports.web.chats import Chats

__all__ = ["serve"]

PORT = 8080


def serve(*, web: ServeFlags, flags: SettingFlags) -> int:
    """Serve until a signal ends it. Answers with the exit code."""

    made = secrets.token_urlsafe(24)
    told = f"#{made}"

    def build(host: Host, access: Access) -> Application:
        nonlocal told
        told = "" if access.token else told
        chats = Chats(host, may_loosen=web.allow_loosening, says_yes=flags.says_yes)
        return build_app(chats, access, key=access.token or made)

    def banner(addresses: list[str], config: AgentConfig) -> str:
        return _banner(addresses, config) + f"In a browser: {addresses[0]}/{told}\n"

    return run_to_code(partial(serve_runs, Api(build, banner, port=PORT, has_page=True), web, flags))


def _banner(addresses: list[str], config: AgentConfig) -> str:
    places = " and ".join(address.partition("//")[2] for address in addresses)
    return (
        f"Starting web server on {places}, model {config.resolve_provider().label}.\n"
        f"Endpoints at {' and '.join(addresses)}: {', '.join((*ENDPOINTS, *LIVE_ENDPOINTS))}.\n"
    )
