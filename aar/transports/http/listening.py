"""The ports that the API is served on, bound by us: so that what cannot be used is told in one sentence."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress

import trio

from aar.errors import ConfigError, TransportError

__all__ = ["Peer", "connections_at", "cut_connections", "listening_sockets", "raise_file_limit"]

Peer = tuple[str, int]  # address and port of a client

BACKLOG = 128
SILENCE = 60_000  # milliseconds in which a client that reads nothing of what it is sent is given up
PROBED_AFTER = 30  # seconds without a byte, and then it is asked whether its machine is still there
MOST_FILES = 8192  # that this process may have open, if its user may: hundreds of runs, each with a few
PROBES = 3  # that may stay without an answer, ten seconds each

_NO_SUCH_PLACE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of `host`, all with the same port; a port of 0 stands for any that is free.

    Raises `ConfigError` for a host that is none of this machine, `TransportError` for a port that cannot be had.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: there is no host of this name. Use 127.0.0.1, or an address.") from error
    problem: OSError | None = None
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            try:
                sockets.append(stack.enter_context(_bound(family, (address[0], port, *address[2:]))))
            except OSError as error:
                if error.errno not in _NO_SUCH_PLACE:  # such as ::1 where there is no IPv6
                    raise TransportError(_explained(error, host, port)) from error
                problem = error
                continue
            port = sockets[0].getsockname()[1]
        if not sockets:
            raise ConfigError(f"--host {host}: that is no address of this machine.") from problem
        stack.pop_all()
    return sockets


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    with ExitStack() as stack:
        found = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _give_up_those_that_vanish(found)
        found.bind(address)
        found.listen(BACKLOG)
        stack.pop_all()
    return found


def _give_up_those_that_vanish(listener: socket.socket) -> None:
    """A machine that lost its network says no farewell, and its run would go on. Connections inherit all of this."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_USER_TIMEOUT": SILENCE,
        "TCP_KEEPIDLE": PROBED_AFTER,
        "TCP_KEEPINTVL": 10,
        "TCP_KEEPCNT": PROBES,
    }
    for name, value in options.items():
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _explained(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use already: name another one with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} is not for everybody's use: name one above 1023 with --port."
    return f"Port {port} of {host} cannot be used: {error.strerror or error}."


def raise_file_limit() -> None:
    """Have room for many connections. What is allowed by default is little on some systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system with a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_at(port: int) -> set[Peer]:
    """The other ends of all connections of this process that came in on this port."""
    return {peer for peer, _ in _connections(port)}


def cut_connections(port: int, peers: Collection[Peer] | None = None) -> None:
    """End the connections of this process that came in on this port, also those whose other end does not read.

    A server that is writing to such a client cannot be told to stop. Without `peers` all of them.
    """
    for peer, found in _connections(port):
        if peers is None or peer in peers:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)


def _connections(port: int) -> Iterator[tuple[Peer, socket.socket]]:
    for name in os.listdir("/dev/fd"):
        with suppress(OSError), _copy_of(int(name)) as found:
            if found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                host, peer_port = found.getpeername()[:2]  # raises for those that only listen
                yield (host, peer_port), found


def _copy_of(descriptor: int) -> socket.socket:
    """Raises `OSError` for what is no socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
