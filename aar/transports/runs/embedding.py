"""A host for programs that bring their own server, settings and tools."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aar.agent import ApprovalCallback
from aar.config import aar_home, merge_config
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import Provider, Store, ToolRegistry, check_function, check_given, session_store
from aar.transports.runs.host import Host, Setup

__all__ = ["embedded_host"]


def embedded_host(
    config: AgentConfig | None,
    approval_callback: ApprovalCallback | None,
    registry: ToolRegistry | None,
    *,
    cwd: str | os.PathLike[str] | None,
    home: Path | None,
    store: Store | None,
    provider: Provider | None,
    mcp_servers: Iterable[McpServer],
) -> Host:
    """Without `config` the user's file counts. Sessions work in `cwd`, by default the folder of now, and are kept in
    `store`, by default where the settings say. Nothing is read or opened before the host begins.

    Raises `TypeError` for something of a wrong kind.
    """
    check_given(config, provider, registry)
    check_function("approval_callback", approval_callback)
    servers = tuple(mcp_servers)
    folder, own_home = os.path.realpath(cwd if cwd is not None else os.getcwd()), home or aar_home()

    def set_up() -> Setup:
        settings = config if config is not None else merge_config().watched().config
        kept = store if store is not None else session_store(settings, home=own_home, cwd=folder)
        return Setup(settings, kept, folder, own_home, servers)

    return Host(set_up, registry, approval_callback, provider)
