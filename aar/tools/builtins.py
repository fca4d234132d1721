"""The tools that come with Aar, by name, each loaded when it is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aar.messages.settings import ToolConfig
    from aar.tools.registry import ToolSpec

__all__ = ["builtin_tools"]

_FILES = ("read_file", "write_file", "edit_file", "list_directory")
_SEARCH = ("grep", "find_files")
_MEMORY = ("memory_read", "memory_write")


def builtin_tools(config: ToolConfig) -> list[ToolSpec]:
    """The enabled built-in tools, in the order they are enabled. Unknown names are ignored.

    Where tools are deferred there is one to load them, named or not.
    """
    names = [*config.enabled_builtins, *(["load_tools"] if config.deferred else [])]
    found = [_builtin(name, config) for name in dict.fromkeys(names)]
    return [spec for spec in found if spec is not None]


def _builtin(name: str, config: ToolConfig) -> ToolSpec | None:
    if name in _FILES:
        from aar.tools.files import FILE_TOOLS

        return FILE_TOOLS[name]
    if name in _SEARCH:
        from aar.tools.search import SEARCH_TOOLS

        return SEARCH_TOOLS[name]
    if name == "bash":
        from aar.tools.shell import bash_tool

        return bash_tool(config)
    return _more(name)


def _more(name: str) -> ToolSpec | None:
    """Those that are off unless they are named."""
    if name == "todo":
        from aar.tools.todo import TODO

        return TODO
    if name == "task":
        from aar.tools.task import TASK

        return TASK
    if name == "patch":
        from aar.tools.patch import PATCH

        return PATCH
    if name == "batch":
        from aar.tools.batch import BATCH

        return BATCH
    if name == "load_tools":
        from aar.tools.load_tools import LOAD_TOOLS

        return LOAD_TOOLS
    if name == "done":
        from aar.tools.done import DONE

        return DONE
    if name == "skill":
        from aar.tools.skill import SKILL

        return SKILL
    if name in _MEMORY:
        from aar.tools import memory

        return memory.MEMORY_READ if name == "memory_read" else memory.MEMORY_WRITE
    return None
