"""Events as lines of JSON, and back."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from aar.errors import InvalidMessage, UnknownMessage
from aar.messages.events import AnyEvent, Event

__all__ = ["decode_event", "encode_event", "json_of"]


@cache
def _adapter() -> TypeAdapter[Event]:
    return TypeAdapter(AnyEvent)


def decode_event(data: str | bytes | dict[str, Any]) -> Event:
    """Read one event from JSON or from plain data.

    Raises `UnknownMessage` for a missing or unknown `type`, `InvalidMessage` for fields that do not fit.
    """
    try:
        if isinstance(data, dict):
            return _adapter().validate_python(data)
        return _adapter().validate_json(data)
    except ValidationError as error:
        kinds = {item["type"] for item in error.errors()}
        if kinds & {"union_tag_invalid", "union_tag_not_found"}:
            raise UnknownMessage(_first_line(error)) from error
        raise InvalidMessage(_first_line(error)) from error


def encode_event(event: Event) -> bytes:
    """One line of JSON: base fields first, then those of the class, `null` for absent values."""
    return event.__pydantic_serializer__.to_json(event)


def json_of(event: Event) -> str:
    """The same as text, also of a hint that ends in half a surrogate pair: that half is escaped."""
    try:
        return encode_event(event).decode()
    except ValueError:
        return json.dumps(event.model_dump(mode="json"), separators=(",", ":"))


def _first_line(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
