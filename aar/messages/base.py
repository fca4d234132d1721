"""What all messages have in common: frozen data with a `type` tag."""

import os
from typing import Any, Generic, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

__all__ = ["Command", "Message", "Request", "new_call_id", "new_event_id", "new_session_id", "new_turn_id"]

R = TypeVar("R", covariant=True)


class Message(BaseModel):
    """Frozen data that can cross a wire. Unknown fields are ignored: a newer Aar may have written them."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def dump(self) -> dict[str, Any]:
        """Plain JSON-ready data: enums as strings, `None` for absent values."""
        return self.model_dump(mode="json")


class Command(Message):
    """Something a client asks for. Unknown fields are refused, so that a typo is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Request(Generic[R]):
    """Marks a message that is answered with an `R`: `await ref.ask(request)` has that type."""


def new_event_id() -> str:
    """12 hexadecimal digits."""
    return os.urandom(6).hex()


def new_turn_id() -> str:
    """12 hexadecimal digits, new for each turn."""
    return os.urandom(6).hex()


def new_session_id() -> str:
    """16 hexadecimal digits."""
    return os.urandom(8).hex()


def new_call_id() -> str:
    """An identifier for a tool call that came without one."""
    return str(uuid4())
