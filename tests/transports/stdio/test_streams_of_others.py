"""Standard input and output that somebody else may have made what they are."""

from __future__ import annotations

import os
import pty
import socket
import tty
from contextlib import suppress

import pytest
import trio
import trio.testing

from aar.errors import ClientGone
from aar.transports.stdio.streams import Outlet, read_some


def a_pipe():
    return os.pipe()


def a_socket():
    ours, theirs = socket.socketpair()
    return theirs.detach(), ours.detach()


@pytest.mark.parametrize("ends", [a_pipe, a_socket])
async def test_much_is_written_to_a_slow_reader_without_holding_anything_up(nursery, ends):
    read, write = ends()
    data = os.urandom(300_000) * 4
    outlet = Outlet(write)
    got = bytearray()

    async def collect() -> None:
        while len(got) < len(data):
            got.extend(await read_some(read))

    try:
        nursery.start_soon(outlet.write, data)
        await trio.testing.wait_all_tasks_blocked()
        assert os.get_blocking(write)
        await collect()
        assert bytes(got) == data
    finally:
        outlet.close()
        os.close(read)
        os.close(write)


def a_terminal():
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    return ours, theirs


@pytest.mark.parametrize("ends", [a_pipe, a_socket, a_terminal])
async def test_a_stream_that_somebody_made_non_blocking_is_waited_for(nursery, ends):
    """Whoever shares it may have done so, and may write to it, too."""
    read, write = ends()
    os.set_blocking(write, False)
    outlet = Outlet(write)
    data, got = os.urandom(100_000), bytearray()
    try:
        with suppress(BlockingIOError):
            while True:
                os.write(write, b"of somebody else ")
        nursery.start_soon(outlet.write, data)
        await trio.testing.wait_all_tasks_blocked(0.05)
        while not got.endswith(data):
            got.extend(await read_some(read))
    finally:
        outlet.close()
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("ends", [a_pipe, a_socket])
async def test_a_reader_that_is_gone_is_noticed(ends):
    read, write = ends()
    os.close(read)
    outlet = Outlet(write)
    try:
        with pytest.raises(ClientGone):
            await outlet.write(b"x" * 100_000)
    finally:
        outlet.close()
        os.close(write)


async def test_files_can_stand_in_for_both_streams(tmp_path):
    (tmp_path / "in").write_bytes(b"hello")
    read = os.open(tmp_path / "in", os.O_RDONLY)
    write = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    try:
        await Outlet(write).write(await read_some(read))
        assert await read_some(read) == b""
        assert (tmp_path / "out").read_bytes() == b"hello"
    finally:
        os.close(read)
        os.close(write)
