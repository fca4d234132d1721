"""A stand-in for the llama.cpp library, a real module that the real server program imports, and who asks it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from aar.errors import ProviderUnavailable
from aar.messages.provider import History, ProviderRequest, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.local import LocalProvider, llama_server

SERVER = (sys.executable, "-P", llama_server.__file__)

STAND_IN = """\
import http.server, json, os, pathlib, sys, threading, time, types

NOTES = pathlib.Path(__file__).parent / "notes"
mode = os.environ.get("STAND_IN", "")


def note(**fields):
    with NOTES.open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **fields}) + "\\n")


class CommonParams(types.SimpleNamespace):
    def __init__(self):
        super().__init__(model=types.SimpleNamespace(), cpuparams=types.SimpleNamespace(), chat_template="",
                         cpuparams_batch=types.SimpleNamespace())


class Server:
    def __init__(self, params):
        self.params = params
        plain = {key: value for key, value in vars(params).items() if isinstance(value, (str, int, list))}
        note(started=plain, threads=params.cpuparams.n_threads, model=params.model.path, alias=list(params.model_alias))
        if mode == "fails":
            print("an assertion of the library", file=sys.stderr, flush=True)
            raise RuntimeError("unknown architecture")
        if mode == "aborts":
            os.write(2, b"GGML_ASSERT failed\\n")
            os.abort()
        if mode == "hangs":
            import ctypes
            os.write(2, b"hanging\\n")
            note(hangs=True)
            ctypes.PyDLL(None).sleep(600)  # keeps the interpreter's lock, as loading a model does
        outer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, kind, body):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                outer.check(self)
                replies = {"/health": {"status": "ok"},
                           "/props": {"chat_template_caps": {"supports_tools": mode == "knows-tools"}}}
                self.send("application/json", json.dumps(replies[self.path]).encode())

            def do_POST(self):
                outer.check(self)
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                note(path=self.path, body=body)
                if body["messages"][-1]["content"] == "die":
                    os.abort()
                chunks = [{"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": None}]},
                          {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
                lines = [f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks] + ["data: [DONE]\\n\\n"]
                self.send("text/event-stream", "".join(lines).encode())

        self.http = http.server.ThreadingHTTPServer((params.hostnames[0], params.port), Answers)
        self.listening_address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def check(self, request):
        if request.headers["authorization"] != f"Bearer {self.params.api_keys[0]}":
            os._exit(7)
"""


class StandIn:
    """The library that the server imports, and what it wrote down."""

    def __init__(self, folder: Path) -> None:
        (folder / "xllamacpp.py").write_text(STAND_IN)
        self._notes = folder / "notes"

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._notes.read_text().splitlines()] if self._notes.exists() else []

    @property
    def starts(self) -> list[dict[str, Any]]:
        return [note for note in self.notes if "started" in note]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [note["body"] for note in self.notes if "body" in note]


def local(home: Path, model: str = "", **extra: Any) -> LocalProvider:
    config = ProviderConfig(name="local", model=model, extra=extra)
    return LocalProvider(config, environ={"AAR_HOME": str(home)}, program=SERVER)


@asynccontextmanager
async def served(provider: LocalProvider) -> AsyncGenerator[LocalProvider, None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(provider.serve)
        yield provider
        nursery.cancel_scope.cancel()
    await provider.aclose()


def asking(text: str = "Say hello", **fields: Any) -> ProviderRequest:
    return ProviderRequest(History(tail=[{"role": "user", "content": text}]), **fields)


async def answer_of(provider: LocalProvider, request: ProviderRequest) -> list[StreamDelta]:
    async with aclosing(provider.stream(request)) as deltas:
        return [delta async for delta in deltas if delta != StreamDelta()]


async def answer_after_retries(provider: LocalProvider, request: ProviderRequest) -> list[StreamDelta]:
    """As a session asks: again, while the error says that this may help."""
    with trio.fail_after(30):
        while True:
            try:
                return await answer_of(provider, request)
            except ProviderUnavailable as error:
                if not error.retryable:
                    raise


async def wait_until_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
