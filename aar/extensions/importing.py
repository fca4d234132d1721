"""Modules from memory: an extension runs the bytes that were read and hashed, and never those on disk."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path, PurePosixPath
from types import CodeType, ModuleType
from typing import NamedTuple

from aar.extensions.sources import Source

__all__ = ["SourceModules"]


class _Module(NamedTuple):
    path: str
    source: bytes
    is_package: bool


class SourceModules(MetaPathFinder, InspectLoader):
    """The modules of one extension under a name of their own, importable until `close`.

    Relative imports find the other modules of the extension; everything else is imported as anywhere.
    """

    def __init__(self, name: str, source: Source) -> None:
        self.name = f"_aar_extension_{re.sub(r'[^0-9a-zA-Z]', '_', name)}_{secrets.token_hex(4)}"
        self._modules = _modules(self.name, source)
        sys.meta_path.insert(0, self)

    def close(self) -> None:
        """Forget the modules; what still runs keeps what it has imported."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in self._modules:
            sys.modules.pop(name, None)

    def load(self) -> ModuleType:
        """Run the extension's module. Raises whatever it raises."""
        return import_module(self.name)

    # --- what the import system asks ---

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self._modules.get(fullname)
        if module is None:
            return None
        spec = spec_from_loader(fullname, self, origin=module.path, is_package=module.is_package)
        if spec is not None:
            spec.has_location = True  # so that `__file__` is there, for data that lies beside it
        return spec

    def is_package(self, fullname: str) -> bool:
        return self._modules[fullname].is_package

    def get_source(self, fullname: str) -> str:
        """For tracebacks."""
        return self._modules[fullname].source.decode("utf-8", errors="replace")

    def get_code(self, fullname: str) -> CodeType:
        module = self._modules[fullname]
        return compile(module.source, module.path, "exec", dont_inherit=True)


def _modules(root: str, source: Source) -> dict[str, _Module]:
    if set(source.files) == {""}:
        return {root: _Module(str(source.path), source.files[""], is_package=False)}
    found: dict[str, _Module] = {}
    for relative, data in source.files.items():
        path = PurePosixPath(relative)
        if path.suffix == ".py":
            is_package = path.name == "__init__.py"
            names = path.parent.parts if is_package else path.with_suffix("").parts
            found[".".join([root, *names])] = _Module(str(source.path / relative), data, is_package)
    for name in list(found):
        for parent in _parents(name):
            found.setdefault(parent, _Module(str(Path(source.path)), b"", is_package=True))
    return found


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
