from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.providers.gemini_schema import DEEPEST, MOST_NODES, gemini_schema

WORDS = {
    "type",
    "description",
    "format",
    "nullable",
    "enum",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "pattern",
    "items",
    "properties",
    "required",
    "anyOf",
}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string", "description": "D", "title": "T", "default": "x"}, {"type": "string", "description": "D"}),
        ({"type": ["integer", "null"], "minimum": 1}, {"type": "integer", "nullable": True, "minimum": 1}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 8},
        ),
        ({"type": "number", "exclusiveMinimum": 0.5}, {"type": "number", "minimum": 0.5}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "uri", "pattern": "^h"}, {"type": "string", "pattern": "^h"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", "b", None]}, {"type": "string", "nullable": True, "enum": ["a", "b"]}),
        ({"enum": [1, 2], "description": "N."}, {"type": "integer", "description": "N. One of: 1, 2"}),
        ({"type": "boolean", "const": True}, {"type": "boolean", "description": "One of: True"}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        ({"prefixItems": [{"type": "number"}]}, {"type": "array", "items": {"type": "number"}}),
        ({"items": {"type": "integer"}, "minItems": 1}, {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a", "gone"],
                "additionalProperties": False,
            },
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        ({"properties": {}}, {"type": "object"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "D"},
            {"type": "string", "nullable": True, "description": "D"},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "D"},
            {
                "anyOf": [
                    {"type": "string", "description": "D", "nullable": True},
                    {"type": "integer", "description": "D", "nullable": True},
                ]
            },
        ),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "integer"}}},
                ]
            },
            {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "required": ["a"]},
        ),
        ({}, {"type": "string"}),
    ],
)
def test_each_word_has_its_counterpart(schema: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert gemini_schema(schema) == wanted


def test_references_are_written_out() -> None:
    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Point", "description": "Where."}, "odd": {"$ref": "#/$defs/a~1b"}},
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}}, "a/b": {"type": "boolean"}},
    }
    point = {"type": "object", "description": "Where.", "properties": {"x": {"type": "number"}}}
    assert gemini_schema(schema) == {"type": "object", "properties": {"at": point, "odd": {"type": "boolean"}}}


def test_a_reference_that_leads_nowhere_or_elsewhere_is_anything() -> None:
    assert gemini_schema({"$ref": "#/$defs/gone"}) == {"type": "string"}
    assert gemini_schema({"$ref": "https://example.org/schema"}) == {"type": "string"}


def test_a_schema_that_contains_itself_ends_as_any_object() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    found = gemini_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert found == {"type": "object", "properties": {"next": {"type": "object"}}}


def test_a_schema_that_doubles_with_every_reference_stays_small() -> None:
    names = [f"d{number}" for number in range(60)]
    definitions = {
        name: {"properties": {"a": {"$ref": f"#/$defs/{after}"}, "b": {"$ref": f"#/$defs/{after}"}}}
        for name, after in zip(names, [*names[1:], "end"], strict=True)
    }
    found = gemini_schema({"$ref": "#/$defs/d0", "$defs": definitions})
    assert _depth(found) <= DEEPEST + 2
    assert str(found).count("'type'") <= 2 * MOST_NODES


def _depth(schema: dict[str, Any]) -> int:
    return 1 + max((_depth(inner) for inner in schema.get("properties", {}).values()), default=0)


def schemas() -> st.SearchStrategy[Any]:
    scalar = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "null", "any", ["string", "null"], ["number", "boolean"]]),
            "enum": st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=3),
            "const": st.one_of(st.none(), st.text(max_size=3), st.integers()),
            "$ref": st.sampled_from(["#", "#/properties/a", "#/nowhere", "x"]),
            "format": st.sampled_from(["date-time", "email", "int32"]),
            "nullable": st.booleans(),
            "minimum": st.integers(),
            "exclusiveMinimum": st.one_of(st.booleans(), st.integers()),
            "$schema": st.just("x"),
        },
    )
    return st.recursive(
        st.one_of(scalar, st.booleans()),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "array", ["object", "null"]]),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "required": st.lists(st.sampled_from("abcd"), max_size=3),
                "items": st.one_of(inner, st.lists(inner, max_size=2)),
                "anyOf": st.lists(inner, max_size=3),
                "allOf": st.lists(inner, max_size=2),
                "additionalProperties": inner,
                "description": st.text(max_size=3),
            },
        ),
        max_leaves=12,
    )


def _check(schema: dict[str, Any]) -> None:
    assert set(schema) <= WORDS
    if "anyOf" in schema:
        assert set(schema) == {"anyOf"}
        assert len(schema["anyOf"]) > 1
    else:
        assert schema["type"] in {"string", "number", "integer", "boolean", "array", "object"}
    assert ("items" in schema) == (schema.get("type") == "array")
    assert schema.get("properties") != {}
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    if "enum" in schema:
        assert schema["type"] == "string"
        assert all(isinstance(choice, str) for choice in schema["enum"])
    for inner in [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else []),
    ]:
        _check(inner)


@given(schemas())
def test_whatever_comes_in_only_known_words_go_out(schema: Any) -> None:
    if isinstance(schema, dict):
        found = gemini_schema(schema)
        _check(found)
        assert found == gemini_schema(schema)
