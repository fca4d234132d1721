"""YAML without its surprises: plain data only, no aliases, no key twice, and the line that each key stands on."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from aar.errors import ConfigError

__all__ = ["Located", "parse_yaml"]

DEEPEST = 20


class Located(NamedTuple):
    """`lines` has the line of each key, by its path: `("tools", "only")`."""

    value: dict[str, Any]
    lines: dict[tuple[str, ...], int]


def parse_yaml(text: str, source: str, first_line: int = 1) -> Located:
    """The mapping in `text`, whose first line is `first_line` of `source`. Raises `ConfigError` with file and line."""
    loader = _Loader(text)
    walk = _Walk(loader, source, first_line)
    try:
        node = loader.get_single_node()
        if node is None:
            return Located({}, {})
        if not isinstance(node, yaml.MappingNode):
            raise walk.error(node, "must be lines of `key: value`")
        return Located(walk.mapping(node, ()), walk.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark is not None else 0)
        problem = error.problem or error.context or ""
        raise ConfigError(f"{source}:{line}: is no valid YAML: {problem}.{_fix_of(problem)}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}:{first_line}: is no valid YAML: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{source}:{first_line}: is nested too deeply.") from error
    finally:
        loader.dispose()


def _fix_of(problem: str) -> str:
    """What people mostly meant."""
    if problem.startswith("mapping values are not allowed"):
        return " Put a text that has a colon and a blank in it in quotes."
    if "for the tag" in problem:
        return " Put a text that begins with ! in quotes."
    return " Indent with blanks." if "'\\t'" in problem else ""


class _Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
    """Aliases could make a small file a large object."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not used here", self.get_mark())
        return super().compose_node(parent, index)


class _Walk:
    def __init__(self, loader: _Loader, source: str, first_line: int) -> None:
        self._loader = loader
        self._source = source
        self._first_line = first_line
        self.lines: dict[tuple[str, ...], int] = {}

    def error(self, node: Any, text: str) -> ConfigError:
        return ConfigError(f"{self._source}:{self._line(node)}: {text}.")

    def _line(self, node: Any) -> int:
        return self._first_line + int(node.start_mark.line)

    def mapping(self, node: Any, path: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key_node.tag.endswith(":merge"):
                raise self.error(key_node, "a key must be a plain word")
            if key in found:
                raise self.error(key_node, f'"{key[:80]}" stands twice. Remove one of them')
            self.lines[*path, key] = self._line(key_node)
            found[key] = self._value(value_node, (*path, key))
        return found

    def _value(self, node: Any, path: tuple[str, ...]) -> Any:
        if len(path) > DEEPEST:
            raise self.error(node, "is nested too deeply")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, str(at))) for at, item in enumerate(node.value)]
        try:
            value = self._loader.construct_object(node)
        except (ValueError, OverflowError) as error:  # a date such as 2024-99-99
            raise self.error(node, f"{node.value[:40]!r} is no value: {error}. Put a text in quotes") from error
        return value if isinstance(value, str | int | float | bool | None) else str(node.value)
