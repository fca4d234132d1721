"""From a function's signature to JSON schema, and from a schema to one sentence about what is wrong."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["ArgumentCheck", "argument_check", "context_parameter", "infer_schema", "validate_arguments"]

ArgumentCheck = Callable[[Mapping[str, Any]], str | None]

_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
}
_BY_SPELLING = {kind.__name__: name for kind, name in _NAMES.items()}
_MAX_SENTENCE = 500


def infer_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """A JSON schema for the parameters of `function`, in their order.

    `str`, `int`, `float`, `bool`, `list` and `dict` have their JSON types, everything else is a string.
    Parameters without a default are required; the one for the `ToolContext` is left out.
    """
    hidden = context_parameter(function)
    hints = _hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in _parameters(function).items():
        if name == hidden:
            continue
        properties[name] = {"type": _json_type(hints.get(name, parameter.annotation))}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter that gets the `ToolContext`: the one named `ctx` or annotated with that class."""
    hints = _hints(function)
    for name, parameter in _parameters(function).items():
        annotation = hints.get(name, parameter.annotation)
        spelled = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if name == "ctx" or spelled.rpartition(".")[2] == "ToolContext":
            return name
    return None


def validate_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """`None` when the arguments fit, else one sentence that names the field.

    An empty schema accepts everything, and so does one that is itself broken. Nothing is ever fetched.
    """
    return argument_check(schema)(arguments)


def argument_check(schema: Mapping[str, Any]) -> ArgumentCheck:
    """`validate_arguments` for many arguments of one schema, which is read once."""
    validator = _validator(json.dumps(schema, sort_keys=True, default=str)) if schema else None

    def check(arguments: Mapping[str, Any]) -> str | None:
        if validator is None:
            return None
        try:
            problem = next(iter(validator.iter_errors(dict(arguments))), None)
        except (ValueError, TypeError, RecursionError):  # values that JSON does not know: half a surrogate pair
            return None
        return None if problem is None else _sentence(problem)

    return check


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    import jsonschema_rs  # 5 ms that a start without tool calls need not pay

    def refuse(uri: str) -> Any:
        raise ValueError(f"schemas are not fetched: {uri}")

    try:
        return jsonschema_rs.validator_for(json.loads(schema), retriever=refuse, validate_formats=False)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        return None


def _sentence(problem: Any) -> str:
    field = ".".join(str(step) for step in problem.instance_path)
    message = str(problem.message)
    text = f"{field}: {message}" if field else message
    return text if len(text) <= _MAX_SENTENCE else text[:_MAX_SENTENCE] + "…"


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    varying = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(function).parameters
    return {name: one for name, one in found.items() if one.kind not in varying}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):  # names that exist only while type checking
        return {}


def _json_type(annotation: Any) -> str:
    if isinstance(annotation, str):
        spelled = annotation.partition("[")[0].replace("| None", "").strip()
        return _BY_SPELLING.get(spelled, "string")
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(annotation) if one is not type(None)]
        return _json_type(kinds[0]) if len(kinds) == 1 else "string"
    if origin is typing.Annotated:
        return _json_type(typing.get_args(annotation)[0])
    return _NAMES.get(origin or annotation, "string")
