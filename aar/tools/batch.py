"""`batch`: several calls of other tools in one, side by side; some may fail."""

from __future__ import annotations

from typing import Any

from aar.errors import ToolError
from aar.messages.tools import ToolOutcome
from aar.tools.registry import ToolContext, ToolSpec

__all__ = ["BATCH", "MAX_CALLS"]

MAX_CALLS = 25
CUT = "\n... (truncated)"


async def batch(ctx: ToolContext, calls: list[dict[str, Any]]) -> ToolOutcome:
    if ctx.run_calls is None:
        raise ToolError("no_handler", "there are no other tools to call here")
    wanted = [(str(one["tool"]), dict(one.get("arguments", {}))) for one in calls]
    outcomes = await ctx.run_calls(wanted)
    share = ctx.config.max_output_chars // len(wanted)
    parts = [
        f"[{number}] {name}: {'failed' if one.is_error else 'ok'}\n{_clipped(one.output, share)}"
        for number, ((name, _), one) in enumerate(zip(wanted, outcomes, strict=True), start=1)
    ]
    return ToolOutcome("\n\n".join(parts), is_error=all(one.is_error for one in outcomes))


def _clipped(text: str, share: int) -> str:
    """So that a long output does not take the place of those behind it."""
    room = max(share - 100, 0)  # for the head and the mark
    return text if len(text) <= room else text[:room] + CUT


BATCH = ToolSpec(
    name="batch",
    description=(
        f"Run up to {MAX_CALLS} calls of other tools side by side and get all their results. Use it for calls that do "
        "not depend on one another. Some may fail while the others go well. "
        "batch, task, todo, done and load_tools are not run inside of it."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CALLS,
                "items": {
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string", "description": "Name of the tool"},
                        "arguments": {"type": "object", "description": "Its arguments"},
                    },
                    "required": ["tool", "arguments"],
                },
            }
        },
        "required": ["calls"],
    },
    prompt_snippet="Run several calls of other tools at once",
    handler=batch,
    execution="sequential",  # a tool inside that has to run alone has no neighbours then
    time_limit=0,  # each call inside has its own
)
