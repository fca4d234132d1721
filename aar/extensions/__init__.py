"""Extensions: Python files of the user, of a project or of installed packages that add tools, hooks and commands.

What their authors may import, for annotations and for tests, is here; nothing of it is needed to write one.
"""

from __future__ import annotations

from aar.extensions.api import (
    BlockResult,
    ExtensionAPI,
    ExtensionAPIProtocol,
    ExtensionContext,
    ExtensionContextProtocol,
)

__all__ = ["BlockResult", "ExtensionAPI", "ExtensionAPIProtocol", "ExtensionContext", "ExtensionContextProtocol"]
