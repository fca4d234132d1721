"""Slash commands that are files: `commands/NAME.md` is a prompt that `/NAME` sends, with what is typed behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import trio

from aar.errors import ConfigError

if TYPE_CHECKING:
    from aar.config.agents import Entities
    from aar.config.agents.loading import Part
    from aar.transports.program.opening import Conversation

__all__ = ["file_commands", "one_input", "prompt_of"]


async def file_commands(conversation: Conversation) -> Entities:
    """Those of all homes, by name; names are the same in upper and lower case. Raises `ConfigError`."""
    from aar.config.agents import Library
    from aar.roles import read_library

    if not conversation.has_roles:
        return Library().commands
    parts: tuple[Part, ...] = ("commands",)
    places = conversation.roles.places
    return (await trio.to_thread.run_sync(read_library, places, parts, abandon_on_cancel=True)).commands


async def prompt_of(conversation: Conversation, name: str, rest: str) -> str | None:
    """What to send for `/name rest`; `None` when there is no such file. Raises `ConfigError`."""
    known = await file_commands(conversation)
    if name not in known:
        return None
    return await trio.to_thread.run_sync(_filled, known, name, rest, conversation.handle.cwd, abandon_on_cancel=True)


def _filled(known: Entities, name: str, rest: str, cwd: str) -> str:
    """Parents first. What was typed stands where the text wants it, else at the end."""
    from aar.roles import filled_command

    text = filled_command(known, name, rest, cwd)
    if not text.strip():
        raise ConfigError(f"{known[name].path}: has no text to send.")
    return text


async def one_input(text: str) -> AsyncGenerator[str, None]:
    yield text
