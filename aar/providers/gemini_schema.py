"""JSON schemas in Gemini's dialect: a small part of OpenAPI's.

The API refuses a whole request for one word of a schema that it does not know, and tools of other programs bring any
word there is. What the dialect cannot say is left out: arguments are checked against the full schema when a call comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["gemini_schema"]

Schema = dict[str, Any]

DEEPEST = 24  # levels; what lies below is any object
MOST_NODES = 2000  # schemas within one schema, references followed

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
_LIMITS = (
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
)
_FORMATS = {
    "string": frozenset({"date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """`schema` as the API takes it: references written out, `null` as `nullable`, unknown words dropped."""
    return _Translation(schema).of(dict(schema), (), 0)


class _Translation:
    """One schema with its definitions."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def of(self, node: Any, seen: tuple[str, ...], depth: int) -> Schema:
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            return {"type": "object"}
        node, seen = self._opened(node, seen)
        types = node.get("type")
        types = types if isinstance(types, list) else [types]
        is_nullable = "null" in types or node.get("nullable") is True
        branches = _branches(node)
        if not branches:
            kinds = [kind for kind in types if kind in _TYPES]
            if len(kinds) > 1:
                branches = [{**node, "type": kind} for kind in kinds]
        if branches:
            return self._any_of(node, branches, is_nullable, seen, depth)
        return self._plain(node, next((kind for kind in types if kind in _TYPES), ""), is_nullable, seen, depth)

    def _opened(self, node: Any, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """The schema that `node` stands for, its references and `allOf` written out."""
        if not isinstance(node, Mapping):
            return {}, seen
        found = dict(node)
        while isinstance(reference := found.pop("$ref", None), str):
            if reference in seen:
                return {"type": "object", **_description(found)}, seen
            seen = (*seen, reference)
            found = {**self._target(reference), **found}
        for part in found.pop("allOf", None) or ():
            inner, seen = self._opened(part, seen)
            found = _merged(found, inner)
        return found, seen

    def _target(self, reference: str) -> Schema:
        if not reference.startswith("#/"):
            return {}
        found: Any = self._root
        for name in reference[2:].split("/"):
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return dict(found) if isinstance(found, Mapping) else {}

    def _any_of(
        self, node: Schema, branches: list[Any], is_nullable: bool, seen: tuple[str, ...], depth: int
    ) -> Schema:
        opened = [branch for branch in branches if not _is_null(branch)]
        is_nullable = is_nullable or len(opened) < len(branches)
        outer = {name: value for name, value in node.items() if name not in ("anyOf", "oneOf", "type", "nullable")}
        if len(opened) < 2:
            inner, seen = self._opened(opened[0], seen) if opened else ({}, seen)
            only = self.of({**inner, **outer}, seen, depth + 1)
            return _nullable(only) if is_nullable else only
        found: list[Schema] = []
        for branch in opened:
            made = self.of(branch, seen, depth + 1)
            found += made.get("anyOf") or [made]
        # Nothing may stand beside `anyOf`, so its branches carry the rest.
        found = [{**_description(node), **branch} for branch in found]
        return {"anyOf": [_nullable(branch) if is_nullable else branch for branch in found]}

    def _plain(self, node: Schema, kind: str, is_nullable: bool, seen: tuple[str, ...], depth: int) -> Schema:
        kind = kind or _kind_of(node)
        made: Schema = {"type": kind, **_description(node)}
        if is_nullable:
            made["nullable"] = True
        if node.get("format") in _FORMATS.get(kind, ()):
            made["format"] = node["format"]
        self._add_choices(made, node)
        made |= {name: node[name] for name in _LIMITS if _number(node.get(name)) is not None}
        _add_exclusive(made, node)
        if kind == "string" and isinstance(node.get("pattern"), str):
            made["pattern"] = node["pattern"]
        if kind == "array":
            made["items"] = self.of(_items(node), seen, depth + 1)
        if kind == "object":
            self._add_properties(made, node, seen, depth)
        return made

    def _add_choices(self, made: Schema, node: Schema) -> None:
        listed = node.get("enum")
        choices: list[Any] = listed if isinstance(listed, list) else [node["const"]] if "const" in node else []
        if None in choices:
            made["nullable"] = True
        # The API refuses an empty text as a choice.
        wanted = list(dict.fromkeys(str(choice) for choice in choices if choice not in (None, "")))
        if made["type"] == "string" and wanted:
            made["enum"] = wanted
        elif wanted:
            # Only text can be chosen from a list here; of numbers the description tells.
            told = "One of: " + ", ".join(wanted)
            made["description"] = f"{made['description']} {told}" if "description" in made else told

    def _add_properties(self, made: Schema, node: Schema, seen: tuple[str, ...], depth: int) -> None:
        properties = node.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return
        made["properties"] = {name: self.of(inner, seen, depth + 1) for name, inner in properties.items()}
        wanted = node.get("required")
        required = [name for name in wanted if name in properties] if isinstance(wanted, list) else []
        if required:
            made["required"] = required


def _branches(node: Schema) -> list[Any]:
    found = node.get("anyOf") or node.get("oneOf")
    return found if isinstance(found, list) else []


def _is_null(branch: Any) -> bool:
    return isinstance(branch, Mapping) and (branch.get("type") == "null" or branch.get("const", 0) is None)


def _nullable(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {"anyOf": [_nullable(branch) for branch in schema["anyOf"]]}
    return {**schema, "nullable": True}


def _kind_of(node: Schema) -> str:
    """The type of a schema that does not name one."""
    if isinstance(node.get("properties"), Mapping):
        return "object"
    if "items" in node or "prefixItems" in node:
        return "array"
    choices = node.get("enum") or [node.get("const")]
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, bool):
        return "boolean"
    if isinstance(first, int):
        return "integer"
    return "number" if isinstance(first, float) else "string"


def _items(node: Schema) -> Any:
    items = node.get("items")
    if isinstance(items, list) or not items:
        several = items or node.get("prefixItems")
        return several[0] if isinstance(several, list) and several else {}
    return items


def _description(node: Schema) -> Schema:
    text = node.get("description")
    return {"description": text} if isinstance(text, str) and text else {}


def _merged(first: Schema, second: Schema) -> Schema:
    """Both at once: properties and what is required add up, otherwise the first counts."""
    made = {**second, **first}
    both = [schema["properties"] for schema in (second, first) if isinstance(schema.get("properties"), Mapping)]
    if both:
        made["properties"] = {name: inner for properties in both for name, inner in properties.items()}
    required = [schema["required"] for schema in (second, first) if isinstance(schema.get("required"), list)]
    if required:
        made["required"] = list(dict.fromkeys(name for names in required for name in names))
    return made


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _add_exclusive(made: Schema, node: Schema) -> None:
    """Limits that are excluded themselves: exact for whole numbers, and a little wider for others."""
    step = 1 if made["type"] == "integer" else 0
    low, high = _number(node.get("exclusiveMinimum")), _number(node.get("exclusiveMaximum"))
    if low is not None and "minimum" not in made:
        made["minimum"] = low + step
    if high is not None and "maximum" not in made:
        made["maximum"] = high - step
