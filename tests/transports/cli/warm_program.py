"""`python -m aar` without the seconds of a start: forked from a process that has imported all of it.

    python warm_program.py DESCRIPTOR

The descriptor is a socket. Each packet is one run: JSON with `arguments`, `cwd`, `env`, `own_session`, `on_terminal`,
and with it four descriptors: standard input, output and error, and a socket for its process id and later its exit code.
Ends when nobody holds the other end of the socket.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT = 100_000  # bytes of a packet
ROOT = Path(__file__).parents[3]
OF_OTHERS = (
    "acp.schema",
    "anyio._backends._trio",
    "encodings.idna",
    "encodings.utf_8_sig",
    "h2.connection",
    "httpcore2",
    "httpx2",
    "hypercorn.trio",
    "hypercorn.trio.tcp_server",
    "jsonschema_rs",
    "mcp.client.streamable_http",
    "mcp.server.lowlevel",
    "mcp.server.streamable_http_manager",
    "quart_trio",
    "rich.panel",
    "truststore",
)
PROGRAMS = ("aar.processes.keeper", "aar.tools.match_lines")  # started, never imported


def main() -> None:
    for name in (*OF_OTHERS, *_all_of_aar()):
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who attend
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        packet, descriptors, _, _ = socket.recv_fds(requests, LIMIT, 4)
        if not packet:
            return
        if not os.fork():
            requests.close()
            _attend(json.loads(packet), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _all_of_aar() -> Iterator[str]:
    for path in sorted(ROOT.glob("aar/**/*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if name not in PROGRAMS:
            yield name


def _attend(run: dict[str, Any], stdin: int, stdout: int, stderr: int, answer: int) -> None:
    """Fork once more, and tell what becomes of that process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if not program:
        os.close(answer)
        _become_aar(run, stdin, stdout, stderr)
        return
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    os.write(answer, b"%d" % program)
    _, status = os.waitpid(program, 0)
    os.write(answer, b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become_aar(run: dict[str, Any], *streams: int) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if run["own_session"]:
        os.setsid()
    if run["on_terminal"]:  # the controlling one, so that Ctrl+C typed there becomes a signal
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(run["cwd"])
    os.environ.clear()
    os.environ.update(run["env"])
    time.tzset()
    # As Python does it at its start, with the encodings that it has found then.
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)
        new = open(number, mode, encoding=old.encoding, errors=old.errors, buffering=1 if number == 2 else -1)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    program = importlib.import_module("aar.__main__")
    sys.path[0] = run["cwd"]
    sys.argv = [str(program.__file__), *run["arguments"]]
    try:
        program.main()
    except SystemExit as end:
        _end(end)


def _end(end: SystemExit) -> None:
    """As Python ends, without taking all those modules apart first: that takes longer than most runs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise end from None  # and Python says what it has to say about that
    if not isinstance(end.code, int):
        raise end
    os._exit(end.code)


if __name__ == "__main__":
    main()
