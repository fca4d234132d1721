"""Nothing is imported, read or started before it is needed. Measured in CPU time: other work changes it least."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

ROUNDS = 15  # at most; the least of all rounds counts, and as soon as it is good enough the rest is not needed

AND_ITS_IMPORTS = """
from aar.__main__ import main
try:
    main()
except SystemExit:
    pass
print(*sys.modules)
"""

BARE = """
import sys
import httpx2
import trio
from pydantic import BaseModel

class Message(BaseModel):
    role: str
    content: str

class Request(BaseModel):
    model: str
    messages: list[Message]

async def main():
    body = Request(model="tiny", messages=[Message(role="user", content="hi")])
    async with httpx2.AsyncClient() as client:
        answer = await client.post(sys.argv[1] + "/chat/completions", content=body.model_dump_json())
        print(answer.json()["choices"][0]["message"]["content"])

trio.run(main)
"""


def cpu_of(command: list[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def least_ratio(ours: Any, theirs: Any, limit: float) -> float:
    least, bare = float("inf"), float("inf")
    for _ in range(ROUNDS):
        least, bare = min(least, ours()), min(bare, theirs())
        if least / bare < limit:
            break
    return least / bare


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["version"]])
def test_help_and_version_cost_less_than_twice_an_import_of_asyncio(place, words):
    environment = place.environment
    aar = [sys.executable, "-m", "aar", *words]
    ratio = least_ratio(
        lambda: cpu_of(aar, environment), lambda: cpu_of([sys.executable, "-c", "import asyncio"], environment), 2.0
    )
    assert ratio < 2.0


def test_help_imports_next_to_nothing(place):
    code = "import sys; sys.argv = ['aar', 'run', '--help']" + AND_ITS_IMPORTS
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=place.environment, check=True
    )
    heavy = {"asyncio", "trio", "pydantic", "httpx2", "rich", "cyclopts", "json", "ssl", "logging"}
    assert heavy & set(done.stdout.splitlines()[-1].split()) == set()


def test_a_command_line_is_read_before_anything_heavy_is_imported(place):
    """Once pydantic is there, cyclopts builds a schema for every flag: five times the work."""
    code = "import sys; from aar.transports.cli.app import build_app; build_app().parse_args(['run', 'hi'])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        env=place.environment,
        check=True,
    )
    assert {"pydantic", "trio", "httpx2", "rich", "asyncio", "aar.config"} & set(done.stdout.split()) == set()


async def test_a_run_imports_no_package_that_it_does_not_use(place, model, flags):
    place.write("a.txt", "alpha")
    model.calls("read_file", path="a.txt").says("It says alpha.")
    code = "import sys" + AND_ITS_IMPORTS
    done = await trio.run_process(
        [sys.executable, "-c", code, "run", "hi", *flags],
        cwd=place.project,
        env=place.environment,
        stdin=b"",
        capture_stdout=True,
        capture_stderr=True,
    )
    names = set(done.stdout.decode().splitlines()[-1].split())
    unused = {
        "asyncio",
        "rich",
        "argparse",
        "openai",
        "anthropic",
        "google",
        "mcp",
        "acp",
        "quart",
        "urwid",
        "yaml",
        "jinja2",
    }
    unused |= {"aar.roles", "aar.config.agents", "aar.config.overrides", "aar.tools.filtering", "aar.safety.rules"}
    assert unused & names == set()


def test_the_first_request_is_out_in_less_than_1_6_times_of_a_bare_script(place, waiting_server):
    """CPU time from the start until the server has the request."""
    url, cpu_until_request = waiting_server
    environment = place.environment
    aar = [sys.executable, "-m", "aar", "run", "-p", "generic", "-m", "tiny", "--base-url", url, "hi"]
    bare = [sys.executable, "-c", BARE, url]
    cpu_until_request(aar, environment)  # folders and byte code are there from here on
    ratio = least_ratio(lambda: cpu_until_request(aar, environment), lambda: cpu_until_request(bare, environment), 1.6)
    assert ratio < 1.6


@pytest.fixture
def waiting_server() -> Any:
    """A server that stops the clock when a request is there; no event loop of ours runs beside what is measured."""
    import socket

    body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )

    def cpu(process_id: int) -> float:
        tasks = Path(f"/proc/{process_id}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def cpu_until_request(command: list[str], environment: dict[str, str]) -> float:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
            )
            try:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    used = cpu(process.pid)
                    connection.sendall(head.encode() + body)
            finally:
                process.kill()
                process.wait()
            return used

        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", cpu_until_request
