"""The tools that other agents get: prompt, status, cancel.

Imports the MCP package, which is heavy and need not be there: to be imported where it is used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import trio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, Field, ValidationError

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

Context = ServerRequestContext[Any, Any]


class _Task(BaseModel):
    text: str = Field(min_length=1, description="What Aar is to do, in words.")
    session_id: str = Field("", description="Go on with this session; empty begins a new one.")
    wait: bool = Field(True, description="Answer when the task is done; false answers at once, with a run_id.")


class _OneRun(BaseModel):
    run_id: str = Field(min_length=1, description="The run_id that prompt answered with.")


class _Told(BaseModel):
    run_id: str
    session_id: str
    status: str = Field(description="created, in-progress, completed, failed or cancelled.")
    answer: str = Field(description="What Aar has said.")
    error: str = Field(description="Of a failed task, what went wrong.")


class _Offer(NamedTuple):
    name: str
    description: str
    arguments: type[BaseModel]
    hints: ToolAnnotations
    serve: Callable[[Context, Any], Awaitable[Run]]

    def as_tool(self) -> Tool:
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=_Told.model_json_schema(),
            annotations=self.hints,
        )


def build_server(host: Host, name: str, description: str) -> Server[Any]:
    """The server over the runs of `host`, which must be there before the first tool is called."""
    offers = {offer.name: offer for offer in _offers(host, name)}

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[offer.as_tool() for offer in offers.values()])

    async def call_tool(context: Context, called: CallToolRequestParams) -> CallToolResult:
        offer = offers.get(called.name)
        if offer is None:
            return _wrong(f"There is no tool {called.name!r}: there are {', '.join(offers)}.")
        try:
            given = offer.arguments.model_validate(called.arguments or {})
            return _told(await offer.serve(context, given))
        except ValidationError as error:
            return _wrong("\n".join(f"{_place(one['loc'])}: {one['msg']}" for one in error.errors()))
        except Refused as refused:
            return _wrong(str(refused))

    return Server(
        name,
        version=__version__,
        description=description,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _offers(host: Host, name: str) -> list[_Offer]:
    async def prompt(context: Context, task: _Task) -> Run:
        if not task.text.strip():
            raise Refused(400, "text is empty: say what Aar is to do")
        request = RunRequest(task.text, "sync" if task.wait else "async", task.session_id or None)
        run = Run(name, request=request)
        host.runs.check_room()
        host.runs.begin(run)
        if not task.wait:
            await run.placed.wait()
            return run
        try:
            await _report(run, context)
        finally:
            run.cancel()  # whoever waited has left; one that is over stays as it is
        return run

    async def status(_: Context, which: _OneRun) -> Run:
        return _known(host, which.run_id)

    async def cancel(_: Context, which: _OneRun) -> Run:
        run = _known(host, which.run_id)
        run.cancel()
        await run.settled.wait()
        return run

    changes, reads = ToolAnnotations(destructive_hint=True), ToolAnnotations(read_only_hint=True)
    return [
        _Offer("prompt", "Give Aar a task, or a further one in the same session.", _Task, changes, prompt),
        _Offer("status", "How far a task is, and what Aar has said.", _OneRun, reads, status),
        _Offer("cancel", "End a task. What was done until now stays.", _OneRun, ToolAnnotations(), cancel),
    ]


async def _report(run: Run, context: Context) -> None:
    """Until it is over; each new piece of text is told as progress to a client that wants it."""
    number = 0
    while (found := await run.event(number)) is not None:
        event, number = found
        if event["type"] == "message_created":
            await context.session.report_progress(number, None, event["message"]["parts"][0]["content"])
    with trio.CancelScope(shield=True):  # it is over; this does not wait
        await run.settled.wait()


def _known(host: Host, run_id: str) -> Run:
    run = host.runs.find(run_id)
    if run is None:
        raise Refused(404, f"There is no run {run_id!r}: prompt answers with the run_id of a task")
    return run


def _told(run: Run) -> CallToolResult:
    texts = ["".join(part["content"] for part in one["parts"]) for one in run.output]
    told = _Told(
        run_id=run.run_id,
        session_id=run.session_id or "",
        status=run.status,
        answer="\n\n".join(texts),
        error=run.error or "",
    )
    return CallToolResult(
        content=[TextContent(type="text", text=told.model_dump_json(indent=2))],
        structured_content=told.model_dump(),
    )


def _wrong(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "arguments"
