"""What a client can ask of a session, and of the sessions of a runtime, with the answers."""

from typing import Any, Literal

from pydantic import Field, SerializeAsAny

from aar.messages.base import Command, Message, Request, new_turn_id
from aar.messages.content import ContentBlock
from aar.messages.events import AgentState, Compacted, Event, TurnEnded
from aar.messages.mcp import (
    GetServerPrompt,
    ListPrompts,
    ListResources,
    McpServer,
    McpStatus,
    ReadResource,
)
from aar.messages.settings import AgentConfig

__all__ = [
    "Adopt",
    "AskMcp",
    "AutoApprove",
    "Cancel",
    "ClearQueue",
    "CloseSession",
    "CommandInfo",
    "CommandReply",
    "Compact",
    "Configure",
    "DeleteSession",
    "FollowUp",
    "ForkSession",
    "GetStatus",
    "ListCommands",
    "ListMcp",
    "ListQueue",
    "ListSessions",
    "ListTools",
    "LoadSession",
    "OpenSession",
    "Prompt",
    "Queue",
    "QueuedPrompt",
    "Revoke",
    "RunCommand",
    "SessionCommand",
    "SessionInfo",
    "SessionListing",
    "SessionsCommand",
    "Status",
    "Steer",
    "ToolInfo",
]


# --- to one session ---------------------------------------------------------------------------


class Prompt(Command, Request[TurnEnded]):
    """Run a turn, now or when those before it are done. Answered when that turn has ended.

    One that `goes_on` says nothing new: the model is asked with the conversation as it is.
    Raises `QueueFull` when too many prompts wait, `SessionClosed` when the session ends first.
    """

    type: Literal["prompt"] = "prompt"
    content: str = ""
    parts: list[ContentBlock] = []
    turn_id: str = Field(default_factory=new_turn_id)
    goes_on: bool = False


class Steer(Command):
    """Say something to the running turn: the model sees it at its next step. Without a turn it waits for one."""

    type: Literal["steer"] = "steer"
    content: str


class FollowUp(Command):
    """Say something when the running turn would stop: the turn goes on with it."""

    type: Literal["follow_up"] = "follow_up"
    content: str


class Cancel(Command):
    """End the running turn. With a `turn_id`, only that one, running or waiting.

    `after_step` is the soft form: the step that runs is finished first.
    """

    type: Literal["cancel"] = "cancel"
    turn_id: str | None = None
    after_step: bool = False


class QueuedPrompt(Message):
    """`is_stored`: left over from before a restart. It runs only when a client sends it again.

    `is_follow_up`: said for when the running turn would stop.
    """

    turn_id: str
    content: str
    is_stored: bool = False
    is_follow_up: bool = False


class Queue(Message):
    """Prompts that wait, oldest first."""

    items: list[QueuedPrompt] = []


class ListQueue(Command, Request[Queue]):
    type: Literal["list_queue"] = "list_queue"


class ClearQueue(Command, Request[Queue]):
    """Drop all waiting prompts. Answered with what was dropped; their askers get a `TurnEnded` that says cancelled."""

    type: Literal["clear_queue"] = "clear_queue"


class Configure(Command, Request[AgentConfig]):
    """Change settings of this session, in memory and journal only, from the next step or tool call on.

    `patch` is a JSON merge patch (RFC 7396). Answered with the settings in force; raises `ConfigError`.
    """

    type: Literal["configure"] = "configure"
    patch: dict[str, Any]


class AutoApprove(Command):
    """Allow beforehand: a tool name, or `tool:prefix*` over its string arguments."""

    type: Literal["auto_approve"] = "auto_approve"
    entry: str
    by: str = "client"


class Revoke(Command):
    """Take back every standing decision about this tool or entry: it asks again."""

    type: Literal["revoke"] = "revoke"
    entry: str
    by: str = "client"


class Adopt(Command, Request[int]):
    """Record facts that were made elsewhere, as they are. Answered with the newest `seq`; refused during a turn.

    With `after_seq` it is refused when that is not the newest fact: what is added was made from what was known then.
    """

    type: Literal["adopt"] = "adopt"
    facts: list[SerializeAsAny[Event]]
    after_seq: int | None = None


class Compact(Command, Request[Compacted]):
    """Let the model summarise what was said so far. Raises `ProviderError`, or `SessionError` while a turn runs."""

    type: Literal["compact"] = "compact"
    instructions: str = ""


class Status(Message):
    """`seq` is the newest fact; `turn_id` names the running turn or is empty."""

    session_id: str
    state: AgentState
    turn_id: str = ""
    seq: int = 0
    step_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    queue_length: int = 0


class GetStatus(Command, Request[Status]):
    type: Literal["get_status"] = "get_status"


class ToolInfo(Message):
    """A tool that the model of a session can use now."""

    name: str
    description: str = ""
    side_effects: tuple[str, ...] = ()


class ListTools(Command, Request[tuple[ToolInfo, ...]]):
    """The tools of the session, sorted by name: those of the runtime, its own, and those of its MCP servers.

    `everything`: also those that the settings in force keep from the model.
    """

    type: Literal["list_tools"] = "list_tools"
    everything: bool = False


class ListMcp(Command, Request[tuple[McpStatus, ...]]):
    """The MCP servers of the session, in the order in which they were named.

    With `wait` answered when each of them has connected or failed once.
    """

    type: Literal["list_mcp"] = "list_mcp"
    wait: bool = False


class AskMcp(Command, Request[Any]):
    """Ask an MCP server of the session. Answered with what `request` is answered with; raises `McpError`."""

    type: Literal["ask_mcp"] = "ask_mcp"
    server: str
    request: ListResources | ReadResource | ListPrompts | GetServerPrompt


class CommandInfo(Message):
    """A slash command that extensions bring: `/name`, with whatever is typed behind it."""

    name: str
    description: str = ""


class ListCommands(Command, Request[tuple[CommandInfo, ...]]):
    """The slash commands of the session, sorted by name; or those that draw its panels, which only programs run."""

    type: Literal["list_commands"] = "list_commands"
    panels: bool = False


class CommandReply(Message):
    """`text` is to be shown; `None`: there is nothing to show."""

    text: str | None = None


class RunCommand(Command, Request[CommandReply]):
    """Run a slash command, beside whatever else runs. It is cancelled when its asker leaves.

    Raises `ExtensionError` when there is none of that name or it fails, `QueueFull` when too many run.

    With `is_shell` a person wants to know what a shell command says: `arguments` go to the tool `bash`, under all
    rules that it has when the model calls it. Raises `ToolError` when that may not run, `SessionError` during a turn.
    """

    type: Literal["run_command"] = "run_command"
    name: str
    arguments: str = ""
    is_shell: bool = False


SessionCommand = (
    Prompt
    | Steer
    | FollowUp
    | Cancel
    | ListQueue
    | ClearQueue
    | Configure
    | AutoApprove
    | Revoke
    | Adopt
    | Compact
    | GetStatus
    | ListTools
    | ListMcp
    | AskMcp
    | ListCommands
    | RunCommand
)


# --- to the sessions of a runtime -------------------------------------------------------------


class SessionInfo(Message):
    """`updated_at` is Unix time in seconds; `title` is the name, else the start of the first answer, else of the id."""

    session_id: str
    cwd: str = ""
    title: str = ""
    updated_at: float = 0.0
    state: AgentState = AgentState.IDLE
    step_count: int = 0
    name: str = ""


class SessionListing(Message):
    """`cursor` asks for the next page; empty at the end."""

    sessions: list[SessionInfo] = []
    cursor: str = ""


class OpenSession(Command, Request[SessionInfo]):
    """Start a new session in `cwd`, an absolute path that stays the same for its whole life.

    With the id of a stored session it goes on with that one. `trace_id` is that of a new one, if it has one already.
    `tools` are `ToolSpec`s of this process for this session alone, over those of the same names; `mcp_servers` are
    connected in the background. `steps` are `StepRules` of this process; a session that is open already gets none. One
    that is not kept leaves no file, and nobody else finds it.
    """

    type: Literal["open_session"] = "open_session"
    cwd: str
    config: AgentConfig | None = None
    session_id: str | None = None
    trace_id: str = ""
    tools: tuple[Any, ...] = Field(default=(), exclude=True)
    steps: Any = Field(default=None, exclude=True)
    mcp_servers: tuple[McpServer, ...] = ()
    is_kept: bool = True


class LoadSession(Command, Request[SessionInfo]):
    """Bring a stored session back to life; `cwd` stands in where it has none. One that is open is simply answered.

    `tools` and `mcp_servers` as in `OpenSession`; a session that is open keeps its own.

    Raises `SessionNotFound`, `SessionInUse` (another process holds it), `CorruptJournal`.
    """

    type: Literal["load_session"] = "load_session"
    session_id: str
    cwd: str = ""
    config: AgentConfig | None = None
    tools: tuple[Any, ...] = Field(default=(), exclude=True)
    mcp_servers: tuple[McpServer, ...] = ()


class ForkSession(Command, Request[SessionInfo]):
    """Start a new session from the first `at_message` messages of another; all of them without it."""

    type: Literal["fork_session"] = "fork_session"
    session_id: str
    at_message: int | None = None
    cwd: str | None = None
    tools: tuple[Any, ...] = Field(default=(), exclude=True)
    mcp_servers: tuple[McpServer, ...] = ()


class ListSessions(Command, Request[SessionListing]):
    """Newest first. `cwd` keeps only sessions of that folder."""

    type: Literal["list_sessions"] = "list_sessions"
    cwd: str | None = None
    cursor: str = ""
    limit: int = Field(default=100, ge=1, le=10_000)


class CloseSession(Command, Request[None]):
    """Cancel what runs and end the session. What it wrote stays."""

    type: Literal["close_session"] = "close_session"
    session_id: str


class DeleteSession(Command, Request[bool]):
    """Close and remove a session. Answered with whether there was one."""

    type: Literal["delete_session"] = "delete_session"
    session_id: str


SessionsCommand = OpenSession | LoadSession | ForkSession | ListSessions | CloseSession | DeleteSession
