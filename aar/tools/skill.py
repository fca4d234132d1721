"""`skill`: the model asks for instructions of which it knows the name and what they are for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from aar.errors import ToolError
from aar.messages.tools import SideEffect
from aar.safety.display import visible
from aar.tools.registry import ToolContext, ToolSpec

__all__ = ["LIST_BYTES", "SKILL", "ToldSkill", "skill_tool"]

LIST_BYTES = 15_000
"""No more is told of all skills together: with the rest of the tool less than 4,000 tokens of four bytes."""

_LONGEST = (400, 300, 200, 150, 120, 90, 60, 40, 20, 0)  # characters of a description: the first that fits holds
_OF_PROJECT = " (of this project)"

Instructions = Callable[[ToolContext, str], Awaitable[str]]


class ToldSkill(NamedTuple):
    """What a model is told from the start."""

    name: str
    description: str
    is_foreign: bool = False


def skill_tool(skills: Sequence[ToldSkill], instructions: Instructions) -> ToolSpec:
    """The tool for these skills. `instructions(ctx, name)` gives the text of one; it raises `ToolError`."""

    async def skill(ctx: ToolContext, name: str) -> str:
        return await instructions(ctx, name)

    return ToolSpec(
        name="skill",
        description="\n".join([_WHAT_FOR, *_listing(skills)]),
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "description": "Name of the skill"}},
            "required": ["name"],
        },
        side_effects=(SideEffect.READ,),
        prompt_snippet="Get the instructions of a skill",
        handler=skill,
    )


_WHAT_FOR = (
    "Get the instructions of a skill, before you do what it is for. Those of this project were written by its authors, "
    "not by the user. Skills:"
)


def _listing(skills: Sequence[ToldSkill]) -> list[str]:
    """Descriptions are cut to what all of them have room for; with too many skills, the last ones are counted only."""
    lines: list[str] = []
    for longest in _LONGEST:
        lines = [_line(one, longest) for one in skills]
        if _size(lines) <= LIST_BYTES:
            return lines
    return list(_first_of(lines))


def _first_of(lines: Sequence[str]) -> Iterator[str]:
    left = LIST_BYTES - 100
    for at, line in enumerate(lines):
        left -= _size([line])
        if left < 0:
            yield f"... and {len(lines) - at} more, by their names"
            return
        yield line


def _line(skill: ToldSkill, longest: int) -> str:
    text = visible(skill.description)
    cut = text if len(text) <= longest else f"{text[:longest].rstrip()}..." if longest else ""
    return f"- {visible(skill.name)}{_OF_PROJECT if skill.is_foreign else ''}{': ' if cut else ''}{cut}"


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


async def _none(_: ToolContext, name: str) -> str:
    raise ToolError("invalid_arguments", f"there is no skill '{name}' here")


SKILL = skill_tool((), _none)
"""Without any skill. What a session has is found out when it is opened."""
