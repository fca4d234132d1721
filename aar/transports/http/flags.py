"""What the flags of a server say: where it listens, and whom it lets in."""

from __future__ import annotations

import os

from aar.errors import ConfigError
from aar.transports.http.access import Access, is_loopback
from aar.transports.program.listen_flags import ListenFlags

__all__ = ["access_of", "host_of", "port_of"]

TOKEN_VARIABLE = "AAR_HTTP_TOKEN"
HOST = "127.0.0.1"


def access_of(http: ListenFlags) -> Access:
    """Raises `ConfigError` when others could get in whom nobody asks for a token."""
    token, host = _token(http), host_of(http)
    if not token and not http.without_token and not is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in: set a token ({TOKEN_VARIABLE}, or --token-env NAME), "
            "or say --without-token."
        )
    return Access.of(token, _words(http.allow_origin), [*_words(http.allow_host), host])


def host_of(http: ListenFlags) -> str:
    return http.host or HOST


def port_of(http: ListenFlags, default: int) -> int:
    """0 stands for any that is free. Raises `ConfigError`."""
    port = default if http.port is None else http.port
    if not 0 <= port <= 65_535:
        raise ConfigError(f"--port {port}: ports go from 1 to 65535, and 0 stands for any that is free.")
    return port


def _token(http: ListenFlags) -> str:
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


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]
