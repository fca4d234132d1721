"""The list of what is to be done in a session: the arguments of the last call of the tool `todo` that went well.

It is no state of its own. Whoever wants it reads the session, so it survives whatever the session survives.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from aar.messages.events import Event, ToolCall, ToolResult

__all__ = ["TODO_TOOL", "Todo", "TodoStatus", "as_todos", "rendered", "todos_of"]

TODO_TOOL = "todo"

TodoStatus = Literal["pending", "in_progress", "done"]

_MARKS: dict[str, str] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}


class Todo(NamedTuple):
    text: str
    status: TodoStatus

    @property
    def is_open(self) -> bool:
        return self.status != "done"


def todos_of(events: Sequence[Event]) -> list[Todo]:
    """The list as it stands after `events`. Looks from the end, so a long session costs no more than a short one."""
    ran_well: set[str] = set()
    for event in reversed(events):
        if isinstance(event, ToolResult) and event.tool_name == TODO_TOOL and not event.is_error:
            ran_well.add(event.tool_call_id)
        elif isinstance(event, ToolCall) and event.tool_call_id in ran_well:
            return as_todos(event.arguments.get("items"))
    return []


def as_todos(items: Any) -> list[Todo]:
    """What a call of the tool gave, read with care: it may come from a file that somebody has edited."""
    found = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return [Todo(str(item.get("text", "")), _status(item.get("status"))) for item in found]


def _status(value: object) -> TodoStatus:
    return cast("TodoStatus", value) if isinstance(value, str) and value in _MARKS else "pending"


def rendered(todos: Iterable[Todo]) -> str:
    """One line for each, as `[~] write the tests`."""
    return "\n".join(f"{_MARKS[todo.status]} {todo.text}" for todo in todos)
