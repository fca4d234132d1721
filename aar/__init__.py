"""Aar: a coding agent and agent runtime in which everything that runs is a supervised Trio actor.

    import aar

    session = await aar.Agent().run("What does this project do?")

Names are resolved when they are first used, so that `import aar` costs next to nothing. What is not listed here is
an implementation detail, except the packages `aar.kernel`, `aar.messages`, `aar.errors`, `aar.engine`,
`aar.extensions`, `aar.injectors` and `aar.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aar._version import __version__

if TYPE_CHECKING:
    from aar.actors.mcp_bridge import open_mcp_bridge
    from aar.agent import Agent, ApprovalResult
    from aar.client import SessionHandle, Sessions
    from aar.config import load_config
    from aar.driving import open_engine
    from aar.engine import Engine, EngineEvent, EngineEvents, Options, QueueMode, ToolExecutionMode
    from aar.errors import AarError
    from aar.hooks import Block, Hooks
    from aar.journal.jsonl import JsonlStore as SessionStore
    from aar.journal.state import Session
    from aar.messages.events import (
        AgentState,
        AssistantMessage,
        ErrorEvent,
        Event,
        EventType,
        ProviderMeta,
        ReasoningBlock,
        SessionEvent,
        StopReason,
        StreamChunk,
        ToolCall,
        ToolResult,
        TurnEnded,
        UserMessage,
    )
    from aar.messages.mcp import McpServer
    from aar.messages.settings import AgentConfig, GuardrailsConfig, ProviderConfig, SafetyConfig, ToolConfig
    from aar.providers.base import Provider
    from aar.runtime import Runtime, open_runtime
    from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec, tool
    from aar.transports.acp_http.app import create_acp_asgi_app
    from aar.transports.web.app import create_asgi_app
    from aar.transports.web.transport import WebTransport

_HOME = {
    "open_mcp_bridge": "aar.actors.mcp_bridge",
    "Agent": "aar.agent",
    "ApprovalResult": "aar.agent",
    "SessionHandle": "aar.client",
    "Sessions": "aar.client",
    "load_config": "aar.config",
    "open_engine": "aar.driving",
    "Engine": "aar.engine",
    "EngineEvent": "aar.engine",
    "EngineEvents": "aar.engine",
    "Options": "aar.engine",
    "QueueMode": "aar.engine",
    "ToolExecutionMode": "aar.engine",
    "AarError": "aar.errors",
    "Block": "aar.hooks",
    "Hooks": "aar.hooks",
    "SessionStore": "aar.journal.jsonl:JsonlStore",
    "Session": "aar.journal.state",
    "AgentState": "aar.messages.events",
    "AssistantMessage": "aar.messages.events",
    "ErrorEvent": "aar.messages.events",
    "Event": "aar.messages.events",
    "EventType": "aar.messages.events",
    "ProviderMeta": "aar.messages.events",
    "ReasoningBlock": "aar.messages.events",
    "SessionEvent": "aar.messages.events",
    "StopReason": "aar.messages.events",
    "StreamChunk": "aar.messages.events",
    "ToolCall": "aar.messages.events",
    "ToolResult": "aar.messages.events",
    "TurnEnded": "aar.messages.events",
    "UserMessage": "aar.messages.events",
    "McpServer": "aar.messages.mcp",
    "AgentConfig": "aar.messages.settings",
    "GuardrailsConfig": "aar.messages.settings",
    "ProviderConfig": "aar.messages.settings",
    "SafetyConfig": "aar.messages.settings",
    "ToolConfig": "aar.messages.settings",
    "Provider": "aar.providers.base",
    "Runtime": "aar.runtime",
    "open_runtime": "aar.runtime",
    "ToolContext": "aar.tools.registry",
    "ToolRegistry": "aar.tools.registry",
    "ToolSpec": "aar.tools.registry",
    "tool": "aar.tools.registry",
    "create_acp_asgi_app": "aar.transports.acp_http.app",
    "create_asgi_app": "aar.transports.web.app",
    "WebTransport": "aar.transports.web.transport",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    where = _HOME.get(name)
    if where is None:
        raise AttributeError(f"module 'aar' has no attribute {name!r}")
    module, _, attribute = where.partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
