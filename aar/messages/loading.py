"""Tools that wait until the model asks for them, and which it has asked for.

It is no state of its own: the calls of `load_tools` that went well say it, so it survives what the session survives.
"""

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from aar.messages.events import Event, ToolCall, ToolResult

__all__ = ["LOAD_TOOL", "fits", "loaded_by", "waits"]

LOAD_TOOL = "load_tools"


def waits(name: str, deferred: Collection[str], loaded: Collection[str]) -> bool:
    """Whether a tool is not there yet: `deferred` and `loaded` are patterns."""
    return name != LOAD_TOOL and fits(name, deferred) and not fits(name, loaded)


def fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, one) for one in patterns)


def loaded_by(events: Sequence[Event], start: int = 0) -> tuple[str, ...]:
    """The patterns that were asked for in calls whose results stand at `start` or later."""
    ran_well = {
        event.tool_call_id
        for event in events[start:]
        if isinstance(event, ToolResult) and event.tool_name == LOAD_TOOL and not event.is_error
    }
    if not ran_well:
        return ()
    calls = [event for event in events if isinstance(event, ToolCall) and event.tool_call_id in ran_well]
    return tuple(name for call in calls for name in _names(call.arguments.get("names")))


def _names(said: object) -> list[str]:
    """Read with care: it may come from a file that somebody has edited."""
    return [name for name in said if isinstance(name, str)] if isinstance(said, list) else []
