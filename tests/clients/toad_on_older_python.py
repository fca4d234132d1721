"""Loaded at the start of the Python that runs Toad: what Toad 0.6 takes from Python 3.14 and 3.13 does not have.

Annotations are read lazily, as if each module asked for it; thread pools stand for pools of interpreters.
"""

from __future__ import annotations
import __future__

import builtins
import concurrent.futures
import importlib
import sys
import typing
from importlib.machinery import SourceFileLoader
from typing import Any

plain = SourceFileLoader.source_to_code


def source_to_code(self: Any, data: Any, path: Any, *, _optimize: int = -1) -> Any:
    if "/site-packages/toad/" in str(path):
        flag = __future__.annotations.compiler_flag
        return compile(data, path, "exec", flags=flag, dont_inherit=True, optimize=_optimize)
    return plain(self, data, path, _optimize=_optimize)


class Protocol:
    """Toad evaluates annotations as text where its protocol types have no name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("toad.acp.protocol"), name)


if sys.version_info < (3, 14):
    SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign, assignment]
    builtins.protocol = Protocol()  # type: ignore[attr-defined]
    builtins.Any = typing.Any  # type: ignore[attr-defined]
    concurrent.futures.InterpreterPoolExecutor = concurrent.futures.ThreadPoolExecutor  # type: ignore[attr-defined, misc]
