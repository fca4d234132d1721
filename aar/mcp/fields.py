"""The fields of a server in a file: what each may hold, and what is said about one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from aar.errors import InvalidSetting

__all__ = ["FIELDS", "checked_fields", "unknown_fields"]

_REFERENCE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_OTHER_PROGRAMS = {"type": "transport", "environment": "env"}


def checked_fields(entry: Mapping[str, Any], place: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """The fields that are there, with `${NAME}` in `env` and `headers` filled in from `variables`.

    Raises `InvalidSetting` for the first one that is wrong. Its text never repeats a value that may be a secret.
    """
    name = entry.get("name")
    whose = f" server {name!r}:" if isinstance(name, str) and name.isprintable() else ""
    fields: dict[str, Any] = {}
    for field, check in FIELDS.items():
        if field not in entry:
            continue
        value = entry[field]
        if field in ("env", "headers") and not _map(value):
            value = {key: _filled(text, f"{place}.{field}.{key}:{whose}", variables) for key, text in value.items()}
        if problem := check(value):
            raise InvalidSetting(f"{place}.{field}:{whose} {problem}")
        fields[field] = value
    return fields


def unknown_fields(entry: Mapping[str, Any], place: str) -> list[str]:
    """A sentence for each field that nothing reads. Those that begin with `_` are comments."""
    return [
        f"{place}.{field}: is no field of a server, and is ignored. {_advice(field)}"
        for field in entry
        if field not in FIELDS and not field.startswith(("_", "$"))
    ]


def _advice(field: str) -> str:
    from difflib import get_close_matches

    folded = field.lower().replace("-", "_")
    near = [_OF_OTHER_PROGRAMS[folded]] if folded in _OF_OTHER_PROGRAMS else get_close_matches(folded, FIELDS, n=1)
    return f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(FIELDS)}."


def _filled(text: str, place: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        escape, name = found.groups()
        if escape:
            return found[0][1:]
        if name not in variables:
            raise InvalidSetting(f"{place} the variable {name} is not set. Set it before you start Aar.")
        return variables[name]

    return _REFERENCE.sub(value, text)


# --- what is wrong with a value, or nothing ---------------------------------------------------


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "must be a text."


def _name(value: Any) -> str:
    return _text(value) or ("" if value.isprintable() else "must not hold line breaks or other control characters.")


def _command(value: Any) -> str:
    if problem := _text(value) or _no_nul(value):
        return problem
    program = value.partition(" ")[0]
    if program != value and not {"/", "\\"} & set(program):
        return f"must be the program alone, {program!r}. What follows it goes into args."
    if "/" in value and not value.startswith(("/", "~")):
        return "would be looked for in the folder of each session. Write the whole path, or a name that is in PATH."
    return ""


def _args(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return next(filter(None, map(_no_nul, value)), "")
    return 'must be a list of texts, such as ["--port", "8080"].'


def _map(value: Any) -> str:
    is_one = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return "" if is_one else 'must be an object whose values are texts, such as {"PORT": "8080"}.'


def _env(value: Any) -> str:
    if problem := _map(value):
        return problem
    if any(not name or "=" in name or "\0" in name for name in value):
        return "has a name that no variable can have."
    return next(filter(None, map(_no_nul, value.values())), "")


def _headers(value: Any) -> str:
    if problem := _map(value):
        return problem
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name):
            return f"{name!r} is no name of a header: letters, digits and `-`."
        if not (text.isascii() and text.replace("\t", " ").isprintable()):
            return f"the value of {name} holds a line break or letters that no header has."
    return ""


def _url(value: Any) -> str:
    if problem := _text(value):
        return problem
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if is_address and value.isprintable() and " " not in value:
        return ""
    return "needs a url that begins with http:// or https://, such as https://example.org/mcp."


def _no_nul(text: str) -> str:
    return "must not hold the character NUL." if "\0" in text else ""


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false."


FIELDS: dict[str, Callable[[Any], str]] = {
    "name": _name,
    "transport": _text,
    "command": _command,
    "args": _args,
    "env": _env,
    "url": _url,
    "headers": _headers,
    "prefix_tools": _flag,
    "trust_annotations": _flag,
}
