"""`aar agents` and `aar modes`: which there are, what one of them changes and where that was said, and trusting one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from aar.config import Loaded, merge_config
from aar.config.agents import Entities, Entity, Library, Switch
from aar.config.agents.loading import Part
from aar.display import one_line, plain, visible
from aar.errors import ConfigError
from aar.messages.settings import BUILTIN_TOOLS
from aar.roles import Places, Role, content_of, read_library, resolve, trust_role
from aar.transports.cli.lines import Lines
from aar.transports.program.casting import CLEAN, places_of
from aar.transports.program.exits import DONE, FAILED, USAGE, complain, run_to_code
from aar.transports.program.flags import PromptFlags
from aar.transports.program.screen import Screen
from aar.transports.program.settings import here

__all__ = ["listing", "show", "trust_them"]


def listing(role: Role, *, flags: PromptFlags) -> int:
    """List the agents or modes of this folder. The one that would be in force has a star.

    A file that is wrong makes the exit code 2, and the others are listed all the same.
    """

    async def work() -> int:
        loaded, places = _settings(flags)
        library = await _library(places, role)
        usable, problems = await trio.to_thread.run_sync(_of(library, role).usable, abandon_on_cancel=True)
        for remark in (*library.remarks, *problems):
            complain(remark)
        chosen = getattr(loaded.config, role).casefold()
        rows = [("*" if one.name.casefold() == chosen else " ", one_line(one.name), _about(one)) for one in usable]
        wide = max((len(row[1]) for row in rows), default=0)
        text = "".join(f"{star} {name.ljust(wide)}  {about}".rstrip() + "\n" for star, name, about in rows)
        nothing = f"No {role}s yet: each is a file NAME.md in {places.home / f'{role}s'}.\n"
        if text or not problems:
            await Screen().say(plain(text) or plain(nothing))
        return USAGE if problems else DONE

    return run_to_code(work)


def _settings(flags: PromptFlags) -> tuple[Loaded, Places]:
    """As flags, environment and file have them, before any agent changes them."""
    loaded = merge_config(file=flags.config, flags=flags.settings())
    return loaded, places_of(loaded, flags, here())


async def _library(places: Places, role: Role) -> Library:
    """Only what is asked for: a mode that is wrong does not disturb whoever looks at agents."""
    parts: tuple[Part, ...] = ("agents",) if role == "agent" else ("modes",)
    return await trio.to_thread.run_sync(read_library, places, parts, abandon_on_cancel=True)


def _of(library: Library, role: Role) -> Entities:
    return library.agents if role == "agent" else library.modes


def _about(entity: Entity) -> str:
    foreign = f"[not trusted: {entity.path}] " if entity.is_foreign else ""
    return one_line(f"{foreign}{entity.description}")


def show(role: Role, name: str, *, flags: PromptFlags) -> int:
    """Show what an agent or a mode changes, where each value was said, and its text as a model gets it."""

    async def work() -> int:
        loaded, places = _settings(flags)
        settings = loaded.config.model_copy(update=CLEAN)
        agent, mode = (name, flags.mode) if role == "agent" else (flags.agent or "", name)
        tools = [tool for tool in BUILTIN_TOOLS if tool in settings.tools.enabled_builtins]
        switch = await trio.to_thread.run_sync(resolve, settings, places, agent, mode, tools, abandon_on_cancel=True)
        for remark in switch.remarks:
            complain(remark)
        await Screen().say(plain(_description(switch)))
        return DONE

    return run_to_code(work)


def _description(switch: Switch) -> str:
    data = switch.config.model_dump(mode="json")
    lines = [f"{what} {data[what]}" for what in ("agent", "mode") if data[what]]
    for path, place in sorted(switch.origins.items()):
        value = _at(data, path)
        if value is not None and not path.startswith("prompts."):
            lines.append(f"{path} = {json.dumps(value, ensure_ascii=False)}  ({place})")
    lines += [f"fallback: {entry['agent']}" for entry in data["fallback_agents"]]
    for what, text in switch.config.prompts.items():
        lines += ["", f"--- {what} ({switch.origins.get(f'prompts.{what}', 'settings')}) ---", text]
    return "\n".join([*lines, ""])


def _at(data: Mapping[str, Any], path: str) -> Any:
    value: Any = data
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return None if path == "fallback_agents" else value


# --- trust ------------------------------------------------------------------------------------


def trust_them(role: Role, names: Sequence[str], *, says_yes: bool, flags: PromptFlags) -> int:
    """Let files of this project count as the user's own, as they are now."""

    async def work() -> int:
        screen = Screen()
        _, places = _settings(flags)
        library = await _library(places, role)
        entities = [_of(library, role).find(name) for name in names]
        digests = []
        for entity in entities:
            if not entity.is_foreign:
                raise ConfigError(f"{entity.path}: need not be trusted: it is used as it is.")
            text, digest = content_of(entity)
            digests.append(digest)
            await screen.tell(f"{one_line(str(entity.path))}  (SHA-256 {digest[:16]}…)\n{visible(text.rstrip())}\n")
        if not says_yes and not await _agrees(screen):
            await screen.tell("Nothing is trusted.\n")
            return FAILED
        for entity, digest in zip(entities, digests, strict=True):
            await trio.to_thread.run_sync(trust_role, places, entity, digest)
        await screen.say(f"Trusted until the file changes: {', '.join(one_line(name) for name in names)}\n")
        return DONE

    return run_to_code(work)


async def _agrees(screen: Screen) -> bool:
    lines = Lines()
    if not (lines.is_terminal and screen.err_is_terminal):
        await screen.tell("Nobody is here to ask: add --yes when you have read it.\n")
        return False
    await screen.tell("This file may then allow more than your settings do. Trust it? [y]es / [n]o: ")
    answer = await lines.read()
    screen.typed_newline()
    return (answer or "").strip().lower() in ("y", "yes")
