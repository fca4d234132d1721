from __future__ import annotations

import http.server
import threading
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.tools.schema import infer_schema, validate_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["path"],
}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"path": "x"}, None),
        ({"path": "x", "count": 3, "more": True}, None),
        ({}, '"path" is a required property'),
        ({"path": 5}, 'path: 5 is not of type "string"'),
        ({"path": "x", "count": "3"}, 'count: "3" is not of type "integer"'),
        ({"path": "x", "count": True}, 'count: true is not of type "integer"'),
        ({"path": "x", "names": ["a", 5]}, 'names.1: 5 is not of type "string"'),
    ],
)
def test_a_mistake_is_told_in_one_sentence_that_names_the_field(arguments: dict[str, Any], sentence: str) -> None:
    assert validate_arguments(SCHEMA, arguments) == sentence


@pytest.mark.parametrize(
    "schema", [{}, {"type": "nonsense"}, {"type": 5}, {"properties": {"a": {"pattern": "("}}}, {"$ref": "#/nowhere"}]
)
def test_a_schema_that_is_empty_or_broken_accepts_everything(schema: dict[str, Any]) -> None:
    assert validate_arguments(schema, {"a": "b"}) is None


def test_a_schema_can_make_nobody_fetch_anything() -> None:
    asked: list[str] = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with http.server.HTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/schema.json"
            assert validate_arguments({"$ref": url}, {"a": 1}) is None
            assert validate_arguments({"$ref": "file:///etc/hostname"}, {"a": 1}) is None
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


def test_a_sentence_stays_short_whatever_the_argument() -> None:
    sentence = validate_arguments(SCHEMA, {"path": ["x" * 100_000]})
    assert sentence is not None
    assert sentence.startswith('path: ["xxx')
    assert len(sentence) < 600


@pytest.mark.parametrize("value", ["\ud800", object(), {1: 2}])
def test_values_that_are_no_json_do_not_break_the_check(value: object) -> None:
    sentence = validate_arguments(SCHEMA, {"path": "x", "other": value})
    assert sentence is None


def test_annotations_become_json_types() -> None:
    def function(
        a: int | None,
        b: list[str],
        c: dict[str, int],
        d: Annotated[float, "metres"],
        e: str | int,
        f: NotImported,  # type: ignore[name-defined]  # noqa: F821
        *more: int,
        g: bool = False,
        **others: int,
    ) -> None: ...

    schema = infer_schema(function)
    assert {name: one["type"] for name, one in schema["properties"].items()} == {
        "a": "integer",
        "b": "array",
        "c": "object",
        "d": "string",  # a name nobody can resolve leaves every annotation as it is spelled
        "e": "string",
        "f": "string",
        "g": "boolean",
    }
    assert schema["required"] == ["a", "b", "c", "d", "e", "f"]


def test_annotated_types_count_as_what_they_annotate() -> None:
    def function(depth: Annotated[float, "metres"], flag: bool | None = None) -> None: ...

    assert infer_schema(function)["properties"] == {"depth": {"type": "number"}, "flag": {"type": "boolean"}}


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans())
def test_arguments_of_the_annotated_types_always_fit(a: int, b: float, c: str, d: bool) -> None:
    def function(a: int, b: float, c: str, d: bool) -> None: ...

    assert validate_arguments(infer_schema(function), {"a": a, "b": b, "c": c, "d": d}) is None
