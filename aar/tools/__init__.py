"""Tools: what the model can call, and those that come with Aar."""

from aar.tools.builtins import builtin_tools
from aar.tools.registry import ToolContext, ToolRegistry, ToolSpec, invoke, tool

__all__ = ["ToolContext", "ToolRegistry", "ToolSpec", "builtin_tools", "invoke", "tool"]
