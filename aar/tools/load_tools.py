"""`load_tools`: the model asks for tools that are not described to it from the start."""

from __future__ import annotations

from aar.errors import ToolError
from aar.messages.loading import LOAD_TOOL, fits
from aar.tools.registry import ToolContext, ToolSpec

__all__ = ["LOAD_TOOLS"]

MOST_NAMES = 50


async def load_tools(ctx: ToolContext, names: list[str]) -> str:
    loaded = [name for name in ctx.deferred if fits(name, names)]
    unknown = ", ".join(one for one in names if not any(fits(name, [one]) for name in ctx.deferred))
    if not loaded:
        there = f"there are: {', '.join(ctx.deferred)}" if ctx.deferred else "there are none"
        raise ToolError("invalid_arguments", f"of the tools that can be loaded none is called {unknown}; {there}")
    text = f"Loaded, and there from now on: {', '.join(loaded)}."
    return f"{text} Nothing to load is called {unknown}." if unknown else text


LOAD_TOOLS = ToolSpec(
    name=LOAD_TOOL,
    description=(
        "Load tools that the system prompt names as not loaded yet. They can be called in your next answer, "
        "and for the rest of the session."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "names": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_NAMES,
                "items": {"type": "string", "minLength": 1},
                "description": "Names of tools, or patterns such as github_*",
            }
        },
        "required": ["names"],
    },
    prompt_snippet="Load tools that are not loaded yet",
    handler=load_tools,
    execution="sequential",  # what is called behind it may be what it loads
)
