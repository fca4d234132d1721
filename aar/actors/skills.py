"""The tool `skill` of one session: what its homes have, and reading it when the model asks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from aar.config.agents.homes import homes_of
from aar.config.agents.skills import MayRead, Skill, read_skills
from aar.errors import ToolError
from aar.messages.settings import SafetyConfig
from aar.safety.paths import PathGuard
from aar.tools.registry import ToolContext, ToolRegistry
from aar.tools.skill import SKILL, ToldSkill, skill_tool
from aar.tools.threads import in_thread

__all__ = ["find_skills"]


async def find_skills(toolbox: ToolRegistry, home: Path, cwd: str, safety: SafetyConfig) -> list[str]:
    """Let the tool `skill` tell what there is; where there is nothing it goes. Gives what people should know."""
    if toolbox.get(SKILL.name) is not SKILL:
        return []  # an application has brought its own
    free = safety.model_copy(update={"allowed_paths": []})  # as for the rules of a project
    may_read = partial(PathGuard(cwd, free, state_dir=str(home)).check, write=False)
    found, remarks = await trio.to_thread.run_sync(_read, home, cwd, may_read, abandon_on_cancel=True)
    if found:
        told = [ToldSkill(one.name, one.description, one.is_foreign) for one in found.values()]
        toolbox.add(skill_tool(told, partial(_instructions, home)))
    else:
        toolbox.remove(SKILL.name)
    return list(remarks)


def _read(home: Path, cwd: str, may_read: MayRead) -> tuple[dict[str, Skill], tuple[str, ...]]:
    return read_skills(homes_of(home, cwd), may_read)


async def _instructions(home: Path, ctx: ToolContext, name: str) -> str:
    """As the file is now: what was written since the session was opened is found, too."""
    found, _ = await in_thread(lambda: _read(home, ctx.cwd, partial(ctx.paths.check, write=False)))
    skill = found.get(name.strip().casefold())
    if skill is None:
        there = ", ".join(one.name for one in found.values()) or "none"
        raise ToolError("invalid_arguments", f"there is no skill '{name}'; there are: {there}")
    return skill.told()
