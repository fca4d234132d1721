"""`todo`: the model keeps a list of what is to be done, which people, conditions and injectors can see."""

from __future__ import annotations

from typing import Any

from aar.messages.todos import TODO_TOOL, as_todos, rendered
from aar.tools.registry import ToolSpec

__all__ = ["TODO"]

MAX_ITEMS = 100
MAX_CHARS = 500  # of one item


async def todo(items: list[dict[str, Any]]) -> str:
    todos = as_todos(items)
    if not todos:
        return "The list is empty."
    left = sum(item.is_open for item in todos)
    return f"{rendered(todos)}\n{len(todos) - left} of {len(todos)} done."


TODO = ToolSpec(
    name=TODO_TOOL,
    description=(
        "Keep a list of what is to be done for the user's task. Give the whole list at each call: it takes the place "
        "of the one before. Use it for tasks of three steps or more, have one item in progress at a time, "
        "and mark an item as done as soon as it is."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "maxItems": MAX_ITEMS,
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS},
                        "status": {"type": "string", "enum": ["pending", "in_progress", "done"]},
                    },
                    "required": ["text", "status"],
                },
            }
        },
        "required": ["items"],
    },
    prompt_snippet="Keep the list of what is to be done",
    handler=todo,
    execution="sequential",  # the last call counts, so there has to be a last one
)
