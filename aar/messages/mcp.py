"""MCP servers: as settings and editors name them, what they offer, and what can be asked of one."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from aar.messages.base import Command, Message, Request

__all__ = [
    "CallServerTool",
    "GetServerPrompt",
    "ListPrompts",
    "ListResources",
    "McpCommand",
    "McpListing",
    "McpPrompt",
    "McpResource",
    "McpResult",
    "McpServer",
    "McpState",
    "McpStatus",
    "McpTool",
    "ReadResource",
    "WatchServer",
]


class McpServer(Message):
    """`command`, `args` and `env` start a server on `stdio`; `url` and `headers` reach one over `http`.

    `prefix_tools` names each of its tools `<name>__<tool>`. `trust_annotations` believes it when it says that a tool
    only reads; only the user's own file and the application may say so, never an editor.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    name: str
    transport: Literal["stdio", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    prefix_tools: bool = False
    trust_annotations: bool = False


# --- what a server offers ---------------------------------------------------------------------

McpState = Literal["connecting", "connected", "failed"]
"""`failed`: it could not be reached, or was lost. It is tried again, unless the reason says otherwise."""


class McpTool(Message):
    """A tool as its server describes it. `is_read_only`: the server says so, and its annotations are trusted."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    is_read_only: bool = False


class McpResource(Message):
    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


class McpPrompt(Message):
    """`arguments` by name; `required` are those that cannot be left out."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class McpListing(Message):
    """A server at one moment. `tools` are those of the last connection, also while there is none.

    `version` grows with every change. `reason` is empty while it is connected. `left_out` names the tools that
    cannot be used, each with the reason.
    """

    version: int = 0
    state: McpState = "connecting"
    reason: str = ""
    tools: tuple[McpTool, ...] = ()
    left_out: tuple[str, ...] = ()


class McpResult(Message):
    """What a call gave, as text. `is_error`: the tool says that it failed."""

    text: str = ""
    is_error: bool = False


class McpStatus(Message):
    """A server of a session. `tools` are those in the session's toolbox, under the names that they have there.

    `left_out` names those that cannot be used, each with the reason.
    """

    name: str
    state: McpState = "connecting"
    reason: str = ""
    tools: tuple[McpTool, ...] = ()
    left_out: tuple[str, ...] = ()


# --- to one server ----------------------------------------------------------------------------


class WatchServer(Command, Request[McpListing]):
    """Answered as soon as there is a listing with a version above `after`; a negative one asks for what is known."""

    type: Literal["watch_server"] = "watch_server"
    after: int = -1


class CallServerTool(Command, Request[McpResult]):
    """Run one of its tools. Whoever leaves before the answer cancels the call, on the server as well.

    The text ends after `limit` characters. `report`, which does not cross a wire, is called with what the server
    tells meanwhile. Raises `McpError`.
    """

    type: Literal["call_server_tool"] = "call_server_tool"
    tool: str
    arguments: dict[str, Any] = {}
    limit: int = 50_000
    report: Any = Field(default=None, exclude=True, repr=False)


class ListResources(Command, Request[tuple[McpResource, ...]]):
    type: Literal["list_resources"] = "list_resources"


class ReadResource(Command, Request[str]):
    """The text of a resource, at most `limit` characters; a line in its place for what is no text."""

    type: Literal["read_resource"] = "read_resource"
    uri: str
    limit: int = 50_000


class ListPrompts(Command, Request[tuple[McpPrompt, ...]]):
    type: Literal["list_prompts"] = "list_prompts"


class GetServerPrompt(Command, Request[str]):
    """A prompt of the server, filled in: the text of its messages, at most `limit` characters."""

    type: Literal["get_server_prompt"] = "get_server_prompt"
    name: str
    arguments: dict[str, str] = {}
    limit: int = 50_000


McpCommand = WatchServer | CallServerTool | ListResources | ReadResource | ListPrompts | GetServerPrompt
