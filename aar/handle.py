"""One session in use: what is said to it goes to its mailbox, what happens is read from its journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from typing import Any

import trio

from aar.errors import AarError, ActorCrashed, ActorStopped, ExtensionError, InvalidMessage
from aar.journal.journal import Follower, Journal
from aar.journal.state import Session
from aar.kernel import Ref
from aar.kernel.alone import errors_alone
from aar.messages.approvals import ApprovalsCommand, Attend, Decide, DecisionName
from aar.messages.content import ContentBlock, TextBlock
from aar.messages.events import Compacted, Event, Notice, Recorded, SessionEvent, TurnEnded
from aar.messages.mcp import (
    GetServerPrompt,
    ListPrompts,
    ListResources,
    McpPrompt,
    McpResource,
    McpStatus,
    ReadResource,
)
from aar.messages.session import (
    Adopt,
    AskMcp,
    AutoApprove,
    Cancel,
    ClearQueue,
    CommandInfo,
    Compact,
    Configure,
    FollowUp,
    GetStatus,
    ListCommands,
    ListMcp,
    ListQueue,
    ListTools,
    Prompt,
    Queue,
    Revoke,
    RunCommand,
    SessionCommand,
    SessionInfo,
    Status,
    Steer,
    ToolInfo,
)
from aar.messages.settings import AgentConfig

__all__ = ["PromptContent", "SessionHandle", "check_prompt", "opening_problems"]

OWNER_GRACE = 15.0  # seconds the owner of a turn waits for its end after cancelling it

PromptContent = str | list[ContentBlock]
Turn = tuple[str, Callable[[], Awaitable[TurnEnded]]]


def check_prompt(content: object) -> None:
    """Raises `TypeError` for what is no prompt, `InvalidMessage` for one that says nothing."""
    if not isinstance(content, str | list):
        raise TypeError(f"a prompt is text or a list of content blocks, not {content!r}")
    blocks = [TextBlock(text=content)] if isinstance(content, str) else content
    if all(isinstance(block, TextBlock) and not block.text.strip() for block in blocks):
        raise InvalidMessage("the prompt is empty: say what is to be done")


def _prompt(content: PromptContent) -> Prompt:
    return Prompt(content=content) if isinstance(content, str) else Prompt(parts=content)


class SessionHandle:
    """One live session. Cheap; any number of handles may be held on the same one."""

    def __init__(
        self,
        info: SessionInfo,
        ref: Ref[SessionCommand],
        approvals: Ref[ApprovalsCommand],
        journal: Journal,
    ) -> None:
        self.info = info
        self._ref = ref
        self._approvals = approvals
        self._journal = journal

    @property
    def session_id(self) -> str:
        return self.info.session_id

    @property
    def cwd(self) -> str:
        return self.info.cwd

    @property
    def seq(self) -> int:
        """The newest fact."""
        return self._journal.seq

    @property
    def guests(self) -> int:
        """How many other processes are attached to it."""
        return self._journal.guests

    # --- saying things ---

    async def prompt(self, content: PromptContent) -> TurnEnded:
        """Run a turn and wait for its end. Leaving early leaves the turn running: others may be watching.

        Raises `InvalidMessage` when it is empty, `QueueFull`, `SessionClosed`, `ActorCrashed`, `StoreUnavailable`.
        """
        check_prompt(content)
        return await self._ref.ask(_prompt(content))

    async def run(self, content: PromptContent) -> TurnEnded:
        """Run a turn that belongs to the caller: if the caller is cancelled, so is the turn, before this returns."""
        async with self.running(content) as (_, ended):
            return await ended()

    @asynccontextmanager
    async def running(self, content: PromptContent, *, turn_id: str = "", goes_on: bool = False) -> AsyncIterator[Turn]:
        """A turn of the caller's own for as long as the block lasts.

        Yields its turn id and a function that waits for its end. A turn that has not ended when the block is left is
        cancelled and waited for, at most 15 seconds. With `goes_on` nothing new is said, and `content` is left out.
        """
        if not goes_on:
            check_prompt(content)
        named = {"turn_id": turn_id} if turn_id else {}
        command = _prompt(content).model_copy(update={**named, "goes_on": goes_on})
        is_over = False
        async with self._ref.asking(command) as answer:

            async def ended() -> TurnEnded:
                nonlocal is_over
                try:
                    end = await answer()
                except AarError:
                    is_over = True
                    raise
                is_over = True
                return end

            try:
                yield command.turn_id, ended
            finally:
                if not is_over:
                    with trio.move_on_after(OWNER_GRACE, shield=True):
                        with suppress(AarError):  # a session that is being stopped takes no more messages,
                            await self._ref.tell(Cancel(turn_id=command.turn_id))
                        with suppress(AarError):  # and still answers what it has taken
                            await answer()

    async def steer(self, content: str) -> None:
        """Say something to the running turn: the model sees it at its next step."""
        check_prompt(content)
        await self._ref.tell(Steer(content=content))

    async def follow_up(self, content: str) -> None:
        """Say something when the turn would stop: it goes on with it."""
        check_prompt(content)
        await self._ref.tell(FollowUp(content=content))

    async def cancel(self, turn_id: str | None = None, *, after_step: bool = False) -> None:
        """End the running turn, or one that waits. `after_step` lets the step that runs finish first."""
        await self._ref.tell(Cancel(turn_id=turn_id, after_step=after_step))

    async def compact(self, instructions: str = "") -> Compacted:
        """Replace what was said so far by a summary that the model writes."""
        return await self._ref.ask(Compact(instructions=instructions))

    # --- MCP servers ---

    async def mcp_servers(self, *, wait: bool = False) -> tuple[McpStatus, ...]:
        """The MCP servers of the session, with their tools under the names that they have here.

        `wait` until each of them has connected or failed once, at most 15 seconds after the session was opened.
        """
        return await self._ref.ask(ListMcp(wait=wait))

    async def mcp_resources(self, server: str) -> tuple[McpResource, ...]:
        """What an MCP server of this session offers to read. Raises `McpError`, like the three that follow."""
        found: tuple[McpResource, ...] = await self._ref.ask(AskMcp(server=server, request=ListResources()))
        return found

    async def read_mcp_resource(self, server: str, uri: str) -> str:
        """The text of a resource; a line in its place for what is no text."""
        text: str = await self._ref.ask(AskMcp(server=server, request=ReadResource(uri=uri)))
        return text

    async def mcp_prompts(self, server: str) -> tuple[McpPrompt, ...]:
        """The prompts that an MCP server offers."""
        found: tuple[McpPrompt, ...] = await self._ref.ask(AskMcp(server=server, request=ListPrompts()))
        return found

    async def mcp_prompt(self, server: str, name: str, arguments: dict[str, str] | None = None) -> str:
        """A prompt of an MCP server, filled in: the text of its messages."""
        request = GetServerPrompt(name=name, arguments=arguments or {})
        text: str = await self._ref.ask(AskMcp(server=server, request=request))
        return text

    # --- the queue and the settings ---

    async def queue(self) -> Queue:
        return await self._ref.ask(ListQueue())

    async def clear_queue(self) -> Queue:
        """Drop the waiting prompts; answers what was dropped."""
        return await self._ref.ask(ClearQueue())

    async def status(self) -> Status:
        return await self._ref.ask(GetStatus())

    async def tools(self, *, everything: bool = False) -> tuple[ToolInfo, ...]:
        """The tools that the model can use now, sorted by name; or all, also those that the settings keep from it."""
        return await self._ref.ask(ListTools(everything=everything))

    async def commands(self) -> tuple[CommandInfo, ...]:
        """The slash commands that extensions bring, sorted by name."""
        return await self._ref.ask(ListCommands())

    async def panels(self) -> dict[str, str]:
        """What extensions have to say beside the conversation, by the names of their panels; see `ExtensionAPI.panel`.

        Runs their code: one that fails stands there with what went wrong.
        """
        drawn: dict[str, str] = {}
        for one in await self._ref.ask(ListCommands(panels=True)):
            try:
                text = await self.run_command(one.name)
            except ExtensionError as error:
                text = str(error)
            if text:
                drawn[one.name.partition(":")[2]] = text
        return drawn

    async def run_command(self, name: str, arguments: str = "") -> str | None:
        """Run a slash command of an extension; gives what to show. Leaving early cancels it.

        Raises `ExtensionError` when there is no such command or it fails, `QueueFull`.
        """
        return (await self._ref.ask(RunCommand(name=name, arguments=arguments))).text

    async def run_shell(self, command: str) -> str:
        """What a shell command says that a person asked for, run as the tool `bash` would run it for the model.

        It is under the same rules, and may be asked about: somebody has to attend the session. Leaving early ends it.
        Raises `ToolError` when it may not run, `SessionError` during a turn.
        """
        return (await self._ref.ask(RunCommand(name="bash", arguments=command, is_shell=True))).text or ""

    async def configure(self, patch: dict[str, Any]) -> AgentConfig:
        """Change settings of this session from its next step or tool call on. Raises `InvalidSetting`."""
        return await self._ref.ask(Configure(patch=patch))

    async def adopt(self, facts: list[Event], *, after_seq: int | None = None) -> int:
        """Record facts that were made elsewhere.

        Raises `SessionError` during a turn, and when `after_seq` is not the newest fact.
        """
        return await self._ref.ask(Adopt(facts=facts, after_seq=after_seq))

    # --- approvals ---

    @asynccontextmanager
    async def attend(self) -> AsyncIterator[None]:
        """Inside this block somebody is there to answer the session's questions. Without it the answer is no."""
        with errors_alone():
            async with trio.open_nursery() as nursery:
                await nursery.start(self._attend)
                yield
                nursery.cancel_scope.cancel()

    async def _attend(self, *, task_status: trio.TaskStatus[None]) -> None:
        is_first = True
        while True:
            try:
                async with self._approvals.asking(Attend(session_id=self.session_id)) as answer:
                    if is_first:
                        task_status.started()
                        is_first = False
                    await answer()
            except ActorCrashed:
                continue  # it is running again by now; attend it anew
            except ActorStopped:
                if is_first:
                    raise
                return  # the runtime ends; there is nothing left to ask

    async def decide(self, tool_call_id: str, decision: DecisionName, *, by: str = "client") -> bool:
        """Answer a question; the first answer counts. Tells whether this was it. `by` is what the facts name."""
        return await self._approvals.ask(
            Decide(session_id=self.session_id, tool_call_id=tool_call_id, decision=decision, by=by)
        )

    async def auto_approve(self, entry: str) -> None:
        """Allow beforehand: a tool, or `tool:prefix*`."""
        await self._ref.tell(AutoApprove(entry=entry))

    async def revoke(self, entry: str) -> None:
        """Take standing decisions about a tool or entry back."""
        await self._ref.tell(Revoke(entry=entry))

    # --- reading ---

    def follow(self, *, after: int = 0, pace: int = 0, every: float = 0.03) -> Follower:
        """Read facts after `after`, then what happens, until the session is closed; see `Journal.follow`."""
        return self._journal.follow(after=after, pace=pace, every=every)

    def records(self, *, after: int = 0) -> list[Recorded]:
        """The facts so far."""
        return [record for record in self._journal.records if record.seq > after]

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of what is kept beside the facts: `cwd`, `title`, `guardrails`, ..."""
        return deepcopy(self._journal.session.metadata)

    def snapshot(self) -> Session:
        """A copy of what is known about the session now; the caller's own."""
        copy = Session(self.session_id, trace_id=self._journal.session.trace_id)
        for record in self._journal.records:
            copy.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        copy.metadata = self.metadata
        copy.continue_totals(self._journal.session.header())
        return copy


def opening_problems(handle: SessionHandle) -> list[str]:
    """What people should know of how a session was opened: a journal that was cut, extensions that were not loaded."""
    events, kinds = [record.event for record in handle.records()], ("journal_recovered", "extension", "skill")
    opened = max((at for at, event in enumerate(events) if isinstance(event, SessionEvent)), default=0)
    return [event.text for event in events[opened:] if isinstance(event, Notice) and event.kind in kinds]
