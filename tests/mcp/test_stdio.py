"""The pipes to a server's process, without a session around them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from aar.mcp.stdio import StdioLink
from aar.messages.mcp import McpServer
from aar.processes.environment import child_environment
from aar.processes.group import open_process

ROOT = str(Path(__file__).parents[2])


def python(code: str) -> McpServer:
    return McpServer(name="it", command=sys.executable, args=("-c", code))


def link_to(server: McpServer, **more) -> StdioLink:
    return StdioLink(server, cwd="/", env=child_environment(), **more)


async def test_messages_are_lines_however_the_pipe_cuts_them() -> None:
    code = """
import sys, time
for piece in ['{"jsonrpc": "2.0", "me', 'thod": "a"}', '\\n{"jsonrpc": "2.0", "method": "b"}\\n{', '}\\n']:
    sys.stdout.write(piece); sys.stdout.flush(); time.sleep(0.02)
sys.stdin.read()
"""
    link = link_to(python(code))
    async with link.transport() as (incoming, _):
        assert [(await incoming.receive()).message.method for _ in range(2)] == ["a", "b"]
        assert not link.ended.is_set()


async def test_a_line_that_never_ends_ends_the_connection_and_takes_no_more_memory_than_it_may() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 10_000)"
    link = link_to(python(code), line_limit=100_000)
    async with link.transport():
        await link.ended.wait()
        assert link.why == "it sent a message of more than 800,000 bytes"


async def test_an_end_of_output_without_an_end_of_the_process_is_an_end(autojump_clock) -> None:
    link = link_to(python("import os, sys\nos.close(1)\nsys.stdin.read()"))
    async with link.transport():
        await link.ended.wait()
        assert link.why == "it closed its output"


async def test_a_process_that_leaves_its_output_to_another_has_ended_all_the_same() -> None:
    link = link_to(McpServer(name="it", command="sh", args=("-c", "sleep 1000 & exit 3")))
    async with link.transport():
        await link.ended.wait()
        assert link.why == "it ended with status 3"


async def test_the_end_of_what_it_said_last_is_kept() -> None:
    link = link_to(python("import sys\nprint('x' * 100_000, file=sys.stderr)\nsys.exit('the end')"))
    async with link.transport():
        await link.ended.wait()
    assert len(link.last_words) <= 2000
    assert link.last_words.endswith("\nthe end")


@pytest.mark.parametrize(("command", "error"), [("no-such-program", FileNotFoundError), ("/", PermissionError)])
async def test_a_program_that_cannot_be_started_is_an_error_at_once(command, error) -> None:
    with pytest.raises(error):
        async with link_to(McpServer(name="it", command=command)).transport():
            raise AssertionError("it runs")


@pytest.mark.covers("MCP-15")
async def test_no_server_outlives_an_aar_that_is_killed(plain, tmp_path) -> None:
    notes = tmp_path / "notes"
    server = plain(notes=str(notes), ignores_eof=True, ignores_term=True)
    code = f"""
import trio
from aar.messages.mcp import McpServer
from aar.testing import open_test_runtime

async def main():
    async with open_test_runtime() as runtime:
        server = McpServer.model_validate_json({server.model_dump_json()!r})
        session = await runtime.sessions.open("/", mcp_servers=[server])
        await session.mcp_servers(wait=True)
        print("ready", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""
    async with open_process([sys.executable, "-c", code], cwd=ROOT, env=child_environment()) as aar:
        assert (await aar.stdout.receive_some()).startswith(b"ready")
        pid = int(notes.read_text().split()[1])
        watched = os.pidfd_open(pid)
        try:
            os.kill(aar.pid, signal.SIGKILL)
            with trio.fail_after(10):
                await trio.lowlevel.wait_readable(watched)
        finally:
            os.close(watched)
