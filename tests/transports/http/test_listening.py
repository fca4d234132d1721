"""Ports that are listened on."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from aar.errors import TransportError
from aar.transports.http.listening import listening_sockets


async def test_connections_notice_when_the_machine_at_the_other_end_is_gone() -> None:
    [listener] = await listening_sockets("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        here, _ = listener.accept()
        with here:
            assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            wanted = {"TCP_USER_TIMEOUT": 60_000, "TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
            known = {name: value for name, value in wanted.items() if hasattr(socket, name)}  # fewer beside Linux
            assert {name: here.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in known} == known


async def test_two_servers_cannot_have_the_same_port() -> None:
    [first] = await listening_sockets("127.0.0.1", 0)
    with first, pytest.raises(TransportError, match="is in use already"):
        await listening_sockets("127.0.0.1", first.getsockname()[1])


def test_there_is_room_for_many_connections_if_the_user_may_have_it() -> None:
    program = (
        "import resource; from aar.transports.http.listening import raise_file_limit\n"
        "for soft, hard in ((256, 2048), (100, 300), (128, 128)):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)); raise_file_limit()\n"
        "    print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["2048 2048", "300 300", "128 128"]
