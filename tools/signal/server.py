"""Ten tools and three resources over one Signal account."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import ToolAnnotations

from tools.failing import ServiceError, told
from tools.signal.account import Account, as_json
from tools.signal.settings import Settings

__all__ = ["signal_server"]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
TAKES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


def signal_server(settings: Settings, folder: Path) -> MCPServer:
    """The server `signal-mcp`. Attachments are sent from below `folder`."""
    account = Account(settings, folder)
    server = MCPServer("signal-mcp", instructions="Messages of a Signal account.", log_level="WARNING")
    if settings.log_file:
        logging.basicConfig(filename=settings.log_file, level=settings.log_level.upper(), force=True)
    else:
        logging.getLogger().setLevel(settings.log_level.upper())
    _add_messages(server, account)
    _add_lists(server, account)
    _add_changes(server, account)
    _add_resources(server, account)
    return server


def _add_messages(server: MCPServer, account: Account) -> None:
    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def signal_send_message(recipients: list[str], message: str, attachments: list[str] | None = None) -> str:
        """Send a message to numbers (+491234567) or groups; attachments are paths below the working folder."""
        return await account.send(recipients, message, attachments or [])

    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def signal_react(
        recipient: str, emoji: str, target_author: str, target_timestamp: int, remove: bool = False
    ) -> str:
        """React to a message with an emoji, or take the reaction back."""
        return await account.react(recipient, emoji, target_author, target_timestamp, remove)

    @server.tool(annotations=TAKES, structured_output=False)
    @told
    async def signal_receive_messages(timeout: int | None = None, limit: int = 0) -> str:
        """The messages that came since the last call. timeout: seconds to wait; limit: how many at most, 0 for all."""
        return await account.receive_text(timeout, limit)


def _add_lists(server: MCPServer, account: Account) -> None:
    @server.tool(annotations=READS, structured_output=False)
    @told
    async def signal_list_groups() -> str:
        """The groups of this account."""
        return as_json(await account.groups())

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def signal_list_contacts() -> str:
        """The contacts of this account."""
        return as_json(await account.contacts())

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def signal_list_accounts() -> str:
        """The accounts that the REST API knows."""
        return as_json(await account.accounts())

    @server.tool(annotations=READS, structured_output=False)
    @told
    async def signal_account_info() -> str:
        """The account that is used, whether it is registered, and the version of the REST API."""
        return as_json(await account.info())


def _add_changes(server: MCPServer, account: Account) -> None:
    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def signal_create_group(name: str, members: list[str], description: str = "") -> str:
        """Create a group with these members."""
        return await account.create_group(name, members, description)

    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def signal_update_contact(number: str, name: str, expiration_seconds: int = 0) -> str:
        """Name a contact, and set after how many seconds messages disappear; 0 keeps them."""
        return await account.update_contact(number, name, expiration_seconds)

    @server.tool(annotations=WRITES, structured_output=False)
    @told
    async def signal_set_profile(name: str, about: str = "", emoji: str = "") -> str:
        """Set the name and the text that others see of this account."""
        return await account.set_profile(name, about, emoji)


def _add_resources(server: MCPServer, account: Account) -> None:
    async def told_json(ask: Callable[[], Awaitable[Any]]) -> str:
        try:
            return as_json(await ask())
        except ServiceError as error:
            raise ResourceError(str(error)) from error

    @server.resource("signal://messages/inbox", mime_type="application/json")
    async def inbox() -> str:
        """The messages that came since the server started, new ones included."""

        async def all_messages() -> list[dict[str, Any]]:
            await account.receive(timeout=1)
            return list(account.inbox)

        return await told_json(all_messages)

    @server.resource("signal://groups/list", mime_type="application/json")
    async def groups() -> str:
        """The groups of this account."""
        return await told_json(account.groups)

    @server.resource("signal://contacts/list", mime_type="application/json")
    async def contacts() -> str:
        """The contacts of this account."""
        return await told_json(account.contacts)
