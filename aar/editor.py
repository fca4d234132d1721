"""What a transport needs to let tools work through an editor, and to take MCP servers from one."""

from __future__ import annotations

from aar.mcp.entries import editor_servers
from aar.tools.editor import (
    EditorFiles,
    EditorTerminals,
    TerminalExit,
    TerminalOutput,
    editor_file_tools,
    terminal_tool,
)
from aar.tools.noted_files import Note, noted_file_tools
from aar.tools.registry import ToolContext, ToolSpec

__all__ = [
    "EditorFiles",
    "EditorTerminals",
    "Note",
    "TerminalExit",
    "TerminalOutput",
    "ToolContext",
    "ToolSpec",
    "editor_file_tools",
    "editor_servers",
    "noted_file_tools",
    "terminal_tool",
]
