"""What extensions add to one session: plain data and functions, made elsewhere and handed to the session's actor."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import trio

from aar.errors import AarError, ExtensionError, QueueFull
from aar.hooks import Hooks
from aar.journal.journal import Journal
from aar.kernel import Envelope
from aar.kernel.alone import errors_alone
from aar.kernel.others import words_of
from aar.messages.session import CommandInfo, CommandReply, ListCommands, RunCommand
from aar.messages.settings import AgentConfig
from aar.tools.registry import ToolRegistry, ToolSpec

__all__ = ["PANEL", "Additions", "Command", "Commands", "Extend", "Observer", "add_tools"]

COMMAND_TIMEOUT = 600.0  # seconds; a person waits for it, and may leave earlier
COMMANDS_AT_ONCE = 8
LONGEST_REPLY = 100_000  # characters
PANEL = "panel:"  # how the name of a command begins that draws a panel and that nobody types

logger = logging.getLogger(__name__)


class Command(NamedTuple):
    """A slash command. `run` gets what was typed behind its name and gives what to show, or `None`."""

    name: str
    description: str
    run: Callable[[str], Awaitable[str | None]]


class Observer(NamedTuple):
    """Follows the journal beside the session until it is closed. Its failure is its own."""

    name: str
    follow: Callable[[], Awaitable[None]]


class Additions(NamedTuple):
    """`tools` may take the place of others only where the settings allow it; `problems` are for people to read."""

    tools: tuple[ToolSpec, ...] = ()
    hooks: Hooks = Hooks()
    prompt: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    observers: tuple[Observer, ...] = ()
    problems: tuple[str, ...] = ()


Extend = Callable[[Journal, AgentConfig], Awaitable[Additions]]
"""Gives what extensions add to the session of this journal, which was opened with these settings."""


def add_tools(toolbox: ToolRegistry, tools: Iterable[ToolSpec], config: AgentConfig) -> list[str]:
    """Add what may be added, and say what may not: no tool that is there gives way unless the settings say so."""
    theirs = set(toolbox.names()) - set(config.extensions.replace_tools)
    problems = []
    for spec in tools:
        if spec.name in theirs:
            problems.append(
                f"A tool {spec.name!r} of an extension was left out: there is one of that name. "
                "Name it in `extensions.replace_tools` to let it take its place."
            )
        else:
            toolbox.add(spec)
    return problems


class Commands:
    """The slash commands of a session. They run beside its turns."""

    def __init__(self, commands: tuple[Command, ...] = ()) -> None:
        self._commands = {command.name: command for command in commands}
        self._running = 0

    async def answer(self, envelope: Envelope[Any]) -> None:
        """A client asks which commands there are, or wants one run. It is cancelled when its asker leaves."""
        match envelope.message:
            case ListCommands(panels=panels):
                listing = [
                    CommandInfo(name=one.name, description=one.description)
                    for one in self._commands.values()
                    if one.name.startswith(PANEL) is panels
                ]
                envelope.reply(tuple(sorted(listing, key=lambda info: info.name)))
            case RunCommand(name=name, arguments=arguments):
                try:
                    envelope.reply(await self._run(name.lower(), arguments, envelope))
                except AarError as error:
                    envelope.fail(error)
                except Exception as error:  # a wall: commands are other people's code
                    logger.info("the command /%s failed", name, exc_info=error)
                    envelope.fail(_failed(error))

    async def _run(self, name: str, arguments: str, envelope: Envelope[Any]) -> CommandReply:
        command = self._commands.get(name)
        if command is None:
            raise ExtensionError(f"there is no command /{name} in this session")
        if self._running >= COMMANDS_AT_ONCE:
            raise QueueFull(f"{self._running} commands run already; wait until one of them is done")
        self._running += 1
        try:
            with errors_alone():
                given = await self._while_wanted(command, arguments.strip(), envelope)
        except AarError as error:
            raise _failed(error) from error
        finally:
            self._running -= 1
        return CommandReply(text=None if given is None else given[:LONGEST_REPLY])

    @staticmethod
    async def _while_wanted(command: Command, arguments: str, envelope: Envelope[Any]) -> str | None:
        given: str | None = None
        async with trio.open_nursery() as nursery:
            if envelope.answer is not None:
                nursery.start_soon(_cancel_when_set, envelope.answer.asker_left, nursery.cancel_scope)
            with trio.move_on_after(COMMAND_TIMEOUT) as limit:
                given = await command.run(arguments)
            nursery.cancel_scope.cancel()
        if limit.cancelled_caught:
            raise ExtensionError(f"/{command.name} took longer than {COMMAND_TIMEOUT:g} s")
        return given


def _failed(error: Exception) -> ExtensionError:
    failed = ExtensionError(f"Extension command error: {_said(error)}")
    failed.__cause__ = error
    return failed


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # whose own words fail, too
        return words_of(error)


async def _cancel_when_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
