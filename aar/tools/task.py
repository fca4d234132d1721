"""`task`: a piece of work is done in a conversation of its own, and only what comes out of it is said in this one."""

from __future__ import annotations

from aar.errors import ToolError
from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolContext, ToolSpec

__all__ = ["TASK"]


async def task(ctx: ToolContext, description: str, prompt: str, agent: str = "") -> ToolOutcome:
    if ctx.delegate is None:
        raise ToolError("no_handler", "there are no tasks within a task: do this one yourself")
    ctx.report(f"{description}\n")
    return await ctx.delegate(prompt, agent)


TASK = ToolSpec(
    name="task",
    description=(
        "Have a piece of work done by another agent that works in the same folder, with the same tools, and knows "
        "nothing of this conversation: say in the prompt all that it needs, and what it shall answer. You get its last "
        "answer and nothing else. Use it for searches and investigations that would fill this conversation; several "
        "calls in one answer are done side by side."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "What it is about, in three to five words"},
            "prompt": {"type": "string", "description": "The whole task", "minLength": 1},
            "agent": {"type": "string", "description": "Name of the agent that shall do it, if the user has named one"},
        },
        "required": ["description", "prompt"],
    },
    prompt_snippet="Have a piece of work done in a conversation of its own",
    handler=task,
    time_limit=0,
)
