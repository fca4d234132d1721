"""What injectors give: a message to put in, and for five of the timings one thing more that they may decide.

The five are siblings, not heirs, of the plain one: where one of them is asked for, no other fits, for a type checker as
well as at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "AfterResponseInjection",
    "AfterToolInjection",
    "AnyInjection",
    "BeforeChatInjection",
    "BeforeCompactionInjection",
    "CompactionChange",
    "ErrorChange",
    "Injection",
    "OnErrorInjection",
    "RequestChange",
    "ResponseChange",
]


@dataclass(frozen=True, kw_only=True)
class AnyInjection:
    """What all injections have. One without `content` puts no message in.

    `name` is the injector's own unless it is given. `prefix` stands before the content. A message of the role `user`
    comes at the end of the conversation, one of the role `system` at the end of the system prompt, and there it stays
    for the rest of the turn. With `eject` it is there for one model call and never stored; without, what a `user` says
    is on record like any other message. `tools` are patterns: in the next model call there are only the tools that fit
    one of them. `display_only` is for people: no model sees it.
    """

    name: str = ""
    role: Literal["user", "system"] = "user"
    content: str = ""
    prefix: str = ""
    eject: bool = False
    tools: Sequence[str] | None = None
    display_only: bool = False

    def __post_init__(self) -> None:
        """Raises `ValueError` for what no message can be."""
        if self.role not in ("user", "system"):
            raise ValueError(f"an injection speaks as user or system, not as {self.role!r}")
        if isinstance(self.tools, str):
            raise ValueError(f"tools are patterns in a list, not the text {self.tools!r}")

    @property
    def text(self) -> str:
        """What is said, or nothing."""
        return f"{self.prefix}{self.content}" if self.content else ""


@dataclass(frozen=True, kw_only=True)
class Injection(AnyInjection):
    """A message and nothing more: fits at every timing."""


@dataclass(frozen=True, kw_only=True)
class RequestChange:
    """`append_system` is added to the system prompt of this call. `skip`: the model is not asked, the turn is over.

    It ends as if the model had stopped, or with `reason` as its error.
    """

    append_system: str = ""
    skip: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class BeforeChatInjection(AnyInjection):
    request: RequestChange = field(default_factory=RequestChange)


@dataclass(frozen=True, kw_only=True)
class ResponseChange:
    """`content` takes the place of what the model said. `skip_storing`: it was never said, its tool calls included."""

    skip_storing: bool = False
    content: str | None = None


@dataclass(frozen=True, kw_only=True)
class AfterResponseInjection(AnyInjection):
    response: ResponseChange = field(default_factory=ResponseChange)


@dataclass(frozen=True, kw_only=True)
class AfterToolInjection(AnyInjection):
    """`output` takes the place of what the tool has given."""

    output: str | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorChange:
    """`retry` asks the model again, three times in a step at most. `skip`: the turn ends as if there was no error."""

    retry: bool = False
    skip: bool = False


@dataclass(frozen=True, kw_only=True)
class OnErrorInjection(AnyInjection):
    error: ErrorChange = field(default_factory=ErrorChange)


@dataclass(frozen=True, kw_only=True)
class CompactionChange:
    """`skip`: the conversation stays as it is."""

    skip: bool = False


@dataclass(frozen=True, kw_only=True)
class BeforeCompactionInjection(AnyInjection):
    compaction: CompactionChange = field(default_factory=CompactionChange)
