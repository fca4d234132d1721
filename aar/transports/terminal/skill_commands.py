"""`/skill`: which skills there are, and giving one to the model without its asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from aar.transports.program.home import home_folder
from aar.transports.terminal.slash import Inputs, Reply, SlashCommand, SlashCommands, Table

if TYPE_CHECKING:
    from aar.config.agents.skills import Skill

__all__ = ["SKILL"]

Found = tuple[dict[str, "Skill"], tuple[str, ...]]


async def _skill(here: SlashCommands, text: str) -> Reply:
    found, remarks = await trio.to_thread.run_sync(_read, here, abandon_on_cancel=True)
    if not text:
        return _listing(found, remarks)
    name, _, rest = text.partition(" ")
    skill = found.get(name.casefold())
    if skill is None:
        return Reply(problem=f"There is no skill '{name}'. There are: {', '.join(found) or '(none)'}.")
    from aar.transports.terminal.file_commands import one_input

    prompt = f"{skill.told()}\n\n{rest.strip()}".strip()
    return Reply(inputs=Inputs(one_input(prompt), are_typed=False))


def _read(here: SlashCommands) -> Found:
    from aar.config.agents import homes_of  # most sessions ask for no skill
    from aar.config.agents.skills import read_skills
    from aar.runtime import reading_rule

    cwd, talk = here.handle.cwd, here.conversation
    homes = homes_of(home_folder(), cwd, talk.roles.places.more if talk.has_roles else ())
    return read_skills(homes, reading_rule(here.config, cwd))


def _listing(found: dict[str, Skill], remarks: tuple[str, ...]) -> Reply:
    rows = [(one.name, "project" if one.is_foreign else "", one.description) for one in found.values()]
    problem = "\n".join(remarks)
    if not rows:
        return Reply("There are no skills: a skill is a folder skills/NAME with a SKILL.md.", problem=problem)
    return Reply(table=Table("Skills", ("skill", "", "for"), tuple(rows)), problem=problem)


SKILL = SlashCommand(("skill",), "[NAME [TEXT]]", "Show the skills, or give one to the model.", _skill)
