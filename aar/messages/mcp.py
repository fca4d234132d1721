"""An MCP server, as settings and editors name it."""

from typing import Literal

from pydantic import ConfigDict

from aar.messages.base import Message

__all__ = ["McpServer"]


class McpServer(Message):
    """`command`, `args` and `env` start a server on `stdio`; `url` and `headers` reach one over `http`.

    `prefix_tools` names each of its tools `<name>__<tool>`.
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
