"""`done`: the model says that the task is finished, and the turn ends with the step in which it says so."""

from __future__ import annotations

from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolSpec

__all__ = ["DONE"]


async def done(summary: str = "") -> ToolOutcome:
    return ToolOutcome(summary or "Done.", terminate=True)


DONE = ToolSpec(
    name="done",
    description="Say that the task is finished. The turn ends with this step, so call it when nothing else is to do.",
    input_schema={
        "type": "object",
        "properties": {"summary": {"type": "string", "description": "What was done, in a sentence or two."}},
        "additionalProperties": False,
    },
    prompt_snippet="Say that the task is finished",
    handler=done,
    execution="sequential",
)
