"""Events of interfaces as JSON, and back. `type` tells which one it is, `tag` under which it stands."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from aar.errors import InvalidMessage, UnknownMessage
from aar.ui.events import EVENTS, UiEvent

__all__ = ["event_of", "json_of", "type_of"]


def type_of(kind: type[UiEvent]) -> str:
    """`MessageAdded` is `message_added`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def json_of(event: UiEvent) -> str:
    """One line."""
    fields: dict[str, Any] = asdict(event)  # type: ignore[call-overload]  # each of them is a dataclass
    return json.dumps({"type": type_of(type(event)), "tag": event.tag, **fields}, separators=(",", ":"))


def event_of(text: str | bytes) -> UiEvent:
    """Raises `UnknownMessage` and `InvalidMessage`."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage("this is no JSON") from error
    kind = _kinds().get(str(fields.pop("type", None))) if isinstance(fields, dict) else None
    if kind is None:
        raise UnknownMessage("no event of this type is known")
    if fields.pop("tag", kind.tag) != kind.tag:
        raise InvalidMessage(f"{kind.__name__} stands under the tag {kind.tag}")
    try:
        found: UiEvent = _adapters()[kind].validate_python(fields)
    except ValidationError as error:
        raise InvalidMessage(str(error.errors()[0]["msg"])) from error
    return found


@cache
def _kinds() -> dict[str, type[UiEvent]]:
    return {type_of(kind): kind for kind in EVENTS}


@cache
def _adapters() -> dict[type[UiEvent], TypeAdapter[Any]]:
    return {kind: TypeAdapter(kind) for kind in EVENTS}
