"""The web API for programs that have another way to serve it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aar.agent import ApprovalCallback
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import Provider, Store, ToolRegistry
from aar.transports.runs.embedding import embedded_host
from aar.transports.web.chats import Chats

__all__ = ["WebTransport"]


class WebTransport(Chats):
    """One runtime, which is open inside `async with transport:`, and what is chatted in it.

    Without `config` the user's file counts. Without an `approval_callback` every question is answered with no. With
    `may_loosen` a request may also allow more than the settings do. Sessions work in `cwd`, by default the folder of
    now, and are kept in `store`, by default where the settings say.
    """

    def __init__(
        self,
        config: AgentConfig | None = None,
        approval_callback: ApprovalCallback | None = None,
        registry: ToolRegistry | None = None,
        *,
        may_loosen: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        home: Path | None = None,
        store: Store | None = None,
        provider: Provider | None = None,
        mcp_servers: Iterable[McpServer] = (),
    ) -> None:
        host = embedded_host(
            config,
            approval_callback,
            registry,
            cwd=cwd,
            home=home,
            store=store,
            provider=provider,
            mcp_servers=mcp_servers,
        )
        super().__init__(host, may_loosen=may_loosen)
