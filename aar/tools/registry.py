"""What a tool is, and the set of tools that a session has."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, overload

from aar.messages.tools import SideEffect, ToolSchema
from aar.tools.schema import ArgumentCheck, argument_check, context_parameter, infer_schema

if TYPE_CHECKING:
    import trio

    from aar.messages.settings import ToolConfig
    from aar.messages.tools import ToolOutcome
    from aar.safety.paths import PathGuard
    from aar.safety.sandbox.base import CommandResult

__all__ = ["ToolContext", "ToolRegistry", "ToolSpec", "invoke", "tool"]

Handler = Callable[..., Any]
Execution = Literal["parallel", "sequential"]


@dataclass(frozen=True)
class ToolContext:
    """What one tool call may use of its session.

    `report(text)` shows live output; `run_command(command, timeout)` runs a command in the session's
    sandbox; `paths` opens files within the session's rules. `cwd` is absolute. `delegate(prompt, agent)` has something
    done in a conversation of its own; it is `None` in one that is such a conversation itself. `run_calls(calls)` runs
    other tools, each by its name and arguments as if the model had called it. `deferred` names tools that the model
    has not loaded. `home` is the folder of Aar's own files, which file tools do not reach; empty where there is none.
    """

    cwd: str
    session_id: str
    tool_call_id: str
    report: Callable[[str], None]
    run_command: Callable[..., Awaitable[CommandResult]]
    paths: PathGuard
    config: ToolConfig
    delegate: Callable[[str, str], Awaitable[ToolOutcome]] | None = None
    run_calls: Callable[[Sequence[tuple[str, dict[str, Any]]]], Awaitable[list[ToolOutcome]]] | None = None
    deferred: tuple[str, ...] = ()
    home: str = ""


@dataclass(frozen=True)
class ToolSpec:
    """A tool: what the model is told of it, what it may do, and the function that does it.

    An empty `input_schema` turns validation off. `execution` says whether calls of one step may run side by
    side; `None` leaves it to the runtime. A `handler` is sync or async and may take the `ToolContext` as
    `ctx`. `time_limit` are the seconds that a call may take, 0 for any time: `None` leaves it to the settings.
    `edition` tells what stands behind a name that others give: "always" holds for one edition alone.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    side_effects: tuple[SideEffect, ...] = (SideEffect.NONE,)
    requires_approval: bool = False
    prompt_snippet: str = ""
    prompt_guidelines: tuple[str, ...] = ()
    handler: Handler | None = field(default=None, repr=False)
    execution: Execution | None = None
    time_limit: float | None = None
    edition: str = ""

    def schema(self) -> ToolSchema:
        """The three keys that a provider sees."""
        return self._schema

    def problem_with(self, arguments: Mapping[str, Any]) -> str | None:
        """`None` when the arguments fit the schema, else one sentence; see `validate_arguments`."""
        return self._check(arguments)

    # What every call asks again is found out once: reading a signature costs more than running a small tool.

    @cached_property
    def _schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, self.input_schema)

    @cached_property
    def _check(self) -> ArgumentCheck:
        return argument_check(self.input_schema)

    @cached_property
    def _context_parameter(self) -> str | None:
        return None if self.handler is None else context_parameter(self.handler)

    @cached_property
    def _accepted(self) -> frozenset[str] | None:
        """The arguments that the handler takes by name; `None` when it takes any."""
        taken = inspect.signature(self.handler).parameters if self.handler is not None else {}
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
        return None if takes_any else frozenset(taken)


@overload
def tool(function: Handler, /) -> ToolSpec: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    side_effects: Sequence[SideEffect | str] | None = None,
    requires_approval: bool = False,
    prompt_snippet: str = "",
    prompt_guidelines: Sequence[str] = (),
    execution: Execution | None = None,
) -> Callable[[Handler], ToolSpec]: ...
def tool(function: Handler | None = None, /, **options: Any) -> ToolSpec | Callable[[Handler], ToolSpec]:
    """Make a function a `ToolSpec`: `@tool` or `@tool(side_effects=["read"])`.

    Name, description and schema come from the function's name, docstring and signature unless given.
    """
    return _spec_of(function) if function is not None else partial(_spec_of, **options)


def _spec_of(
    function: Handler,
    *,
    name: str | None = None,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    side_effects: Sequence[SideEffect | str] | None = None,
    requires_approval: bool = False,
    prompt_snippet: str = "",
    prompt_guidelines: Sequence[str] = (),
    execution: Execution | None = None,
) -> ToolSpec:
    return ToolSpec(
        name=name or function.__name__,
        description=description or inspect.getdoc(function) or "",
        input_schema=infer_schema(function) if input_schema is None else input_schema,
        side_effects=tuple(SideEffect(effect) for effect in side_effects or (SideEffect.NONE,)),
        requires_approval=requires_approval,
        prompt_snippet=prompt_snippet,
        prompt_guidelines=tuple(prompt_guidelines),
        handler=function,
        execution=execution,
    )


async def invoke(
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    context: ToolContext,
    *,
    limiter: trio.CapacityLimiter | None = None,
) -> Any:
    """Call the tool's handler and answer with what it gave.

    A sync handler runs in a thread that is abandoned when the caller is cancelled; `limiter` counts it until
    it really ends. Raises what the handler raises, and `ValueError` when there is no handler.
    """
    import trio

    if spec.handler is None:
        raise ValueError(f"tool '{spec.name}' has no handler")
    values = dict(arguments)
    if spec._accepted is not None and not spec._accepted.issuperset(values):
        raise _unexpected(spec, arguments)
    if spec._context_parameter is not None:
        values[spec._context_parameter] = context
    call = partial(spec.handler, **values)
    if inspect.iscoroutinefunction(spec.handler):
        return await call()
    result = await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
    return await result if inspect.isawaitable(result) else result


def _unexpected(spec: ToolSpec, arguments: Mapping[str, Any]) -> TypeError:
    """What Python would say, and what there is instead: a model that guesses then need not guess again."""
    name = next(name for name in arguments if name not in (spec._accepted or ()))
    names = ", ".join(spec.input_schema.get("properties", {})) or "no arguments"
    return TypeError(f"{spec.name}() got an unexpected keyword argument {name!r}; it takes {names}")


class ToolRegistry:
    """Tools by name, in the order they came. A later tool of the same name takes the earlier one's place."""

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools: dict[str, ToolSpec] = {spec.name: spec for spec in tools}
        self._schemas: tuple[ToolSchema, ...] | None = None
        self.changes = 0  # how often a tool came or went

    def register(self, name: str | None = None, **options: Any) -> Callable[[Handler], Handler]:
        """Decorator that adds a function as a tool and gives it back. Takes the options of `tool`."""

        def add(function: Handler) -> Handler:
            self.add(_spec_of(function, name=name, **options))
            return function

        return add

    def add(self, spec: ToolSpec) -> None:
        self._tools[spec.name] = spec
        self._schemas = None
        self.changes += 1

    def remove(self, name: str) -> None:
        """Forget a tool; nothing happens when there is none."""
        self._tools.pop(name, None)
        self._schemas = None
        self.changes += 1

    def get(self, name: str) -> ToolSpec | None:
        return self._tools.get(name)

    def list_tools(self) -> list[ToolSpec]:
        return list(self._tools.values())

    def names(self) -> list[str]:
        return list(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def to_provider_schemas(self) -> list[dict[str, Any]]:
        """Name, description and input schema of every tool, as plain data."""
        return [spec.schema().dump() for spec in self._tools.values()]

    def schemas(self) -> tuple[ToolSchema, ...]:
        """As `to_provider_schemas`, sorted by name: equal sets of tools make equal requests."""
        if self._schemas is None:
            self._schemas = tuple(self._tools[name].schema() for name in sorted(self._tools))
        return self._schemas

    def get_prompt_snippets(self) -> dict[str, str]:
        """One line per tool that has one."""
        return {spec.name: spec.prompt_snippet for spec in self._tools.values() if spec.prompt_snippet}

    def get_prompt_guidelines(self) -> list[str]:
        """The rules of all tools, each once, in the order of the tools."""
        return list(dict.fromkeys(rule for spec in self._tools.values() for rule in spec.prompt_guidelines))

    def copy(self) -> ToolRegistry:
        return ToolRegistry(self.list_tools())
