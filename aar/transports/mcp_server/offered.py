"""The tools that other agents get: prompt, status, cancel.

Imports the MCP package, which is heavy and need not be there: to be imported where it is used.
"""

from __future__ import annotations

from typing import Annotated, Any

import trio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from aar._version import __version__
from aar.transports.http.refused import Refused
from aar.transports.runs.host import Host
from aar.transports.runs.request import RunRequest
from aar.transports.runs.run import Run

__all__ = ["build_server"]

INSTRUCTIONS = (
    "Aar is a coding agent that works in one folder. `prompt` gives it a task and answers with what it said; go on "
    "with the same `session_id` to refer to what was said before. A task that takes long is begun with `wait` false, "
    "looked after with `status`, and ended with `cancel`."
)

Text = Annotated[str, Field(min_length=1, description="What Aar is to do, in words.")]
SessionId = Annotated[str, Field(description="Go on with this session; empty begins a new one.")]
Wait = Annotated[bool, Field(description="Answer when the task is done; false answers at once, with a run_id.")]
RunId = Annotated[str, Field(min_length=1, description="The run_id that prompt answered with.")]


def build_server(host: Host, name: str, description: str) -> MCPServer:
    """The server over the runs of `host`, which must be there before the first tool is called."""
    server = MCPServer(name, description=description, instructions=INSTRUCTIONS, version=__version__)

    async def prompt(text: Text, ctx: Context, session_id: SessionId = "", wait: Wait = True) -> dict[str, Any]:
        """Give Aar a task, or a further one in the same session."""
        if not text.strip():
            raise ToolError("text is empty: say what Aar is to do")
        run = Run(name, RunRequest(text, "sync" if wait else "async", session_id or None))
        try:
            host.runs.check_room()
        except Refused as refused:
            raise ToolError(str(refused)) from refused
        host.runs.begin(run)
        if not wait:
            await run.placed.wait()
            return _told(run)
        try:
            await _report(run, ctx)
        finally:
            run.cancel()  # whoever waited has left; one that is over stays as it is
        return _told(run)

    async def status(run_id: RunId) -> dict[str, Any]:
        """How far a task is, and what Aar has said."""
        return _told(_known(host, run_id))

    async def cancel(run_id: RunId) -> dict[str, Any]:
        """End a task. What was done until now stays."""
        run = _known(host, run_id)
        run.cancel()
        await run.settled.wait()
        return _told(run)

    reads = ToolAnnotations(read_only_hint=True)
    for function, hints in ((prompt, ToolAnnotations(destructive_hint=True)), (status, reads), (cancel, None)):
        server.add_tool(function, annotations=hints)
    return server


async def _report(run: Run, ctx: Any) -> None:
    """Until it is over; each new piece of text is told as progress to a client that wants it."""
    number = 0
    while (event := await run.event(number)) is not None:
        number += 1
        if event["type"] == "message_created":
            await ctx.report_progress(number, message=event["message"]["parts"][0]["content"])
    with trio.CancelScope(shield=True):  # it is over; this does not wait
        await run.settled.wait()


def _known(host: Host, run_id: str) -> Run:
    run = host.runs.find(run_id)
    if run is None:
        raise ToolError(f"There is no run {run_id!r}: prompt answers with the run_id of a task")
    return run


def _told(run: Run) -> dict[str, Any]:
    texts = ["".join(part["content"] for part in one["parts"]) for one in run.output]
    return {
        "run_id": run.run_id,
        "session_id": run.session_id or "",
        "status": run.status,
        "answer": "\n\n".join(texts),
        "error": run.error or "",
    }
