"""From loaded extensions to what one session gets of them: tools, hooks, commands, and who follows its journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import trio

from aar.actors.additions import PANEL, Additions, Command, Observer
from aar.errors import ExtensionError
from aar.extensions.api import HOOK_TIMEOUT, Contributions, ExtensionContext, SessionFacts
from aar.extensions.calling import call, call_within
from aar.extensions.loading import Loaded
from aar.extensions.observing import OBSERVED, observe
from aar.hooks import Block, Hooks
from aar.journal.journal import Journal
from aar.messages.base import new_turn_id
from aar.messages.content import TextBlock
from aar.messages.events import ToolCall, ToolResult, UserMessage
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.messages.settings import AgentConfig, merge_patch
from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.schema import context_parameter

if TYPE_CHECKING:
    from aar.injectors import Injectors

__all__ = ["additions_of"]

_Named = TypeVar("_Named", ToolSpec, Command)

logger = logging.getLogger(__name__)


def additions_of(
    extensions: Sequence[Loaded], journal: Journal, config: AgentConfig, problems: Iterable[str] = ()
) -> Additions:
    """What these extensions add to the session of this journal. A later one's tool or command wins over an earlier."""
    view = _View(journal, config)
    bound = [_Bound(one, one.api, view) for one in extensions if one.api is not None]
    hooks = Hooks()
    for one in bound:
        hooks = hooks.and_then(one.hooks())
    tools: dict[str, ToolSpec] = {}
    commands: dict[str, Command] = {}
    for one in bound:
        _add(tools, one.tools(), one.loaded)
        _add(commands, [*one.commands(), *one.panels()], one.loaded)
    return Additions(
        tools=tuple(tools.values()),
        hooks=hooks,
        prompt=tuple(text for one in bound for text in one.api.prompt),
        commands=tuple(commands.values()),
        observers=tuple(observer for one in bound for observer in one.observers()),
        problems=(*problems, *(problem for one in bound for problem in one.unknown_settings())),
    )


def _add(known: dict[str, _Named], more: Iterable[_Named], loaded: Loaded) -> None:
    for one in more:
        if one.name in known:
            logger.warning("%r of extension %s takes the place of another extension's", one.name, loaded.found.name)
        known[one.name] = one


class _View:
    """What contexts show of a session: always as it is at that moment."""

    def __init__(self, journal: Journal, base: AgentConfig) -> None:
        self.journal = journal
        self.cwd = str(journal.session.metadata.get("cwd", ""))
        self.base = base
        self._patch: dict[str, Any] = {}
        self._config = base

    @property
    def config(self) -> AgentConfig:
        patch = self.journal.session.patch
        if patch is not self._patch:
            self._patch, self._config = patch, self.base.patched(patch) if patch else self.base
        return self._config

    def facts(self) -> SessionFacts:
        fold, records = self.journal.session, list(self.journal.records)
        return SessionFacts(fold.session_id, fold.trace_id, records, deepcopy(fold.metadata), fold.header())


class _Bound(NamedTuple):
    """One extension in one session."""

    loaded: Loaded
    api: Contributions
    view: _View

    @contextmanager
    def context(self, call_context: ToolContext | None = None) -> Iterator[ExtensionContext]:
        """For one call; its signal is set when the block is left."""
        signal, view = trio.Event(), self.view
        try:
            yield ExtensionContext(
                view.config, signal, self.loaded.logger, view.cwd, view.facts, call_context, self.settings()
            )
        finally:
            signal.set()

    def settings(self) -> dict[str, Any]:
        """Of those that the session was opened with: a client that changes settings must not loosen a guard."""
        told, name = self.view.base.extensions, self.loaded.found.name
        here = told.local.get(self.view.cwd, {}).get(name, {})
        merged: dict[str, Any] = merge_patch(merge_patch(dict(self.api.defaults), told.settings.get(name, {})), here)
        return merged

    def unknown_settings(self) -> list[str]:
        """A sentence for each setting that the extension does not have."""
        known = set(self.api.defaults)
        name = self.loaded.found.name
        return [
            f"Extension {name!r} has no setting {key!r}. It has: {', '.join(sorted(known)) or 'none'}."
            for key in self.settings()
            if key not in known
        ]

    async def ask(self, event: str, handler: Callable[..., Any], payload: Any) -> Any:
        """Call a handler. Raises `ExtensionError`."""
        what = f"extension {self.loaded.found.name!r}, {event}"
        with self.context() as ctx:
            return await call_within(HOOK_TIMEOUT, what, handler, payload, ctx, limiter=self.loaded.limiter)

    def is_interested(self, event: str) -> bool:
        return event in self.api.hooks or event in self.loaded.bus.names

    # --- hooks: each handler is one, and its own bus hears of it behind them ---

    def hooks(self) -> Hooks:
        return Hooks(
            before_provider_call=self._points("before_turn", self._before_turn, self._echo_request),
            after_provider_call=self._points("after_turn", self._after_turn, partial(self._echo, "after_turn")),
            before_user_message=self._points("user_message", self._user_message, self._echo_said),
            before_tool_call=self._points("tool_call", self._tool_call, partial(self._echo, "tool_call")),
            after_tool_call=self._points("tool_result", self._tool_result, self._echo_result),
            injectors=self._injectors(),
        )

    def _injectors(self) -> Injectors | None:
        if not self.api.injectors:
            return None
        from aar.injectors import Injectors, Preamble, Timing

        injectors = Injectors()
        for one in self.api.injectors:
            ask = partial(call, one.function, limiter=self.loaded.limiter)
            injectors.add_function(Timing(one.timing), ask, Preamble(**one.preamble))
        return injectors

    def _points(self, event: str, point: Callable[..., Any], echo: Callable[..., Any]) -> tuple[Any, ...]:
        echoes = (echo,) if event in self.loaded.bus.names else ()
        return (*(partial(point, handler) for handler in self.api.hooks.get(event, ())), *echoes)

    async def _before_turn(self, handler: Callable[..., Any], request: ProviderRequest) -> ProviderRequest | None:
        given = await self.ask("before_turn", handler, await self._copy(request))
        if given is None:
            return None
        if not isinstance(given, list) or not all(map(_is_message, given)):
            what = f"extension {self.loaded.found.name!r}, before_turn"
            raise ExtensionError(f"{what}: gives messages, each {{'role': ..., 'content': ...}}, in a list, or None")
        return replace(request, messages=History(tail=given))

    async def _copy(self, request: ProviderRequest) -> list[Any]:
        """In a thread: that of a long session takes a while, and nobody else shall wait for it."""
        messages = list(request.messages)
        return await trio.to_thread.run_sync(deepcopy, messages, abandon_on_cancel=True, limiter=self.loaded.limiter)

    async def _after_turn(self, handler: Callable[..., Any], response: ProviderResponse) -> None:
        await self.ask("after_turn", handler, response)

    async def _user_message(self, handler: Callable[..., Any], said: UserMessage) -> UserMessage | None:
        given = await self.ask("user_message", handler, said.content)
        return _saying(said, given) if isinstance(given, str) else None

    async def _tool_call(self, handler: Callable[..., Any], call: ToolCall) -> Block | None:
        """A guard that fails blocks: not knowing is not a yes."""
        try:
            given = await self.ask("tool_call", handler, call)
        except ExtensionError as error:
            self.loaded.logger.error("%s", error, exc_info=error.__cause__)
            return Block(f"a check before this call failed ({error})")
        return given if isinstance(given, Block) else None

    async def _tool_result(
        self, handler: Callable[..., Any], call: ToolCall, outcome: ToolOutcome
    ) -> ToolOutcome | None:
        given = await self.ask("tool_result", handler, _result(call, outcome))
        return outcome._replace(output=given) if isinstance(given, str) else None

    async def _echo(self, event: str, payload: Any) -> None:
        await self.loaded.bus.emit_async(event, payload)

    async def _echo_request(self, request: ProviderRequest) -> None:
        await self._echo("before_turn", await self._copy(request))

    async def _echo_said(self, said: UserMessage) -> None:
        await self._echo("user_message", said.content)

    async def _echo_result(self, call: ToolCall, outcome: ToolOutcome) -> None:
        await self._echo("tool_result", _result(call, outcome))

    # --- tools and commands ---

    def tools(self) -> list[ToolSpec]:
        return [self._tool(spec) for spec in self.api.tools]

    def _tool(self, spec: ToolSpec) -> ToolSpec:
        handler = spec.handler
        if handler is None:
            return spec
        parameter = context_parameter(handler)
        is_plain = parameter is not None and "ToolContext" in str(handler.__annotations__.get(parameter, ""))

        async def run(*, _context_of_the_call: ToolContext, **arguments: Any) -> Any:
            plain = _context_of_the_call  # by a name that no argument of a tool has
            with self.context(plain) as ctx:
                if parameter is not None:
                    arguments[parameter] = plain if is_plain else ctx
                return await call(partial(handler, **arguments), limiter=self.loaded.limiter)

        return replace(spec, handler=run)

    def commands(self) -> list[Command]:
        return [Command(one.name, one.description, partial(self._command, one.handler)) for one in self.api.commands]

    def panels(self) -> list[Command]:
        return [Command(f"{PANEL}{one.name}", "", partial(self._panel, one.renderer)) for one in self.api.panels]

    async def _command(self, handler: Callable[..., Any], arguments: str) -> str | None:
        with self.context() as ctx:
            given = await call(handler, arguments, ctx, limiter=self.loaded.limiter)
        return None if given is None else str(given)

    async def _panel(self, renderer: Callable[..., Any], _: str) -> str | None:
        with self.context() as ctx:
            given = await call(renderer, ctx, limiter=self.loaded.limiter)
        return None if given is None else str(given)

    # --- following ---

    def observers(self) -> list[Observer]:
        events = frozenset(event for event in OBSERVED if self.is_interested(event))
        if not events:
            return []
        name = f"extension:{self.loaded.found.name}:{new_turn_id()}"
        return [Observer(name, partial(observe, self.view.journal, events, self._tell))]

    async def _tell(self, event: str, payload: Any) -> None:
        """Handlers in order, then the bus. What goes wrong is logged."""
        for handler in self.api.hooks.get(event, ()):
            try:
                await self.ask(event, handler, payload)
            except ExtensionError as error:
                self.loaded.logger.error("%s", error, exc_info=error.__cause__)
        await self._echo(event, payload)


def _result(call: ToolCall, outcome: ToolOutcome) -> ToolResult:
    return ToolResult(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        output=outcome.output,
        is_error=outcome.is_error,
        duration_ms=outcome.duration_ms,
    )


def _saying(said: UserMessage, text: str) -> UserMessage:
    """The same message with another text; pictures and sounds stay."""
    others = [part for part in said.parts if not isinstance(part, TextBlock)]
    parts = [TextBlock(text=text), *others] if said.parts else []
    return said.model_copy(update={"content": text, "parts": parts})


def _is_message(one: Any) -> bool:
    if not isinstance(one, dict) or one.get("role") not in ("user", "assistant", "tool", "system"):
        return False
    content = one.get("content")
    return isinstance(content, str) or (isinstance(content, list) and all(isinstance(part, dict) for part in content))
