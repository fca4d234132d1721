"""One session that is open for a client: one reader of its journal tells the client everything, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import trio

from aar.client import SessionHandle
from aar.errors import AarError
from aar.messages.events import (
    ApprovalRequested,
    ApprovalResolved,
    ConfigChanged,
    ErrorEvent,
    Event,
    ProviderMeta,
    Recorded,
    SessionEvent,
    ToolCall,
    TurnEnded,
)
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, merge_settings
from aar.revising import shown_records
from aar.runtime import reading_rule
from aar.transports.acp.calls import Call
from aar.transports.acp.casting import Offer
from aar.transports.acp.handshake import ClientCapabilities
from aar.transports.acp.modes import current_mode, mode_of, modes_of, options_of
from aar.transports.acp.permissions import Questions
from aar.transports.acp.previews import whole_change
from aar.transports.acp.rpc import Connection
from aar.transports.acp.tool_views import LARGEST_DIFF, Change
from aar.transports.acp.updates import Updates
from aar.usage import context_tokens

__all__ = ["LiveSession", "Shop"]

PACE = 64  # events that the client may be behind before the turn waits for it
CANCEL_PATIENCE = 10.0  # seconds in which a session that is told to stop gives its prompt's answer
TELLING_GRACE = 0.5  # seconds in which the client is told of a turn that was cancelled as it began

logger = logging.getLogger(__name__)


class Shop(NamedTuple):
    """What the sessions of one client have in common. `threads` look at files.

    `says_yes`: whoever started this answers every question with yes, until a mode that asks is chosen.
    """

    connection: Connection
    client: ClientCapabilities
    config: AgentConfig
    nursery: trio.Nursery
    threads: trio.CapacityLimiter
    says_yes: bool = False


class LiveSession:
    """Made by `Agent`. `begin` starts telling; what happened before is only told by `replay`."""

    def __init__(self, handle: SessionHandle, shop: Shop) -> None:
        self.handle = handle
        self.base = shop.config
        self.offer = Offer()
        self.turn_id = ""
        self.is_busy = False
        self.is_gone = False
        self.servers: tuple[McpServer, ...] = ()
        self._shop = shop
        self._patch = _patch_of(handle.records())
        self._config: AgentConfig | None = None
        self._updates = self._new_updates()
        self._forbidden = reading_rule(shop.config, handle.cwd, is_typed=False)
        self._shown = handle.seq
        self._moved = trio.Event()
        self._ready = trio.Event()
        self._idle = trio.Event()
        self._watching: trio.CancelScope | None = None
        self._stopped = trio.Event()
        self._attending: trio.CancelScope | None = None
        self._attended = trio.Event()
        self._unanswered: dict[str, ApprovalRequested] = {}
        self._trouble = ""
        self._command = trio.CancelScope()

    @property
    def config(self) -> AgentConfig:
        """The settings in force, as far as the client has been told of them."""
        if self._config is None:
            self._config = self.base.patched(self._patch) if self._patch else self.base
        return self._config

    @property
    def state(self) -> dict[str, Any]:
        """What an answer says of a session's modes and options."""
        return {"modes": modes_of(self.config, self.offer), "configOptions": self.options()}

    def options(self) -> list[dict[str, Any]]:
        return options_of(self.base, self.config, self.offer, booleans=self._shop.client.has_booleans)

    def notification(self, update: dict[str, Any]) -> dict[str, Any]:
        params = {"sessionId": self.handle.session_id, "update": update}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}

    async def tell(self, update: dict[str, Any]) -> None:
        params = {"sessionId": self.handle.session_id, "update": update}
        await self._shop.connection.notify("session/update", params)

    # --- reading along ---

    def begin(self) -> None:
        """Tell the client what happens from here on. Where that is done already it goes on."""
        if self._attending is None:
            self._attending = trio.CancelScope()
            self._shop.nursery.start_soon(self._attend, self._attending)
        if self._watching is not None and not self._stopped.is_set():
            return
        self._watching, self._stopped, self._ready = trio.CancelScope(), trio.Event(), trio.Event()
        self._shop.nursery.start_soon(self._watch, self._watching, self._stopped)

    async def end(self) -> None:
        """Tell nothing more, and answer no more questions."""
        if self._attending is not None:
            self._attending.cancel()
        await self._pause()
        self.is_gone = True  # whoever waits for what will not be told must not wait for ever
        self._wake()

    async def _pause(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await self._stopped.wait()

    async def _attend(self, scope: trio.CancelScope) -> None:
        try:
            with scope:
                async with self.handle.attend():
                    self._attended.set()
                    await trio.sleep_forever()
        except AarError as error:
            logger.info("questions of session %s cannot be answered: %s", self.handle.session_id, error)
        finally:
            self._attended.set()

    async def replay(self, *, after: int = 0) -> None:
        """Tell the client all that has happened so far; see `begin` for what comes then.

        Whoever leaves this early calls `go_on`, or `end`.
        """
        await self._pause()
        shown = self.handle.seq
        updates = self._new_updates()
        updates.replaying = True
        for record in shown_records(self.handle, after=after):
            if record.seq <= shown:
                for update in self._of(record, updates):
                    await self.tell(update)
        self._look_back(updates, shown)

    def go_on(self) -> None:
        """Tell again what happens, after a replay that was left: from where telling had stopped."""
        updates = self._new_updates()
        updates.replaying = True
        for record in self.handle.records():
            if record.seq <= self._shown:
                self._of(record, updates)
        self._look_back(updates, self._shown)
        self.begin()

    def _look_back(self, updates: Updates, shown: int) -> None:
        """From here on it is as if the client had been told so much, and by `updates`."""
        updates.replaying = False
        updates.is_behind = bool(self.turn_id)
        records = [record for record in self.handle.records() if record.seq <= shown]
        self._updates, self._shown = updates, shown
        self._patch, self._config = _patch_of(records), None
        self._unanswered = {}
        for record in records:
            self._note_question(record.event)
        self._wake()

    async def up_to_date(self) -> None:
        """Wait until the client has been sent all that is on record now."""
        newest = self.handle.seq
        while self._shown < newest and not self.is_gone:
            await self._moved.wait()

    def _new_updates(self) -> Updates:
        client = self._shop.client
        title = str(self.handle.metadata.get("title") or "")
        return Updates(
            self.handle.cwd,
            live_terminals=client.shows_output,
            notices=client.has_notices,
            title=" ".join(title.split()),
        )

    async def _watch(self, scope: trio.CancelScope, stopped: trio.Event) -> None:
        try:
            with scope:
                with self.handle.follow(after=self._shown, pace=PACE) as records:
                    async with trio.open_nursery() as nursery:
                        questions = Questions(self.handle, self._shop.connection, nursery)
                        for question in list(self._unanswered.values()):
                            self._ask(question, questions)
                        self._ready.set()
                        async for record in records:
                            await self._show(record, questions)
                        nursery.cancel_scope.cancel()
                self.is_gone = True
                if self._attending is not None:
                    self._attending.cancel()
        finally:
            stopped.set()
            self._ready.set()
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def _show(self, record: Recorded, questions: Questions) -> None:
        event = record.event
        if isinstance(event, ToolCall) and not self._updates.knows_change(event.tool_call_id):
            change = await whole_change(event, self.handle.cwd, self._forbidden, self._shop.threads)
            if change is not None and not self._updates.knows_change(event.tool_call_id):
                self._updates.note_change(event.tool_call_id, change)
        for update in self._of(record, self._updates):
            await self.tell(update)
        try:
            await self._follow_up(event, questions)
        except AarError:
            raise
        except Exception as bug:  # the same wall
            logger.error("what follows an event of session %s failed", self.handle.session_id, exc_info=bug)
        if record.seq:
            self._shown = record.seq
            self._wake()

    def _of(self, record: Recorded, updates: Updates) -> list[dict[str, Any]]:
        try:
            return list(updates.of(record))
        except Exception as bug:  # a wall: what cannot be shown must not end what runs
            logger.error("an event of session %s could not be shown", self.handle.session_id, exc_info=bug)
            return []

    def _note_question(self, event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            self._unanswered[event.tool_call_id] = event
        elif isinstance(event, ApprovalResolved):
            self._unanswered.pop(event.tool_call_id, None)

    async def _follow_up(self, event: Event, questions: Questions) -> None:
        self._note_question(event)
        match event:
            case ProviderMeta():
                await self._tell_usage(event)
            case ErrorEvent():
                self._trouble = event.message
            case ConfigChanged() | SessionEvent():
                self._patch, self._config = _patched(self._patch, event), None
                await self._tell_state()
            case ApprovalRequested():
                self._ask(event, questions)
            case ApprovalResolved():
                questions.settle(event.tool_call_id)

    def _ask(self, question: ApprovalRequested, questions: Questions) -> None:
        if self._shop.says_yes and mode_of(self.config.safety) == "auto":
            questions.agree(question.tool_call_id)
        else:
            questions.ask(question.tool_call_id, self._asked(question))

    def _asked(self, question: ApprovalRequested) -> dict[str, Any]:
        shown = self._updates.calls.get(question.tool_call_id)
        if shown is not None:
            return shown.fields
        call = ToolCall(tool_name=question.tool_name, tool_call_id=question.tool_call_id, arguments=question.arguments)
        return self._updates.asked(call)

    async def _tell_usage(self, meta: ProviderMeta) -> None:
        size = self.config.effective_context_window
        if not size:
            return
        try:
            status = await self.handle.status()
        except AarError:  # the session is ending; its numbers are in its file
            return
        used = context_tokens(meta.provider, meta.usage)
        cost = {"amount": round(status.cost, 6), "currency": "USD"}
        await self.tell({"sessionUpdate": "usage_update", "used": used, "size": size, "cost": cost})

    async def _tell_state(self) -> None:
        await self.tell({"sessionUpdate": "current_mode_update", "currentModeId": current_mode(self.config)})
        await self.tell({"sessionUpdate": "config_option_update", "configOptions": self.options()})

    # --- what tools of the client's have to tell ---

    def note_change(self, call_id: str, change: Change) -> None:
        if len(change.old or "") + len(change.new) <= LARGEST_DIFF:
            self._updates.note_change(call_id, change)

    async def show_terminal(self, call_id: str, terminal_id: str) -> None:
        """The call runs in this terminal of the client's."""
        await self.up_to_date()
        update = self._updates.note_terminal(call_id, terminal_id)
        if update is not None:
            await self.tell(update)

    # --- prompts and changes ---

    async def prompt(self, text: str, call: Call) -> tuple[TurnEnded, str]:
        """Run a turn; everything it told has been sent when this returns. Answers with its end and what went wrong."""
        await self._ready.wait()
        await self._attended.wait()  # so that the first question finds somebody
        self._trouble = ""
        try:
            async with self.handle.running(text) as (turn_id, ended):
                self.turn_id = turn_id
                call.cancel = self.cancel_soon
                call.release()
                end = await ended()
        except trio.Cancelled:  # it came just as the turn began, which has been ended by now
            with trio.move_on_after(TELLING_GRACE, shield=True):
                await self.up_to_date()
            raise
        finally:
            self.turn_id = ""
        await self.up_to_date()
        return end, self._trouble

    @contextmanager
    def command(self) -> Iterator[trio.CancelScope]:
        """Inside this block a command of an extension runs; `cancel` ends it."""
        with trio.CancelScope() as self._command:
            yield self._command

    def cancel_soon(self) -> None:
        self._shop.nursery.start_soon(self.cancel)

    async def cancel(self) -> None:
        """End the running prompt; without one nothing happens, now or later."""
        self._command.cancel()
        if self.turn_id:
            try:
                await self.handle.cancel(self.turn_id)
            except AarError as error:
                logger.info("session %s could not be cancelled: %s", self.handle.session_id, error)

    def set_busy(self, is_busy: bool) -> None:
        self.is_busy = is_busy
        if not is_busy:
            self._idle.set()
            self._idle = trio.Event()

    async def end_prompt(self) -> None:
        """Cancel what runs, and wait until its prompt has its answer."""
        await self.cancel()
        with trio.move_on_after(CANCEL_PATIENCE):
            while self.is_busy:
                await self._idle.wait()

    async def configure(self, patch: dict[str, Any]) -> None:
        """Change settings; the client has been told when this returns. Raises `InvalidSetting`."""
        await self.ready()
        await self.handle.configure(patch)
        await self.up_to_date()

    async def ready(self) -> None:
        """Wait until the client is told what happens."""
        await self._ready.wait()


def _patch_of(records: Sequence[Recorded]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for record in records:
        if isinstance(record.event, ConfigChanged | SessionEvent):
            patch = _patched(patch, record.event)
    return patch


def _patched(patch: dict[str, Any], event: Event) -> dict[str, Any]:
    """What is changed in a session's settings after this event; each opening begins with those of the files."""
    if isinstance(event, ConfigChanged):
        return merge_settings(patch, event.patch)
    return {} if isinstance(event, SessionEvent) and event.action in ("started", "resumed", "forked") else patch
