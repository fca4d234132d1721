"""Slash commands: what can be typed at a prompt instead of a message, in every interface for people.

An answer is data: texts, tables, and what the interface is to do itself. How that looks is its own affair.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

from aar.client import SessionHandle
from aar.display import plain
from aar.errors import AarError, ConfigError
from aar.messages.session import Status
from aar.messages.settings import AgentConfig, SafetyConfig
from aar.transports.program.opening import Conversation
from aar.transports.program.sentences import sentence
from aar.transports.terminal.models import model_listing
from aar.usage import format_cost, format_tokens

if TYPE_CHECKING:
    from aar.config.themes import Themes
    from aar.messages.themes import Theme

__all__ = [
    "CHAT",
    "FULL_SCREEN",
    "INLINE",
    "SHORT_ID",
    "Effect",
    "Inputs",
    "Reply",
    "SlashCommand",
    "SlashCommands",
    "Table",
    "harmless",
    "totals",
]

SHORT_ID = 8  # characters of a session's id
PREVIEW = 60  # characters of a prompt that waits


class Effect(Enum):
    """What an interface does besides showing the reply."""

    LEAVE = "it ends"
    CLEAR = "its screen is cleared; `conversation.handle` is a new session, and the old one is closed"
    RESTYLE = "`SlashCommands.theme` is another one"
    THINK = "what the model thinks is shown, or no more"


class Table(NamedTuple):
    """Rows of equal length. Without `columns` the first cell of a row is the name of what follows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Inputs(NamedTuple):
    """What an interface takes next as if it were typed, one after the other: the next one is asked for when the turn
    of the one before it has ended well, and not at all when that was cancelled or failed. `lines` may raise `AarError`.

    Only in what somebody has typed, `are_typed`, directives are looked at.
    """

    lines: AsyncGenerator[str, None]
    are_typed: bool = True


class Reply(NamedTuple):
    """To be shown in this order: `problem` in the colour of errors, `table`, `text`. Nothing in it is harmless yet:
    names and descriptions are other people's. `codes` are for the terminal itself, where there is one."""

    text: str = ""
    table: Table | None = None
    problem: str = ""
    effect: Effect | None = None
    codes: str = ""
    inputs: Inputs | None = None


class SlashCommand(NamedTuple):
    """`names` without the slash; the first is the one that is shown. `answer` gets what was typed behind the name."""

    names: tuple[str, ...]
    arguments: str
    about: str
    answer: Callable[[SlashCommands, str], Awaitable[Reply]]

    @property
    def usage(self) -> str:
        return f"/{self.names[0]} {self.arguments}".rstrip()


class SlashCommands:
    """The commands of one interface. `conversation` is shared with it; `theme` is the one in use, if it has any."""

    def __init__(
        self,
        conversation: Conversation,
        commands: Iterable[SlashCommand],
        *,
        themes: Themes | None = None,
        theme: Theme | None = None,
    ) -> None:
        self.conversation = conversation
        self._themes = themes
        self._theme = theme
        self._commands = tuple(commands)
        self._by_name = {name: command for command in self._commands for name in command.names}

    @property
    def handle(self) -> SessionHandle:
        return self.conversation.handle

    @property
    def config(self) -> AgentConfig:
        return self.conversation.config

    @property
    def themes(self) -> Themes:
        if self._themes is None:
            from aar.config.themes import Themes

            self._themes = Themes()
        return self._themes

    @property
    def theme(self) -> Theme:
        if self._theme is None:
            self._theme = self.themes.get("default")
        return self._theme

    @theme.setter
    def theme(self, theme: Theme) -> None:
        self._theme = theme

    async def run(self, line: str) -> Reply:
        """Do what `line`, which begins with a slash, asks for.

        Names are looked up here first, then among extensions, then among the files in `commands`.

        Whatever goes wrong is in the reply. A command of an extension runs until it is done, or until this is
        cancelled.
        """
        name, _, rest = line[1:].strip().partition(" ")
        command = self._by_name.get(name.lower())
        try:
            if command is not None:
                return await command.answer(self, rest.strip())
            if name.lower() in {one.name for one in await self.handle.commands()}:
                return Reply(text=await self.handle.run_command(name, rest) or "")
            from aar.transports.terminal.file_commands import one_input, prompt_of

            prompt = await prompt_of(self.conversation, name, rest.strip())
        except AarError as error:
            return Reply(problem=sentence(error))
        if prompt is not None:
            return Reply(inputs=Inputs(one_input(prompt), are_typed=False))
        return Reply(problem=f"Unknown command: {line}", table=await self.listing())

    async def listing(self) -> Table:
        """All commands; after ours those of extensions, then those that are files."""
        own = [(command.usage, command.about) for command in self._commands]
        theirs = [(f"/{one.name}", one.description) for one in await self.handle.commands()]
        shadowed = {f"/{name}" for name in self._by_name}
        theirs = [row for row in theirs if row[0] not in shadowed]
        files = [row for row in await self._files() if row[0] not in {*shadowed, *(name for name, _ in theirs)}]
        return Table("Commands", (), (*own, *theirs, *files))

    async def _files(self) -> list[tuple[str, str]]:
        from aar.transports.terminal.file_commands import file_commands

        try:
            found = await file_commands(self.conversation)
        except ConfigError as error:
            return [("commands", f"cannot be read: {error}")]
        usable, problems = await trio.to_thread.run_sync(found.usable, abandon_on_cancel=True)
        rows = [(f"/{one.name.lower()}", one.description) for one in usable]
        return rows + [("", f"cannot be used: {problem}") for problem in problems]


def harmless(table: Table) -> Table:
    """The same table for a terminal: each cell on one line, without control characters."""
    rows = tuple(tuple(plain(" ".join(cell.splitlines())) for cell in row) for row in table.rows)
    return table._replace(rows=rows)


def totals(input_tokens: int, output_tokens: int, cost: float) -> str:
    """`150in / 80out ($1.23)`; what costs nothing has no price."""
    price = f" ({format_cost(cost)})" if cost > 0 else ""
    return format_tokens(input_tokens, output_tokens) + price


# --- the commands -----------------------------------------------------------------------------


async def _leave(_: SlashCommands, __: str) -> Reply:
    return Reply(effect=Effect.LEAVE)


async def _help(here: SlashCommands, _: str) -> Reply:
    return Reply(table=await here.listing())


async def _model(here: SlashCommands, name: str) -> Reply:
    if not name:
        return Reply(text=model_listing(here.config).rstrip("\n"))
    return Reply(text=f"Switched to {await here.conversation.switch_model(name)}")


async def _agent(here: SlashCommands, name: str) -> Reply:
    return await _role(here, "agent", name)


async def _mode(here: SlashCommands, name: str) -> Reply:
    return await _role(here, "mode", name)


async def _role(here: SlashCommands, role: Literal["agent", "mode"], name: str) -> Reply:
    if not name:
        from aar.roles import roles_of_session

        rows = await roles_of_session(here.conversation.roles, here.handle, role)
        return Reply(table=Table(f"{role.title()}s", ("", role, "description"), rows))
    if name == "next":
        name = await _next_role(here, role)
    remarks = await here.conversation.switch_role(role, name)
    config = here.config
    now = getattr(config, role)
    text = f"Switched to the {role} {now} ({config.resolve_provider().label})." if now else f"No {role} is in force."
    return Reply(text="\n".join([text, *remarks]))


async def _next_role(here: SlashCommands, role: Literal["agent", "mode"]) -> str:
    """The name of the one behind that in force; behind the last one comes none. One that is called `next` is found."""
    from aar.roles import roles_of_session

    rows = await roles_of_session(here.conversation.roles, here.handle, role)
    names = [name for mark, name, _ in rows if mark != "!"]
    if "next" in names:
        return "next"
    at = next((place for place, row in enumerate(rows) if row[0] == "*"), -1)
    return [*names, "none"][at + 1]


async def _status(here: SlashCommands, _: str) -> Reply:
    return await _told_status(here, lambda status: ("tokens", format_tokens(status.input_tokens, status.output_tokens)))


async def _status_with_state(here: SlashCommands, _: str) -> Reply:
    return await _told_status(here, lambda status: ("state", str(status.state)))


async def _told_status(here: SlashCommands, row: Callable[[Status], tuple[str, str]]) -> Reply:
    if here.conversation.is_blank:
        return Reply(text="No active session.")
    status = await here.handle.status()
    rows = [("session", f"{status.session_id[:SHORT_ID]}..."), ("steps", str(status.step_count)), row(status)]
    if status.cost > 0:
        rows.append(("cost", format_cost(status.cost)))
    return Reply(table=Table("Status", (), tuple(rows)))


async def _tools(here: SlashCommands, _: str) -> Reply:
    rows = [
        (tool.name, ", ".join(tool.side_effects), _first_sentence(tool.description))
        for tool in await here.handle.tools()
    ]
    return Reply(table=Table("Tools", ("tool", "effects", "description"), tuple(rows)))


def _first_sentence(text: str) -> str:
    sentence, end, _ = text.strip().partition("\n")[0].partition(". ")
    return sentence + end.strip()


async def _policy(here: SlashCommands, _: str) -> Reply:
    return Reply(table=Table("Policy", (), _rules(here.config.safety)))


def _rules(safety: SafetyConfig) -> tuple[tuple[str, str], ...]:
    def yes(is_so: bool) -> str:
        return "yes" if is_so else "no"

    return (
        ("read only", yes(safety.read_only)),
        ("asks before writing", yes(safety.require_approval_for_writes)),
        ("asks before running commands", yes(safety.require_approval_for_execute)),
        ("denied paths", f"{len(safety.denied_paths)} patterns"),
        ("allowed paths", ", ".join(safety.allowed_paths) or "all (no whitelist)"),
        *((name, ", ".join(rules)) for name, rules in _call_rules(safety) if rules),
        ("sandbox", safety.sandbox.mode),
        ("waits for an answer", f"{safety.acp_approval_timeout:g} s" if safety.acp_approval_timeout else "for ever"),
    )


def _call_rules(safety: SafetyConfig) -> tuple[tuple[str, list[str]], ...]:
    return ("never allowed", safety.deny), ("asked first", safety.confirm), ("allowed", safety.auto)


async def _clear(here: SlashCommands, _: str) -> Reply:
    left = await here.conversation.start_over()
    return Reply(text=f"Session saved: {left}" if left else "", effect=Effect.CLEAR)


async def _theme(here: SlashCommands, name: str) -> Reply:
    if not name:
        return Reply(table=await trio.to_thread.run_sync(_themes, here.themes, here.theme.name, abandon_on_cancel=True))
    if name == "next":
        here.theme = await trio.to_thread.run_sync(here.themes.next_after, here.theme.name, abandon_on_cancel=True)
    else:
        here.theme = await trio.to_thread.run_sync(here.themes.get, name, abandon_on_cancel=True)
    return Reply(text=f"Theme: {here.theme.name}", effect=Effect.RESTYLE)


def _themes(themes: Themes, current: str) -> Table:
    names = themes.list_names()
    rows = [("*" if name == current else " ", name, _about(themes, name)) for name in names]
    if current not in names:
        rows.insert(0, ("*", current, ""))
    return Table("Themes", ("", "theme", "description"), tuple(rows))


def _about(themes: Themes, name: str) -> str:
    try:
        return themes.get(name).description
    except ConfigError as error:
        return f"cannot be used: {error}".partition("\n")[0]


async def _think(_: SlashCommands, __: str) -> Reply:
    return Reply(effect=Effect.THINK)


async def _queue(here: SlashCommands, rest: str) -> Reply:
    if rest == "clear":
        dropped = await here.handle.clear_queue()
        return Reply(text=f"Cleared {len(dropped.items)} queued prompt(s).")
    if rest:
        return Reply(problem="Usage: /queue or /queue clear")
    waiting = (await here.handle.queue()).items
    lines = [f"  {number}. {_preview(item.content)}" for number, item in enumerate(waiting, 1)]
    return Reply(text="\n".join(lines) or "No queued prompts.")


def _preview(content: str) -> str:
    line = " ".join(content.split()) or "[multimodal]"
    return line if len(line) <= PREVIEW else f"{line[:PREVIEW]}..."


_MODEL = SlashCommand(("model",), "[NAME]", "Show the model; with a name, use another one.", _model)
_STATUS = SlashCommand(("status",), "", "Show what the session has done and cost.", _status)
_TOOLS = SlashCommand(("tools",), "", "Show the tools that the model can use.", _tools)
_POLICY = SlashCommand(("policy",), "", "Show what tools may do.", _policy)
_THEME = SlashCommand(("theme",), "[NAME|next]", "Show the themes, or use another one.", _theme)
_CLEAR = SlashCommand(("clear",), "", "Clear the screen and begin a new session.", _clear)
_THINK = SlashCommand(("think",), "", "Show or hide what the model thinks.", _think)
_QUEUE = SlashCommand(("queue",), "[clear]", "Show the prompts that wait, or drop them.", _queue)
_HELP = SlashCommand(("help", "h"), "", "Show these commands.", _help)
_QUIT = SlashCommand(("quit", "exit", "q"), "", "Leave, as /exit and /q do.", _leave)

_AGENT = SlashCommand(("agent",), "[NAME|next|none]", "Show the agents, or work as another one.", _agent)
_MODE = SlashCommand(("mode",), "[NAME|next|none]", "Show the modes, or go on in another one.", _mode)

CHAT = (_MODEL, _AGENT, _MODE, _STATUS, _TOOLS, _POLICY, _CLEAR, _HELP, _QUIT)
INLINE = (_MODEL, _AGENT, _MODE, _STATUS, _TOOLS, _POLICY, _THEME, _CLEAR, _HELP, _QUIT)
_FULL_STATUS = _STATUS._replace(answer=_status_with_state)
FULL_SCREEN = (_MODEL, _AGENT, _MODE, _FULL_STATUS, _TOOLS, _POLICY, _THEME, _THINK, _QUEUE, _CLEAR, _HELP, _QUIT)
