"""A model server that costs nothing, on loopback, in a process of its own.

The path of the URL says what it answers, and how it ends (`/v1/messages` and so on) in which vendor's format. Without
such an end it is OpenAI's chat format:

    /text            one short text
    /first           the same, and says when the request came
    /tools/100       calls `noop` until the request holds 100 results, then a text
    /turns/100       the same again and again: a turn is 100 calls and a text, however many results the request holds
    /chunks/5000     a stream of so many chunks
    /silent          a stream of one chunk and then nothing, until the client leaves
    /bash/60         calls `bash` with a command that leaves children behind, until 60 results; then a text

It says on its standard output when a request to `/first` came (`request <ns>`) and when a client of `/silent` left
(`closed <ns>`), in nanoseconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import trio

from bench.vendors import CHAT, format_of

__all__ = ["Server", "open_server"]

NOTICE_TIMEOUT = 20.0  # seconds
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n\r\n"
LEAVE_CHILDREN = "(setsid sleep 60 & ); (setsid sh -c 'sleep 60 & sleep 60' & ); echo started; sleep 0.02"


@dataclass
class Server:
    """A running server; `url("/text")` is what to post to."""

    process: subprocess.Popen[bytes]
    port: int

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def wait_for(self, notice: str) -> int:
        """The time of the next such notice, in nanoseconds; blocks. Raises `TimeoutError` when none comes."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], NOTICE_TIMEOUT)[0]:
            kind, _, moment = self.process.stdout.readline().decode().partition(" ")
            if kind == notice:
                return int(moment)
            if not kind:
                raise RuntimeError("the bench server has ended")
        raise TimeoutError(f"no {notice} reached the bench server within {NOTICE_TIMEOUT:g} s")


@contextmanager
def open_server() -> Iterator[Server]:
    """A server for as long as the block lasts. It ends when its standard input does, also if we are killed."""
    command = [sys.executable, "-m", "bench.server"]
    # Without a buffer of our own, so that what is left to read can be waited for.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(process, int(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.terminate()


# --- in the server's process ------------------------------------------------------------------


def _say(kind: str) -> None:
    sys.stdout.write(f"{kind} {time.monotonic_ns()}\n")
    sys.stdout.flush()


class _Answers:
    def __init__(self) -> None:
        self._numbers = count(1)

    def of(self, path: str, body: bytes) -> bytes:
        _, kind, *rest = path.split("/")
        form = format_of(path)
        if kind == "turns":
            number = next(self._numbers)
            answer = form.call(number) if number % (int(rest[0]) + 1) else form.text
        elif kind in ("tools", "bash") and body.count(form.result) < int(rest[0]):
            number = next(self._numbers)
            answer = _bash_call(number) if kind == "bash" else form.call(number)
        else:
            answer = form.text
        return json.dumps(answer).encode()


def _bash_call(number: int) -> dict[str, Any]:
    answer = CHAT.call(number)
    [call] = answer["choices"][0]["message"]["tool_calls"]
    call["function"] = {"name": "bash", "arguments": json.dumps({"command": f"{LEAVE_CHILDREN} # {number}"})}
    return answer


async def _serve(answers: _Answers, stream: trio.SocketStream) -> None:
    rest = b""
    with suppress(EOFError, trio.BrokenResourceError):
        while True:
            head, body, rest = await _request(stream, rest)
            path = head.split(b" ", 2)[1].decode()
            if path.startswith("/first") and not path.endswith("/api/show"):
                _say("request")
            if path.startswith(("/chunks", "/silent")):
                await _stream_out(stream, path)
            else:
                answer = answers.of(path, body)  # whole, also when a stream was asked for: clients take both
                await stream.send_all(_HEAD % (b"application/json\r\ncontent-length: %d" % len(answer)) + answer)


async def _request(stream: trio.SocketStream, rest: bytes) -> tuple[bytes, bytes, bytes]:
    while (end := rest.find(b"\r\n\r\n")) < 0:
        rest += await _more(stream)
    head, rest = rest[:end], rest[end + 4 :]
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    pieces, size = [rest], len(rest)
    while size < length:
        pieces.append(await _more(stream))
        size += len(pieces[-1])
    whole = b"".join(pieces)
    return head, whole[:length], whole[length:]


async def _more(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some(1 << 20)
    if not data:
        raise EOFError
    return data


async def _stream_out(stream: trio.SocketStream, path: str) -> None:
    _, kind, *rest = path.split("/")
    form = format_of(path)
    await stream.send_all(_HEAD % (form.kind.encode() + b"\r\ntransfer-encoding: chunked"))
    if form.head:
        await stream.send_all(_framed(form.head))
    if kind == "silent":
        await stream.send_all(_framed(form.chunk % 0))
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some(4096):
                pass
        _say("closed")
        raise EOFError
    for number in range(int(rest[0])):
        await stream.send_all(_framed(form.chunk % number))
    await stream.send_all(_framed(form.last) + b"0\r\n\r\n")


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _main() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=4096)
    print(listeners[0].socket.getsockname()[1], flush=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, partial(_serve, _Answers()), listeners)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_main)
