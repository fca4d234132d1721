"""What a model is told about tools, and what running one gives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

__all__ = ["ErrorCategory", "SideEffect", "ToolOutcome", "ToolSchema"]


class SideEffect(StrEnum):
    """What a tool may do to the world. `external` is a tool of another program (MCP)."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    EXTERNAL = "external"


ErrorCategory = Literal["unknown_tool", "no_handler", "invalid_arguments", "blocked", "denied", "timeout", "exception"]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """The three keys that a provider sees, and the wire forms that were made of them."""

    name: str
    description: str
    input_schema: dict[str, Any]
    _encoded: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def dump(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def encoded(self, codec: str, encode: Callable[["ToolSchema"], bytes]) -> bytes:
        """`encode(self)`, made once per `codec`. `encode` must depend on its schema alone."""
        found = self._encoded.get(codec)
        if found is None:
            found = self._encoded[codec] = encode(self)
        return found


class ToolOutcome(NamedTuple):
    """Result of one call before it is recorded. `duration_ms` is 0 when the tool was never entered.

    `terminate` asks for the end of the turn after this step. An engine does so when all results of the step ask for it.
    """

    output: str
    is_error: bool = False
    duration_ms: float = 0.0
    terminate: bool = False
