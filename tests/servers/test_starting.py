"""The bundled servers as processes: from the sample configs, from any folder, over every transport."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

ROOT = Path(__file__).parent.parent.parent
TOOLS = {
    "web": ["fetch", "read_rss", "search"],
    "gitlab": [
        "answer_issue",
        "close_issue",
        "find_projects",
        "label_issue",
        "list_my_issues",
        "read_issue",
        "reopen_issue",
        "whoami",
    ],
    "signal": [
        "signal_account_info",
        "signal_create_group",
        "signal_list_accounts",
        "signal_list_contacts",
        "signal_list_groups",
        "signal_react",
        "signal_receive_messages",
        "signal_send_message",
        "signal_set_profile",
        "signal_update_contact",
    ],
}
NAMES = {"web": "web-tools", "gitlab": "gitlab-issues", "signal": "signal-mcp"}


def environment(tmp_path: Path) -> dict[str, str]:
    path = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    return {"PATH": path, "HOME": str(tmp_path), "SIGNAL_PHONE_NUMBER": "+491234567"}


@pytest.mark.covers("BMCP-08")
@pytest.mark.parametrize("name", TOOLS)
async def test_a_sample_config_starts_its_server_from_the_root_of_the_repository(name: str, tmp_path: Path) -> None:
    config = json.loads((ROOT / "tools" / f"{name}.json").read_text())
    (entry,) = config["servers"]
    assert (entry["name"], entry["transport"], entry["prefix_tools"]) == (name, "stdio", True)
    parameters = StdioServerParameters(
        command=entry["command"], args=entry["args"], env=environment(tmp_path), cwd=ROOT
    )
    async with Client(parameters) as client:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS[name]
        assert client.server_info.name == NAMES[name]


@pytest.mark.parametrize("name", TOOLS)
async def test_a_server_starts_from_any_folder(name: str, started: Any, tmp_path: Path) -> None:
    # Files with names of modules lie there: none of them may take part.
    for trap in ("tools.py", "mcp.py", "trio.py", "signal.py"):
        (tmp_path / trap).write_text("raise SystemExit('imported from the working folder')")
    async with started(name, cwd=tmp_path, SIGNAL_PHONE_NUMBER="+491234567") as client:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS[name]
    assert not (tmp_path / ".web_mcp_cache").exists()


def printed(*arguments: str) -> Any:
    command = [sys.executable, str(ROOT / "tools" / "print_config.py"), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_a_config_for_every_folder_can_be_printed_also_for_zed() -> None:
    assert [entry["name"] for entry in printed()["servers"]] == list(TOOLS)
    web = {"command": sys.executable, "args": [str(ROOT / "tools" / "web")]}
    assert printed("web") == {"servers": [{"name": "web", **web, "transport": "stdio", "prefix_tools": True}]}
    assert printed("--zed", "web") == {"context_servers": {"web": web}}


@pytest.mark.covers("BMCP-08")
def test_aar_lists_the_tools_of_a_sample_config(tmp_path: Path) -> None:
    name = "gitlab"
    command = [sys.executable, "-m", "aar", "tools", "--mcp", f"tools/{name}.json"]
    variables = environment(tmp_path) | {"AAR_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.strip().startswith(f"{name}__")]
    assert sorted(listed) == [f"{name}__{tool}" for tool in TOOLS[name]]


@asynccontextmanager
async def listening(name: str, *arguments: str, tmp_path: Path, **more: str) -> AsyncIterator[tuple[str, Any]]:
    command = [sys.executable, str(ROOT / "tools" / name), *arguments, "--port", "0"]
    variables = environment(tmp_path) | more
    start = partial(trio.run_process, command, env=variables, cwd=tmp_path, stderr=subprocess.PIPE, check=False)
    async with trio.open_nursery() as nursery:
        process = await nursery.start(start)
        said = b""
        while b"\n" not in said:
            said += await process.stderr.receive_some()
        (address,) = re.findall(r"Serving on (http://\S+)", said.decode())
        yield address, process
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_a_server_can_be_reached_over_http(transport: str, tmp_path: Path) -> None:
    async with listening("web", "--transport", transport, tmp_path=tmp_path) as (address, _):
        target: Callable[[], Any] = (lambda: sse_client(address)) if transport == "sse" else (lambda: address)
        async with Client(target()) as client:
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS["web"]
        async with httpx2.AsyncClient() as browser:
            foreign = await browser.post(address, json={}, headers={"Origin": "https://evil.example"})
            assert foreign.status_code in (403, 405)
            rebound = await browser.get(address, headers={"Host": "evil.example"})
            assert rebound.status_code == 421


async def test_with_a_token_nobody_enters_without_it(tmp_path: Path) -> None:
    arguments = ("--transport", "http")
    async with (
        listening("web", *arguments, tmp_path=tmp_path, MCP_SERVER_TOKEN="s3cret") as (address, _),
        httpx2.AsyncClient() as browser,
    ):
        refused = [
            # A connection that has rested for long may be closed just when it is used again.
            (await browser.post(address, json={}, headers={"Connection": "close", **headers})).status_code
            for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Bearer s3cret"})
        ]
    assert refused[:2] == [401, 401]
    assert refused[2] not in (401, 403)


def run(name: str, *arguments: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / name), *arguments]
    return subprocess.run(
        command,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def test_other_machines_are_let_in_only_with_a_token(tmp_path: Path) -> None:
    done = run("web", "--transport", "http", "--host", "0.0.0.0", tmp_path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("0.0.0.0 can be reached from other machines: set MCP_SERVER_TOKEN")


def test_a_server_ends_quietly_when_its_client_leaves(tmp_path: Path) -> None:
    done = run("web", tmp_path=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_python_without_the_packages_goes_on_with_the_one_beside_it_or_says_what_to_install(tmp_path: Path) -> None:
    copy = tmp_path / "aar"
    shutil.copytree(ROOT / "tools", copy / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-I", "-S", str(copy / "tools" / "web"), "--port", "1"]
    bare = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (bare.returncode, bare.stdout) == (1, "")
    assert bare.stderr == (
        f"missing: mcp, trio, httpx2, selectolax, feedparser, hypercorn. In {copy}: "
        "python3 -m venv .venv && .venv/bin/pip install '.[servers]'\n"
    )
    python = copy / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout == (
        f"{copy}/tools/web --port 1\n"
    )
