"""`aar acp --http`: the API on a port of this machine, until Ctrl+C or SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from aar.agent import ApprovalResult
from aar.config import secret_values
from aar.errors import ConfigError
from aar.logs import configure_logging
from aar.messages.settings import AgentConfig
from aar.runtime import check_provider, session_store
from aar.transports.acp_http.access import Access, is_loopback
from aar.transports.acp_http.app import DESCRIPTION, build_app
from aar.transports.acp_http.host import Host, Setup
from aar.transports.acp_http.listening import cut_connections, listening_sockets
from aar.transports.cli.exits import DONE, FAILED, complain, run_to_code
from aar.transports.cli.finding import with_model
from aar.transports.cli.flags import HttpFlags, SettingFlags
from aar.transports.cli.home import home_folder
from aar.transports.cli.opening import here, loaded_settings, watched
from aar.transports.cli.screen import Screen
from aar.transports.cli.servers import named_servers

__all__ = [
    "HOST",
    "access_of",
    "always_yes",
    "port_of",
    "serve_http",
    "serving",
    "set_when_gone",
    "setup_of",
    "watch_signals",
]

TOKEN_VARIABLE = "AAR_HTTP_TOKEN"
HOST, PORT = "127.0.0.1", 8000
ANSWERING = 2.0  # seconds for the last answers, once all runs have ended
CUTTING = 1.0  # seconds more, and then connections are cut whose other end does not read

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve_http(*, http: HttpFlags, flags: SettingFlags) -> int:
    """Serve until a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve_http, http, flags))


async def _serve_http(http: HttpFlags, flags: SettingFlags) -> int:
    access, name, port = access_of(http), _name(http), port_of(http)
    screen, stop = Screen(), trio.Event()
    setup = await setup_of(http, flags, screen, access.token)
    host = Host(lambda: setup, approval_callback=always_yes if flags.says_yes else None)
    app = build_app(host, access, name, http.description or DESCRIPTION)
    sockets = await listening_sockets(http.host or HOST, port)
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, stop)
        async with serving(app, host, sockets) as addresses:
            await screen.tell(_banner(addresses, name, setup.config, says_yes=flags.says_yes))
            nursery.start_soon(set_when_gone, host, stop)
            await stop.wait()
            is_broken = host.gone.is_set()
        nursery.cancel_scope.cancel()
    if is_broken:
        complain("A part of Aar stopped working, so the server has ended. What was said until then is kept.")
    return FAILED if is_broken else DONE


# --- what the flags say -----------------------------------------------------------------------


def access_of(http: HttpFlags) -> Access:
    """Raises `ConfigError` when others could get in whom nobody asks for a token."""
    token, host = _token(http), http.host or HOST
    if not token and not http.without_token and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in: set a token ({TOKEN_VARIABLE}, or --token-env NAME), "
            "or say --without-token."
        )
    names = {name.lower() for name in (*_words(http.allow_host), host)}
    origins = {origin.lower().rstrip("/") for origin in _words(http.allow_origin)}
    return Access(token, frozenset(origins), frozenset(names))


def _token(http: HttpFlags) -> str:
    """Taken out of the environment, so that no tool can read it there."""
    if http.token is not None and http.token_env is not None:
        raise ConfigError("--token and --token-env name two tokens: give one of them.")
    token = os.environ.pop(http.token_env or TOKEN_VARIABLE, None)
    if http.token_env is not None and not token:
        raise ConfigError(f"--token-env {http.token_env}: there is nothing in this variable.")
    token = http.token if http.token is not None else token
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise ConfigError("The token must be one word of ASCII characters, such as `openssl rand -hex 32` prints.")
    return token or ""


def _name(http: HttpFlags) -> str:
    name = "aar" if http.name is None else http.name
    if not name or "/" in name:
        raise ConfigError(f"--name {name}: a name has at least one character, and no slash.")
    return name


def port_of(http: HttpFlags) -> int:
    port = PORT if http.port is None else http.port
    if not 0 <= port <= 65_535:
        raise ConfigError(f"--port {port}: ports go from 1 to 65535, and 0 stands for any that is free.")
    return port


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


async def setup_of(http: HttpFlags, flags: SettingFlags, screen: Screen, token: str) -> Setup:
    cwd, home = here(), home_folder()
    config = await with_model(watched(loaded_settings(flags)), screen)
    configure_logging(config.log_level, config.log_file, secrets=[*secret_values(config), token])
    check_provider(config)
    servers = named_servers(http.mcp, home)
    return Setup(config, session_store(config, home=home, cwd=cwd), cwd, home, servers)


def always_yes(*_: Any) -> ApprovalResult:
    return ApprovalResult.APPROVED


def _banner(addresses: list[str], name: str, config: AgentConfig, *, says_yes: bool) -> str:
    answer = "yes" if says_yes else "no, since nobody is there to ask (--yes allows everything)"
    return (
        f"Aar listens on {' and '.join(addresses)}: agent {name!r}, model {config.resolve_provider().label}.\n"
        f"Questions before a tool runs are answered with {answer}. Ctrl+C ends it.\n"
    )


# --- serving ----------------------------------------------------------------------------------


@asynccontextmanager
async def serving(app: Any, host: Host, sockets: list[socket.socket]) -> AsyncIterator[list[str]]:
    """The addresses. When the block is left all runs are ended, their clients get the last answers, and it is over."""
    port, stop, over = sockets[0].getsockname()[1], trio.Event(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
        from hypercorn.trio import serve

        try:
            await serve(app, _server_settings(sockets), shutdown_trigger=stop.wait, task_status=task_status)
        finally:
            over.set()

    async with trio.open_nursery() as nursery:
        addresses = await nursery.start(serve)
        try:
            yield addresses
        finally:
            with trio.CancelScope(shield=True):
                await host.close_runs()
                stop.set()
                with trio.move_on_after(ANSWERING + CUTTING):
                    await over.wait()
                cut_connections(port)


def _server_settings(sockets: list[socket.socket]) -> Any:
    from hypercorn.config import Config

    settings = Config()
    settings.bind = [f"fd://{one.detach()}" for one in sockets]
    settings.errorlog = logging.getLogger("hypercorn.error")
    settings.graceful_timeout = ANSWERING
    settings.include_server_header = False
    return settings


async def watch_signals(stop: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
    """The first one ends everything in order; one more ends it at once: journals and children survive that."""
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()


async def set_when_gone(host: Host, stop: trio.Event) -> None:
    await host.gone.wait()
    stop.set()
