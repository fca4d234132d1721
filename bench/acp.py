"""An editor's agent: how soon it answers, what a prompt costs, and that a flood of text neither stalls nor fills it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.server import Server, open_server
from bench.startup import PYTHON, installed
from bench.table import Row, is_quick, median, print_rows, rounds

CHUNKS = 50_000


@dataclass
class Agent:
    """A child process that speaks the protocol, and the blocking client of a benchmark."""

    process: subprocess.Popen[bytes]
    number: int = 0

    def ask(self, method: str, **params: Any) -> tuple[Any, float, int]:
        """The result, the longest time between two frames in seconds, and how many frames there were."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        longest, count, last = 0.0, 0, time.perf_counter()
        for line in self.process.stdout:
            now = time.perf_counter()
            longest, last, count = max(longest, now - last), now, count + 1
            frame = json.loads(line)
            if frame.get("id") == self.number and "method" not in frame:
                return frame["result"], longest, count
        raise RuntimeError("the agent has ended")

    def open(self) -> str:
        self.ask("initialize", protocolVersion=1, clientCapabilities={})
        session: str = self.ask("session/new", cwd="/", mcpServers=[])[0]["sessionId"]
        return session

    def prompt(self, session: str, text: str = "go") -> tuple[float, int]:
        """As `ask`, without the result."""
        prompt = [{"type": "text", "text": text}]
        result, longest, count = self.ask("session/prompt", sessionId=session, prompt=prompt)
        if result["stopReason"] != "end_turn":
            raise RuntimeError(f"the turn ended as {result['stopReason']}")
        return longest, count

    def memory(self) -> float:
        """Resident, in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 2**20


@contextmanager
def agent(command: Sequence[str], environment: dict[str, str]) -> Iterator[Agent]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            yield Agent(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            finally:
                process.kill()


def _aar(url: str) -> list[str]:
    return [*PYTHON, "-m", "aar", "acp", "-p", "generic", "-m", "m", "--base-url", url]


def _first_answer(command: Sequence[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    with agent(command, environment) as client:
        client.ask("initialize", protocolVersion=1, clientCapabilities={})
        return (time.perf_counter() - start) * 1000


def _answers(server: Server, environment: dict[str, str], repeats: int) -> list[Row]:
    aar, plain = _aar(server.url("/text")), [*PYTHON, "-m", "bench.bare_acp", server.url("/text")]
    _first_answer(aar, environment)  # compiles
    ours, theirs = rounds(
        repeats, lambda: _first_answer(aar, environment), lambda: _first_answer(plain, environment), pick=median
    )
    return [Row("aar acp, first answer", f"{ours:.0f} ms", f"{theirs:.0f} ms", ours, "ms", 300)]


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this process, and those that it starts, on one: to wake a sleeping one costs more than a command does."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def _round_trips(server: Server, environment: dict[str, str], repeats: int) -> list[Row]:
    with (
        one_processor(),
        agent(_aar(server.url("/text")), environment) as aar,
        agent([*PYTHON, "-m", "bench.bare_acp", server.url("/text")], environment) as plain,
    ):
        sessions = {id(one): one.open() for one in (aar, plain)}

        def trip(one: Agent, text: str) -> float:
            start = time.perf_counter()
            one.prompt(sessions[id(one)], text)
            return (time.perf_counter() - start) * 1000

        rows: list[Row] = []
        for name, text, limit in (("command over acp, p50", "/model", 2.0), ("prompt over acp, p50", "go", None)):
            for one in (aar, plain):
                trip(one, text)
            ours, theirs = rounds(repeats * 30, partial(trip, aar, text), partial(trip, plain, text), pick=median)
            rows.append(Row(name, f"{ours:.2f} ms", f"{theirs:.2f} ms", ours / theirs, "x", limit))
    return rows


def _floods(server: Server, environment: dict[str, str]) -> list[Row]:
    with agent(_aar(server.url(f"/chunks/{CHUNKS}")), environment) as client:
        session = client.open()
        _, first = client.prompt(session)
        before = client.memory()
        longest, count = max(client.prompt(session) for _ in range(2))
        grown = (client.memory() - before) / 2
    return [
        Row(f"{CHUNKS:,} chunks over acp, longest wait", f"{longest * 1000:.0f} ms", "", longest * 1000, "ms", 1000),
        Row(f"{CHUNKS:,} chunks over acp, frames", f"{count}", f"{first}", count / first, "x"),
        Row(f"{CHUNKS:,} chunks over acp, kept memory", f"{grown:.1f} MiB", "", grown, "MiB", 4),
    ]


def main() -> None:
    repeats = 3 if is_quick() else 9
    with installed() as environment, open_server() as server:
        print_rows(_answers(server, environment, repeats))
        print_rows(_round_trips(server, environment, repeats))
        print_rows(_floods(server, environment))


if __name__ == "__main__":
    sys.exit(main())
