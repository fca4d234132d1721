"""An editor that is written with the official SDK for Python. Prints what it sees, one JSON value a line.

python editor.py AGENT PROJECT
"""

from __future__ import annotations

import asyncio  # what the SDK is made of; nothing of Aar is loaded here
import json
import sys
from contextlib import asynccontextmanager
from typing import Any

import acp
from acp.schema import AllowedOutcome, ClientCapabilities, FileSystemCapabilities

program, project = sys.argv[1:]


def tell(*what: Any) -> None:
    print(json.dumps(what), flush=True)


class Editor(acp.Client):
    def __init__(self) -> None:
        self.text = asyncio.Event()
        self.kind = "allow_always"

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        match update.session_update:
            case "agent_message_chunk" | "user_message_chunk" as kind:
                tell(kind, update.content.text)
                self.text.set()
            case "tool_call":
                tell("tool_call", update.title, update.kind, update.status)
            case "tool_call_update":
                tell("tool_call_update", update.status)

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        tell("permission", tool_call.title, *(option.kind for option in options))
        chosen = next(option for option in options if option.kind == self.kind)
        return acp.RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def read_text_file(self, path: str, session_id: str, **_: Any) -> Any:
        tell("read", path.removeprefix(project))
        return acp.ReadTextFileResponse(content="not saved yet\n")


@asynccontextmanager
async def connected(editor: Editor) -> Any:
    async with acp.spawn_agent_process(editor, program, cwd="/") as (agent, process):
        reads = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        answer = await agent.initialize(acp.PROTOCOL_VERSION, client_capabilities=reads)
        tell("initialized", answer.protocol_version, answer.agent_info.name)
        yield agent
    tell("ended", process.returncode)


async def main() -> None:
    editor = Editor()
    async with connected(editor) as agent:
        session = (await agent.new_session(project)).session_id

        async def prompt(text: str) -> None:
            tell("stop", (await agent.prompt(session, [acp.text_block(text)])).stop_reason)

        await prompt("write two files")
        editor.kind = "reject_always"
        await prompt("run a command twice")
        editor.text.clear()
        running = asyncio.create_task(prompt("count for ever"))
        await editor.text.wait()
        await agent.cancel(session)
        await running
        other = (await agent.fork_session(session, project)).session_id
        tell("forked", other != session)
    async with connected(editor) as agent:
        listed = await agent.list_sessions(cwd=project)
        tell("list", sorted(one.session_id for one in listed.sessions) == sorted([session, other]))
        await agent.resume_session(session, project)
        await prompt("read it")
        await agent.close_session(session)
        await agent.load_session(project, session)
        tell("loaded")
        try:
            await agent.load_session(project, "nobody")
        except acp.RequestError as error:
            tell("error", error.code)


asyncio.run(main())
