"""An editor of our own, over pipes with the real program. Every frame that comes from there is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from acp import schema

from tests.transports.cli.conftest import PATIENCE, Model, Place, model, place
from tests.transports.cli.warm import WarmProgram

__all__ = ["model", "place"]

RESULTS = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
CALLS = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}

Answering = Callable[[dict[str, Any]], Awaitable[Any]]


class Refused(Exception):
    """An error that the agent answered with, or that the editor is to answer with."""

    def __init__(self, code: int, message: str = "no") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def fits(model_: Any, data: Any) -> None:
    """The data is what the schema says, with nothing of our own at the root of it."""
    read = model_.model_validate(data)
    again = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert again == data


@dataclass
class Editor:
    """One client. `frames` is all that came, in order."""

    process: trio.Process
    nursery: trio.Nursery
    frames: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Answering] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_at_end: bool = False
    _number: int = 0
    _methods: dict[int, str] = field(default_factory=dict)
    _scopes: dict[Any, trio.CancelScope] = field(default_factory=dict)
    _came: trio.Event = field(default_factory=trio.Event)
    _writing: trio.Lock = field(default_factory=trio.Lock)
    _may_read: trio.Event = field(default_factory=trio.Event)

    # --- sending ---

    async def write(self, data: bytes) -> None:
        async with self._writing:
            await self.process.stdin.send_all(data)

    async def send(self, message: dict[str, Any]) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def notify(self, method: str, **params: Any) -> None:
        await self.send({"method": method, "params": params})

    async def begin(self, method: str, **params: Any) -> int:
        """A request without waiting for its answer; gives its id."""
        self._number += 1
        self._methods[self._number] = method
        await self.send({"id": self._number, "method": method, "params": params})
        return self._number

    async def answer_to(self, number: int) -> Any:
        frame = await self.until(lambda frame: frame.get("id") == number and "method" not in frame)
        if "error" in frame:
            raise Refused(frame["error"]["code"], frame["error"]["message"])
        return frame["result"]

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.answer_to(await self.begin(method, **params))

    async def refusal(self, method: str, **params: Any) -> Refused:
        with pytest.raises(Refused) as caught:
            await self.ask(method, **params)
        return caught.value

    # --- reading ---

    async def until(self, wanted: Callable[[dict[str, Any]], bool], *, after: int = 0) -> dict[str, Any]:
        """The first such frame, at or after that place."""
        at = after
        with trio.fail_after(PATIENCE):
            while True:
                for frame in self.frames[at:]:
                    if wanted(frame):
                        return frame
                at = len(self.frames)
                assert not self.is_at_end, f"the program has ended; the last it said: {self.frames[-3:]}"
                await self._came.wait()

    async def update(self, kind: str, *, after: int = 0, **fields: Any) -> dict[str, Any]:
        """The first update of this kind with these fields."""
        frame = await self.until(
            lambda frame: is_update(frame, kind) and fields.items() <= frame["params"]["update"].items(), after=after
        )
        return frame["params"]["update"]

    def updates(self, session_id: str | None = None, *, after: int = 0) -> list[dict[str, Any]]:
        return [
            frame["params"]["update"]
            for frame in self.frames[after:]
            if frame.get("method") == "session/update" and session_id in (None, frame["params"]["sessionId"])
        ]

    def kinds(self, session_id: str | None = None, *, after: int = 0) -> list[str]:
        return [update["sessionUpdate"] for update in self.updates(session_id, after=after)]

    def text(self, session_id: str | None = None, *, after: int = 0, kind: str = "agent_message_chunk") -> str:
        chunks = [one for one in self.updates(session_id, after=after) if one["sessionUpdate"] == kind]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def stop_reading(self) -> None:
        self._may_read = trio.Event()

    def go_on_reading(self) -> None:
        self._may_read.set()

    async def listen(self) -> None:
        rest = b""
        self._may_read.set()
        with suppress(trio.ClosedResourceError):  # a test has closed it
            async for data in self.process.stdout:
                await self._may_read.wait()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(line)
                self._wake()
        self.is_at_end = True
        self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = trio.Event()

    def _take(self, line: bytes) -> None:
        frame = json.loads(line)
        self.frames.append(frame)
        try:
            self._check(frame)
        except Exception as error:
            self.problems.append(f"{line.decode()[:500]}: {error}")
        if "method" in frame and "id" in frame:
            self._scopes[frame["id"]] = trio.CancelScope()
            self.nursery.start_soon(self._answer, frame)
        elif frame.get("method") == "$/cancel_request":
            self._scopes[frame["params"]["requestId"]].cancel()

    def _check(self, frame: dict[str, Any]) -> None:
        assert frame["jsonrpc"] == "2.0"
        if "method" in frame:
            fits(CALLS[frame["method"]], frame["params"])
        elif "error" in frame:
            fits(schema.Error, frame["error"])
        elif self._methods.get(frame["id"]) in RESULTS:
            fits(RESULTS[self._methods[frame["id"]]], frame["result"])

    async def _answer(self, frame: dict[str, Any]) -> None:
        self.asked.append((frame["method"], frame["params"]))
        error: dict[str, Any] | None = {"code": -32800, "message": "withdrawn"}
        result: Any = None
        with self._scopes[frame["id"]]:
            try:
                result, error = await self.answers[frame["method"]](frame["params"]), None
            except Refused as refused:
                error = {"code": refused.code, "message": refused.message}
        with trio.CancelScope(shield=True):
            outcome = {"result": result} if error is None else {"error": error}
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.send({"id": frame["id"], **outcome})

    # --- what tests do again and again ---

    async def new(self, cwd: Path | str, **params: Any) -> str:
        return (await self.ask("session/new", **{"cwd": str(cwd), "mcpServers": [], **params}))["sessionId"]

    async def begin_prompt(self, session_id: str, text: str) -> int:
        return await self.begin("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])

    async def prompt(self, session_id: str, text: str) -> str:
        """The stop reason."""
        return (await self.answer_to(await self.begin_prompt(session_id, text)))["stopReason"]

    async def close_input(self) -> None:
        await self.process.stdin.aclose()

    async def end(self) -> int:
        with trio.fail_after(PATIENCE):
            return await self.process.wait()

    # --- ways to answer ---

    def decides(self, option: str) -> None:
        """Answer every question with this option."""

        async def answer(_: dict[str, Any]) -> Any:
            return {"outcome": {"outcome": "selected", "optionId": option}}

        self.answers["session/request_permission"] = answer

    def says_nothing_to(self, method: str) -> trio.Event:
        """Leave these requests open; the event says that one has come."""
        has_come = trio.Event()

        async def wait(_: dict[str, Any]) -> Any:
            has_come.set()
            await trio.sleep_forever()

        self.answers[method] = wait
        return has_come


def is_update(frame: dict[str, Any], kind: str) -> bool:
    return frame.get("method") == "session/update" and frame["params"]["update"]["sessionUpdate"] == kind


@pytest.fixture
def flags(model: Model) -> list[str]:
    return ["--provider", "generic", "--model", "tiny", "--base-url", model.url]


@pytest.fixture
def editor(place: Place, flags: list[str], warm_program: WarmProgram) -> Callable[..., Any]:
    """`async with editor() as client`: the program, introduced to a client with these capabilities.

    `cold`, it is not forked from a process that has imported everything: for what happens while it starts.
    """

    @asynccontextmanager
    async def open_editor(
        *arguments: str,
        cwd: Path | None = None,
        greet: bool = True,
        model_flags: bool = True,
        cold: bool = False,
        **capabilities: Any,
    ) -> AsyncIterator[Editor]:
        words = ["acp", *(flags if model_flags else []), *arguments]
        where: Any = {"cwd": cwd or place.project, "env": place.environment}
        process: Any
        with (place.project.parent / "stderr").open("ab") as errors:
            where |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            if cold or not warm_program.can_run(words, place.variables):
                command = [sys.executable, "-m", "aar", *words]
                process = await trio.lowlevel.open_process(command, **where, start_new_session=True)  # as editors do
            else:
                process = await warm_program.open(words, **where, own_session=True)
        client: Editor | None = None
        try:
            async with trio.open_nursery() as nursery:
                client = Editor(process, nursery)
                nursery.start_soon(client.listen)
                if greet:
                    await client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
                yield client
                nursery.cancel_scope.cancel()
            assert client.problems == []
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            for stream in (process.stdin, process.stdout):
                await trio.aclose_forcefully(stream)

    return open_editor
