"""What a transport needs to let tools work through an editor, and to show what they change."""

from __future__ import annotations

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
    "noted_file_tools",
    "terminal_tool",
]
