"""What an extension sees: the API that its `register(api)` gets, and the context that its functions get."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import trio

from aar.errors import ExtensionError
from aar.extensions.bus import EventBus
from aar.hooks import Block
from aar.journal.state import Session
from aar.journal.store import Header
from aar.messages.events import Recorded
from aar.messages.settings import AgentConfig
from aar.messages.tools import SideEffect
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.schema import context_parameter, infer_schema

__all__ = [
    "API_VERSION",
    "EVENTS",
    "HOOK_TIMEOUT",
    "Asked",
    "BlockResult",
    "Contributions",
    "ExtensionAPI",
    "ExtensionAPIProtocol",
    "ExtensionCommand",
    "ExtensionContext",
    "ExtensionContextProtocol",
    "ExtensionPanel",
    "SessionFacts",
]

F = TypeVar("F", bound=Callable[..., Any])

BlockResult = Block

EVENTS = (
    "session_start",
    "session_end",
    "before_turn",
    "after_turn",
    "user_message",
    "tool_call",
    "tool_result",
    "assistant_message",
    "stream_chunk",
    "error",
)

HOOK_TIMEOUT = 9.0  # seconds; a little less than a turn gives its hooks, so that it can be said whose it was

API_VERSION = 1
"""An extension that is written for another one says so, by an `AAR_API` in its module, and is not loaded."""

_COMMAND = re.compile(r"[a-z0-9][a-z0-9_-]*")
_TOOL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ExtensionCommand(NamedTuple):
    """`handler(args, ctx)` gives what to show, or `None`."""

    name: str
    description: str
    handler: Callable[..., Any]


class ExtensionPanel(NamedTuple):
    """`renderer(ctx)` gives the text in it, or `None` for no panel."""

    name: str
    renderer: Callable[..., Any]


class SessionFacts(NamedTuple):
    """What a session is at a moment, taken quickly; a thread that wants a `Session` folds it itself."""

    session_id: str
    trace_id: str
    records: list[Recorded]
    metadata: dict[str, Any]
    totals: Header

    def folded(self) -> Session:
        session = Session(self.session_id, trace_id=self.trace_id)
        for record in self.records:
            session.apply(record.event, seq=record.seq, turn_id=record.turn_id)
        session.metadata = self.metadata
        session.continue_totals(self.totals)
        return session


@dataclass(frozen=True)
class ExtensionContext:
    """One call's view of its session. It cannot be changed.

    `session` is a copy of what is known now, the caller's own; each look makes a new one. `signal` is set when nobody
    waits for the outcome any more: for functions that run in a thread and cannot be cancelled. `call` is what a tool
    may use of its session besides (`report`, `run_command`, `paths`), and `None` elsewhere. `settings` are the
    extension's own: its defaults, what the user's settings say, and what they say for this folder, the last first.
    """

    config: AgentConfig
    signal: trio.Event
    logger: logging.Logger
    cwd: str
    _facts: Callable[[], SessionFacts] = field(repr=False)
    call: ToolContext | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        in_trio = trio.lowlevel.in_trio_task()
        return (self._facts() if in_trio else trio.from_thread.run_sync(self._facts)).folded()


class Asked(NamedTuple):
    """A function that is asked at a timing of injectors, and its preamble."""

    timing: str
    function: Callable[..., Any]
    preamble: dict[str, Any]


class Contributions(NamedTuple):
    """What an extension has registered."""

    hooks: dict[str, tuple[Callable[..., Any], ...]]
    tools: tuple[ToolSpec, ...]
    commands: tuple[ExtensionCommand, ...]
    prompt: tuple[str, ...]
    injectors: tuple[Asked, ...] = ()
    panels: tuple[ExtensionPanel, ...] = ()
    defaults: Mapping[str, Any] = MappingProxyType({})


class ExtensionAPI:
    """How an extension says what it adds. To be used while `register(api)` runs; `events` also later."""

    def __init__(self, name: str, logger: logging.Logger, events: EventBus) -> None:
        self.name = name
        self.events = events
        self._logger = logger
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._tools: list[ToolSpec] = []
        self._commands: dict[str, ExtensionCommand] = {}
        self._prompt: list[str] = []
        self._injectors: list[Asked] = []
        self._defaults: dict[str, Any] = {}
        self._panels: dict[str, ExtensionPanel] = {}
        self._is_open = True

    def on(self, event: str) -> Callable[[F], F]:
        """Decorator: call `handler(payload, ctx)`, sync or async, at each such event; see `EVENTS`."""
        _must_be_named(event, "on")
        if event not in EVENTS:
            self._logger.warning("there is no event %r; there are: %s", event, ", ".join(EVENTS))

        def add(handler: F) -> F:
            self._check_open()
            self._hooks.setdefault(event, []).append(handler)
            return handler

        return add

    def tool(
        self,
        name: str,
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        *,
        side_effects: Sequence[SideEffect | str] | None = None,
        requires_approval: bool = False,
        prompt_snippet: str = "",
        prompt_guidelines: Sequence[str] = (),
    ) -> Callable[[F], F]:
        """Decorator: the model may call this function, sync or async. Without a schema its signature is one.

        A parameter named `ctx` gets the `ExtensionContext` and is not shown to the model.
        """
        _must_be_named(name, "tool")
        effects = tuple(SideEffect(effect) for effect in side_effects or (SideEffect.NONE,))

        def add(handler: F) -> F:
            spec = ToolSpec(
                name=name,
                description=description or (handler.__doc__ or "").strip(),
                input_schema=infer_schema(handler) if input_schema is None else _without_context(input_schema, handler),
                side_effects=effects,
                requires_approval=requires_approval,
                prompt_snippet=prompt_snippet,
                prompt_guidelines=tuple(prompt_guidelines),
                handler=handler,
            )
            self.register_tool(spec)
            return handler

        return add

    def register_tool(self, spec: ToolSpec) -> None:
        """Add a tool as it is, such as one made by `aar.tool`."""
        self._check_open()
        if not isinstance(spec, ToolSpec):
            raise ExtensionError(f"a tool is a ToolSpec, and not {type(spec).__name__}")
        if not _TOOL.fullmatch(spec.name):
            raise ExtensionError(f"{spec.name!r} is no name for a tool: letters, digits, _ and -, 64 at most")
        if problem := _problem_of(spec.input_schema):
            raise ExtensionError(f"the schema of tool {spec.name!r} {problem}")
        self._tools.append(spec)

    def command(self, name: str, *, description: str = "") -> Callable[[F], F]:
        """Decorator: `/name` calls `handler(args, ctx)`, sync or async, and shows what it gives, unless `None`."""
        _must_be_named(name, "command")
        known = name.lower().lstrip("/")
        if not _COMMAND.fullmatch(known):
            raise ExtensionError(f"{name!r} is no name for a command: letters, digits, _ and -")

        def add(handler: F) -> F:
            self._check_open()
            self._commands[known] = ExtensionCommand(known, description, handler)
            return handler

        return add

    def inject(
        self,
        timing: str,
        *,
        name: str = "",
        once: bool = False,
        when: Callable[[Any], Any] | str | None = None,
        env: Sequence[str] = (),
        timeout: float = HOOK_TIMEOUT,
    ) -> Callable[[F], F]:
        """Decorator: ask this function, sync or async, at a timing such as `before_chat`; see `aar.injectors`.

        It gets a `Moment` and what the timing is about. Raises `ExtensionError` for a timing that there is none of.
        """
        _must_be_named(timing, "inject")
        from aar.injectors import Timing  # most extensions bring no injectors

        if timing not in list(Timing):
            raise ExtensionError(f"there is no timing {timing!r}; there are: {', '.join(Timing)}")
        if not 0 < timeout <= HOOK_TIMEOUT:
            raise ExtensionError(f"an injector has a time-out of {HOOK_TIMEOUT:g} s at most, and not {timeout!r}")

        def add(function: F) -> F:
            self._check_open()
            named = name or getattr(function, "__name__", "injector")
            told = {"name": f"{self.name}.{named}", "once": once, "when": when, "env": tuple(env), "timeout": timeout}
            self._injectors.append(Asked(timing, function, told))
            return function

        return add

    def panel(self, name: str) -> Callable[[F], F]:
        """Decorator: as `register_panel`."""
        _must_be_named(name, "panel")

        def add(renderer: F) -> F:
            self.register_panel(name, renderer)
            return renderer

        return add

    def register_panel(self, name: str, renderer: Callable[..., Any]) -> None:
        """Have `renderer(ctx)`, sync or async, give the text of a panel after each turn, where panels are drawn.

        Nothing is drawn for `None` or an empty text, or when it takes too long.
        """
        self._check_open()
        if not _COMMAND.fullmatch(name.lower()):
            raise ExtensionError(f"{name!r} is no name for a panel: letters, digits, _ and -")
        self._panels[name.lower()] = ExtensionPanel(name.lower(), renderer)

    def defaults(self, **settings: Any) -> None:
        """The settings of the extension, each with what holds when the user says nothing; see `ctx.settings`."""
        self._check_open()
        self._defaults.update(settings)

    def append_system_prompt(self, text: str) -> None:
        """Add a part to the system prompt of each session. May be called again."""
        self._check_open()
        self._prompt.append(str(text))

    def block(self, reason: str) -> Block:
        """What a `tool_call` handler returns so that the call does not run; the model is told why."""
        return Block(str(reason))

    def close(self) -> Contributions:
        """`register` is over: gives what was registered, and takes nothing more."""
        self._is_open = False
        hooks = {event: tuple(handlers) for event, handlers in self._hooks.items()}
        commands, panels = tuple(self._commands.values()), tuple(self._panels.values())
        injectors, prompt = tuple(self._injectors), tuple(self._prompt)
        return Contributions(hooks, tuple(self._tools), commands, prompt, injectors, panels, self._defaults)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ExtensionError(f"extension {self.name!r} is loaded: register everything in register(api)")


def _must_be_named(name: Any, decorator: str) -> None:
    """A decorator without brackets would do nothing, and say nothing."""
    if callable(name):
        raise ExtensionError(f'@api.{decorator} wants a name in brackets, as in @api.{decorator}("...")')


def _problem_of(schema: Any) -> str:
    """Why no model may be told of it: an API refuses every request for one schema that is none."""
    import jsonschema_rs  # with the first tool

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "is not one of an object"
    try:
        json.dumps(schema, allow_nan=False).encode()
        return "" if jsonschema_rs.meta.is_valid(schema) else "is no JSON schema"
    except (TypeError, ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return f"is no JSON schema: {error}"


def _without_context(schema: dict[str, Any], handler: Callable[..., Any]) -> dict[str, Any]:
    hidden = context_parameter(handler)
    if hidden is None or hidden not in schema.get("properties", {}):
        return schema
    properties = {name: one for name, one in schema["properties"].items() if name != hidden}
    required: Iterable[str] = schema.get("required", ())
    return {**schema, "properties": properties, "required": [name for name in required if name != hidden]}


@runtime_checkable
class ExtensionContextProtocol(Protocol):
    """For annotations that need no import of Aar at run time."""

    @property
    def session(self) -> Session: ...
    @property
    def config(self) -> AgentConfig: ...
    @property
    def signal(self) -> trio.Event: ...
    @property
    def logger(self) -> logging.Logger: ...


@runtime_checkable
class ExtensionAPIProtocol(Protocol):
    """What `register` may count on."""

    name: str
    events: EventBus

    def on(self, event: str) -> Callable[[F], F]: ...
    def command(self, name: str, *, description: str = "") -> Callable[[F], F]: ...
    def register_tool(self, spec: ToolSpec) -> None: ...
    def append_system_prompt(self, text: str) -> None: ...
    def block(self, reason: str) -> Block: ...
