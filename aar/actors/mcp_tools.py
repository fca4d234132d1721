"""The MCP servers of one session: their tools in its toolbox, and what is told about them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from aar.errors import AarError, ActorError, McpCollision, McpError, McpUnavailable, StoreError
from aar.kernel import Envelope, Ref
from aar.mcp.names import prefixed_name, tool_name
from aar.messages.events import Notice
from aar.messages.mcp import (
    CallServerTool,
    McpCommand,
    McpListing,
    McpServer,
    McpState,
    McpStatus,
    McpTool,
    WatchServer,
)
from aar.messages.session import AskMcp, ListMcp
from aar.messages.tools import SideEffect, ToolOutcome
from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec

__all__ = ["FIRST_TURN_PATIENCE", "SessionServers"]

TOLD_LOSSES = 10  # of one server and session; one that comes and goes all day must not fill the journal
TOLD_NAMES = 20  # of tools that are called otherwise than their server calls them
FIRST_TURN_PATIENCE = 10.0  # seconds that a turn waits for servers that have never answered yet
EDITION = 32  # characters that tell two editions of a tool apart
FORMER_NAMES = 1000  # tools that are gone and whose names are kept for them

logger = logging.getLogger(__name__)


class Notebook(Protocol):
    """Where notices go: a session's journal, or whatever takes its place."""

    async def append(self, *notices: Notice) -> Any: ...


@dataclass
class _Seat:
    """A server in this session. `names` are those of its tools here, by the server's own.

    They stay when a tool goes and comes back, unless very many others have come meanwhile.
    """

    server: McpServer
    ref: Ref[McpCommand]
    listing: McpListing = field(default_factory=McpListing)
    names: dict[str, str] = field(default_factory=dict)
    present: dict[str, McpTool] = field(default_factory=dict)  # what stands in the toolbox, by its name there
    told: McpState = "connecting"
    losses: int = 0
    is_in: bool = False  # its tools have been listed once
    in_the_way: dict[str, str] = field(default_factory=dict)  # tools whose name is taken here, and what is told of them
    told_left_out: set[str] = field(default_factory=set)

    @property
    def is_settled(self) -> bool:
        return self.listing.state != "connecting"

    @property
    def left_out(self) -> tuple[str, ...]:
        return (*self.listing.left_out, *self.in_the_way.values())


class SessionServers:
    """Keeps a toolbox in step with servers. Tools stay while a server is dialled again: a new listing removes them.

    Servers are taken in in the order in which they were named, so that names that collide come out the same every time;
    the first turn waits `FIRST_TURN_PATIENCE` for them and then takes those that are there.

    With `refused` names a collision, with them or in the toolbox, is no reason for a prefix: `keep` raises
    `McpCollision`. A tool that comes later is left out then.
    """

    def __init__(
        self,
        servers: Sequence[tuple[McpServer, Ref[McpCommand]]],
        toolbox: ToolRegistry,
        journal: Notebook,
        *,
        refused: Collection[str] | None = None,
    ) -> None:
        self._seats = [_Seat(server, ref) for server, ref in servers]
        self._toolbox = toolbox
        self._journal = journal
        self._refused = refused
        self._settled = trio.Event()
        self._is_patient = True
        if not self._seats:
            self._settled.set()

    async def keep(self) -> None:
        """Follow the servers until cancelled."""
        async with trio.open_nursery() as nursery:
            for seat in self._seats:
                nursery.start_soon(self._watch, seat)

    async def ready(self) -> None:
        """For a turn that is about to begin. Returns at once when every server has answered or failed before."""
        if self._settled.is_set() or not self._is_patient:
            return
        with trio.move_on_after(FIRST_TURN_PATIENCE):
            await self._settled.wait()
        if self._is_patient:
            self._is_patient = False
            await self._take_in()

    async def statuses(self, *, wait: bool = False) -> tuple[McpStatus, ...]:
        """The servers as they are, or, with `wait`, when each has answered or failed once."""
        if wait:
            await self._settled.wait()
        return tuple(self._status(seat) for seat in self._seats)

    def take_back(self) -> None:
        """Remove their tools from the toolbox."""
        for seat in self._seats:
            for name in seat.present:
                self._toolbox.remove(name)
            seat.present = {}

    async def answer(self, envelope: Envelope[Any]) -> None:
        """A client's question about the servers, or for one of them."""
        try:
            match envelope.message:
                case ListMcp(wait=wait):
                    envelope.reply(await self.statuses(wait=wait))
                case AskMcp(server=name, request=request):
                    envelope.reply(await self._named(name).ref.ask(request))
        except ActorError as error:
            envelope.fail(McpUnavailable(str(error)))
        except AarError as error:
            envelope.fail(error)

    def _named(self, name: str) -> _Seat:
        for seat in self._seats:
            if seat.server.name == name:
                return seat
        there = ", ".join(seat.server.name for seat in self._seats) or "none"
        raise McpError(f"this session has no MCP server named {name!r}; it has: {there}")

    def _status(self, seat: _Seat) -> McpStatus:
        return McpStatus(
            name=seat.server.name,
            state=seat.listing.state,
            reason=seat.listing.reason,
            tools=tuple(tool.model_copy(update={"name": name}) for name, tool in seat.present.items()),
            left_out=seat.left_out,
        )

    # --- following ----------------------------------------------------------------------------

    async def _watch(self, seat: _Seat) -> None:
        while True:
            try:
                seat.listing = await seat.ref.ask(WatchServer(after=seat.listing.version))
            except ActorError as error:
                gone = {"state": "failed", "reason": str(error), "version": seat.listing.version}
                seat.listing = seat.listing.model_copy(update=gone)
                await self._take_in()
                return
            await self._take_in()

    async def _take_in(self) -> None:
        """Bring the toolbox up to date and tell what has changed."""
        notices: list[Notice] = []
        for seat in self._seats:
            if not seat.is_settled and self._is_patient:
                break  # a later one must not take a name that this one may want
            notices += self._changes(seat)
        if not self._settled.is_set() and all(seat.is_settled for seat in self._seats):
            self._settled.set()
        if notices:
            try:
                await self._journal.append(*notices)
            except StoreError as error:
                logger.error("MCP servers: what they did could not be recorded: %s", error)

    def _changes(self, seat: _Seat) -> list[Notice]:
        notices = []
        if seat.listing.state == "connected":
            notices += [*self._register(seat), *_left_out_notice(seat)]
        if seat.told != seat.listing.state:
            notices += self._state_notices(seat)
            seat.told = seat.listing.state
        return notices

    def _state_notices(self, seat: _Seat) -> list[Notice]:
        if seat.listing.state == "failed":
            seat.losses += 1
            if seat.losses > TOLD_LOSSES:
                return []
            verb = "was lost" if seat.is_in else "could not be connected"
            more = " This is not told any more." if seat.losses == TOLD_LOSSES else ""
            reason = seat.listing.reason.rstrip(".")
            return [_notice(seat, f"MCP server {seat.server.name!r} {verb}: {reason}.{more}")]
        if seat.told == "failed" and seat.losses < TOLD_LOSSES:
            return [_notice(seat, f"MCP server {seat.server.name!r} is connected now.")]
        return []

    # --- tools --------------------------------------------------------------------------------

    def _register(self, seat: _Seat) -> list[Notice]:
        seat.in_the_way = {}
        wanted = dict(self._named_tools(seat))
        if len(seat.names) > len(wanted) + FORMER_NAMES:
            seat.names = {tool.name: name for name, tool in wanted.items()}
        if wanted == seat.present:
            seat.is_in = True
            return []
        for name in seat.present.keys() - wanted.keys():
            self._toolbox.remove(name)
        for name, tool in wanted.items():
            if seat.present.get(name) != tool:
                self._toolbox.add(_spec(name, tool, seat))
        notices = [*self._renamed(seat, wanted), *_changed_notice(seat, wanted)]
        seat.present, seat.is_in = wanted, True
        return notices

    def _named_tools(self, seat: _Seat) -> Iterator[tuple[str, McpTool]]:
        for tool in seat.listing.tools:
            try:
                yield self._name_for(seat, tool), tool
            except McpCollision as collision:
                if not self._settled.is_set():
                    raise
                logger.warning("%s It is left out.", collision)
                seat.in_the_way[tool.name] = f"{tool.name!r} (there is another tool of this name)"

    def _name_for(self, seat: _Seat, tool: McpTool) -> str:
        if tool.name not in seat.names:
            seat.names[tool.name] = self._free_name(seat, tool.name)
        return seat.names[tool.name]

    def _free_name(self, seat: _Seat, name: str) -> str:
        taken = {*self._toolbox.names(), *(one for other in self._seats for one in other.names.values())}
        prefixed = prefixed_name(seat.server.name, name)
        plain = prefixed if seat.server.prefix_tools else tool_name(name)
        if self._refused is not None and plain in {*taken, *self._refused}:
            raise McpCollision(
                f"MCP server {seat.server.name!r}: there is another tool named {plain!r}. Set prefix_tools=True on it."
            )
        for candidate in (plain, prefixed):
            if candidate not in taken:
                return candidate
        number = 2
        while (candidate := tool_name(f"{prefixed}_{number}")) in taken:
            number += 1
        return candidate

    @staticmethod
    def _renamed(seat: _Seat, wanted: dict[str, McpTool]) -> Iterable[Notice]:
        """One notice for all: a server may well have a dozen tools that another one has, too."""
        new = [(name, tool) for name, tool in wanted.items() if name not in seat.present]
        renamed = [
            (tool.name, name) for name, tool in new if name != tool_name(tool.name) and not seat.server.prefix_tools
        ]
        if len(renamed) == 1:
            ((former, name),) = renamed
            text = f"There is another tool named {former!r}: that of MCP server {seat.server.name!r} is {name!r}."
            yield _notice(seat, text)
        elif renamed:
            names = ", ".join(name for _, name in renamed[:TOLD_NAMES])
            more = f" and {len(renamed) - TOLD_NAMES} more" if len(renamed) > TOLD_NAMES else ""
            text = f"{len(renamed)} tools of MCP server {seat.server.name!r} have names that are taken; they are"
            yield _notice(seat, f"{text} {names}{more}.")


def _changed_notice(seat: _Seat, wanted: dict[str, McpTool]) -> list[Notice]:
    """Only for what changes later on: the model is told of other tools than before."""
    if not seat.is_in:
        return []
    kinds = {
        "added": [name for name in wanted if name not in seat.present],
        "removed": [name for name in seat.present if name not in wanted],
        "changed": [name for name in wanted if name in seat.present and wanted[name] != seat.present[name]],
    }
    told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
    return [_notice(seat, f"The tools of MCP server {seat.server.name!r} are others now; {told}.")]


def _left_out_notice(seat: _Seat) -> list[Notice]:
    """Of each tool once; a server that lists others all the time must not fill the journal."""
    new = [one for one in seat.left_out if one not in seat.told_left_out]
    if not new or len(seat.told_left_out) > FORMER_NAMES:
        return []
    seat.told_left_out.update(new)
    return [_notice(seat, f"Tools of MCP server {seat.server.name!r} are left out: {', '.join(new)}.")]


def _notice(seat: _Seat, text: str) -> Notice:
    return Notice(kind="mcp", text=text, data={"server": seat.server.name, "state": seat.listing.state})


def _spec(name: str, tool: McpTool, seat: _Seat) -> ToolSpec:
    """A tool of the session that asks the server."""

    async def call(*, _context_of_the_call: ToolContext, **arguments: Any) -> ToolOutcome:
        context = _context_of_the_call  # by a name that no argument of a tool has
        request = CallServerTool(
            tool=tool.name, arguments=arguments, limit=context.config.max_output_chars, report=context.report
        )
        try:
            result = await seat.ref.ask(request)
        except ActorError as error:
            raise McpUnavailable(f"MCP server {seat.server.name!r} does not run any more") from error
        return ToolOutcome(result.text, is_error=result.is_error)

    effects = (SideEffect.EXTERNAL, SideEffect.READ) if tool.is_read_only else (SideEffect.EXTERNAL,)
    return ToolSpec(
        name=name,
        description=tool.description,
        input_schema=tool.input_schema,
        side_effects=effects,
        handler=call,
        edition=_edition(tool, seat.server),
    )


def _edition(tool: McpTool, server: McpServer) -> str:
    """A server may put something else behind a name that was allowed for good: then it is another edition."""
    told = [server.name, tool.name, tool.description, tool.input_schema]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:EDITION]
