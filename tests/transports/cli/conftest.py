"""The real program: `python -m aar` as a child process, alone or on a terminal, against a model on loopback."""

from __future__ import annotations

import fcntl
import gc
import json
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.config import API_KEY_VARIABLES
from aar.journal.jsonl import JsonlStore
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.cli.app import run_command
from tests.transports.cli.warm import WarmProcess, WarmProgram

ROOT = Path(__file__).parents[3]
PATIENCE = 30.0  # seconds; only a failing test ever waits that long


# --- a model ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What the model sends: texts in pieces, calls, and in between an event to wait for."""

    pieces: tuple[str, ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    thoughts: str = ""
    wait: trio.Event | None = None  # after the first piece
    hold: trio.Event | None = None  # before the end
    status: int = 200
    usage: tuple[int, int] = (10, 5)
    finish: str = ""


class Model:
    """An OpenAI-compatible server. Plays one answer per request; the last one is repeated."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = trio.Event()
        self._answers: deque[Answer] = deque()

    def says(self, *pieces: str, **more: Any) -> Model:
        self._answers.append(Answer(pieces=pieces, **more))
        return self

    def calls(self, name: str, text: str = "", **arguments: Any) -> Model:
        self._answers.append(Answer(pieces=(text,) if text else (), calls=((name, arguments),)))
        return self

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                body, headers = await _read_request(stream)
                self.requests.append(body)
                self.headers.append(headers)
                self.asked.set()
                answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
                await _play(stream, answer, streamed=bool(body.get("stream")), number=len(self.requests))
            except (trio.BrokenResourceError, EOFError):
                pass


async def _read_request(stream: trio.SocketStream) -> tuple[dict[str, Any], dict[str, str]]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await _some(stream)
    head, _, body = data.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
    while len(body) < int(headers.get("content-length", "0")):
        body += await _some(stream)
    return json.loads(body or b"{}"), headers


async def _some(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some()
    if not data:
        raise EOFError
    return data


async def _play(stream: trio.SocketStream, answer: Answer, *, streamed: bool, number: int) -> None:
    calls = [
        {"index": at, "id": f"call{number}{at}", "type": "function"}
        | {"function": {"name": name, "arguments": json.dumps(arguments)}}
        for at, (name, arguments) in enumerate(answer.calls)
    ]
    finish = answer.finish or ("tool_calls" if calls else "stop")
    usage = {"prompt_tokens": answer.usage[0], "completion_tokens": answer.usage[1]}
    if answer.status != 200 or not streamed:
        message = {"role": "assistant", "content": "".join(answer.pieces), "reasoning_content": answer.thoughts or None}
        message |= {"tool_calls": calls} if calls else {}
        document = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
        if answer.status != 200:
            document = {"error": {"message": "".join(answer.pieces)}}
        await _send(stream, answer.status, "application/json", json.dumps(document).encode())
        return
    await _send(stream, 200, "text/event-stream", b"")
    deltas: list[dict[str, Any]] = [{"reasoning_content": answer.thoughts}] if answer.thoughts else []
    deltas += [{"content": piece} for piece in answer.pieces]
    for at, delta in enumerate(deltas):
        await _event(stream, {"choices": [{"delta": delta}]})
        if answer.wait is not None and at == 0:
            await answer.wait.wait()
    if answer.wait is not None and not deltas:
        await answer.wait.wait()
    if answer.hold is not None:
        await answer.hold.wait()
    if calls:
        await _event(stream, {"choices": [{"delta": {"tool_calls": calls}}]})
    await _event(stream, {"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage})
    await stream.send_all(b"data: [DONE]\n\n")


async def _send(stream: trio.SocketStream, status: int, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"
    await stream.send_all(head.encode() + body)


async def _event(stream: trio.SocketStream, data: dict[str, Any]) -> None:
    await stream.send_all(b"data: " + json.dumps(data).encode() + b"\n\n")


@pytest.fixture
async def model(nursery: trio.Nursery) -> AsyncIterator[Model]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Model(listener.socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, [listener])
    yield found
    nursery.cancel_scope.cancel()


# --- the program ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


@dataclass
class Place:
    """A user with a folder of settings and a project, and the flags that lead to the model."""

    home: Path
    project: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        kept |= {"AAR_HOME": str(self.home), "HOME": str(self.home), "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        return {**kept, **self.variables}

    def write(self, name: str, text: str) -> Path:
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def configure(self, **settings: Any) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "config.json").write_text(json.dumps(settings))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    project = tmp_path / "project"
    project.mkdir()
    return Place(tmp_path / "home", project)


@pytest.fixture
def flags(model: Model) -> list[str]:
    return ["--provider", "generic", "--model", "tiny", "--base-url", model.url]


@pytest.fixture
def aar(place: Place, warm_program: WarmProgram) -> Callable[..., Awaitable[Finished]]:
    """`await aar("run", "hi", *flags)`: the program without a terminal; its input is empty unless given."""

    async def run(*arguments: str, stdin: str = "", cwd: Path | None = None) -> Finished:
        where: Any = {"cwd": cwd or place.project, "env": place.environment}
        with trio.fail_after(PATIENCE):
            if warm_program.can_run(arguments, place.variables):
                done = await warm_program.run(arguments, stdin=stdin.encode(), **where)
            else:
                done = await trio.run_process(
                    [sys.executable, "-m", "aar", *arguments],
                    stdin=stdin.encode(),
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    **where,
                )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """`here("tools")`: the same as `aar` without a process of its own, for commands that only look."""
    root = logging.getLogger()
    handlers, level, thresholds = root.handlers[:], root.level, gc.get_threshold()

    def run(*arguments: str) -> Finished:
        for name in ("AAR_HOME", "HOME"):
            monkeypatch.setenv(name, str(place.home))
        for name in API_KEY_VARIABLES.values():
            monkeypatch.delenv(name, raising=False)
        for name, value in place.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(place.project)
        code = run_command(arguments)
        out, err = capfd.readouterr()
        return Finished(code, out, err)

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    gc.set_threshold(*thresholds)


@pytest.fixture
def told(place: Place) -> Callable[..., str]:
    """`told(ScriptedProvider().text("Hello."), "hi")`: a stored session of this folder; its id."""

    def tell(provider: ScriptedProvider, prompt: str, *, directory: Path | None = None) -> str:
        async def talk() -> str:
            store = JsonlStore(directory or place.home / "sessions")
            async with open_test_runtime(provider, store=store, home=place.home) as runtime:
                session = await runtime.sessions.open(str(place.project))
                await session.prompt(prompt)
                return session.session_id

        return trio.run(talk)

    return tell


@pytest.fixture
def started(place: Place, warm_program: WarmProgram) -> Callable[..., Any]:
    """`async with started("run", "hi") as process`: the program while it runs, for signals and for its streams.

    `cold`, it is not forked from a process that has imported everything: for what is about the start itself.
    """

    @asynccontextmanager
    async def start(*arguments: str, cold: bool = False, **streams: Any) -> AsyncIterator[trio.Process | WarmProcess]:
        where: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        where |= {"cwd": place.project, "env": place.environment}
        process: Any
        if cold or not warm_program.can_run(arguments, place.variables):
            process = await trio.lowlevel.open_process([sys.executable, "-m", "aar", *arguments], **where)
        else:
            process = await warm_program.open(arguments, **where)
        try:
            with trio.fail_after(PATIENCE):
                yield process
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await trio.aclose_forcefully(stream)

    return start


async def read_all(stream: Any) -> str:
    return b"".join([data async for data in stream]).decode()


# --- a terminal -------------------------------------------------------------------------------

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The far end of a pseudo-terminal: what the program wrote, and typing into it."""

    def __init__(self, master: int, process: WarmProcess) -> None:
        self.process = process
        self.raw = ""
        self._master = master
        self._seen = 0

    @property
    def text(self) -> str:
        """Everything so far, without colours and cursor movements."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    async def until(self, words: str) -> str:
        """Read on until these words appear after those that the last call waited for."""
        with trio.move_on_after(PATIENCE):
            while words not in self.text[self._seen :] and await self._read():
                pass
        assert words in self.text[self._seen :], f"{words!r} never appeared in {self.text!r}"
        self._seen = self.text.index(words, self._seen) + len(words)
        return self.text

    async def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, *, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    async def end(self) -> int:
        """Read on until the program ends; its exit code."""
        with trio.fail_after(PATIENCE):
            while await self._read():
                pass
            return await self.process.wait()

    async def _read(self) -> bool:
        await trio.lowlevel.wait_readable(self._master)
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # EIO: nobody has the terminal open any more
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def terminal(place: Place, warm_program: WarmProgram) -> Callable[..., Any]:
    """`async with terminal("chat", *flags) as screen`: the program on a terminal of 100 columns."""

    @asynccontextmanager
    async def open_terminal(*arguments: str, err: Path | None = None) -> AsyncIterator[Terminal]:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        before = termios.tcgetattr(master)
        errors = slave if err is None else os.open(err, os.O_WRONLY | os.O_CREAT)
        process = await warm_program.start(
            arguments, streams=(slave, slave, errors), cwd=place.project, env=place.environment, on_terminal=True
        )
        for descriptor in {slave, errors}:
            os.close(descriptor)
        try:
            yield Terminal(master, process)
            if process.returncode is not None:
                assert termios.tcgetattr(master) == before  # whatever happened, the terminal is as it was
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            os.close(master)

    return open_terminal
