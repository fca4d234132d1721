"""What `POST /runs` may say."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, get_args

from aar.transports.http.refused import Refused
from aar.transports.runs.request import Mode, RunRequest

__all__ = ["parse_request"]

_SHOWN = 100  # characters of a wrong value that an answer repeats


def parse_request(body: bytes, *, agent_name: str, profiles: Collection[str]) -> RunRequest:
    """Raises `Refused` with a status of 400, or 404 for another agent."""
    fields = _object(body)
    mode = _mode(fields.get("mode"))
    name = fields.get("agent_name")
    if name is not None and name != agent_name:
        raise Refused(404, f"Unknown agent: '{_shown(name)}'")
    session_id, provider = _text(fields, "session_id"), _text(fields, "provider")
    if provider is not None and provider not in profiles:
        known = ", ".join(sorted(profiles)) or "(none)"
        raise Refused(400, f"Unknown provider: '{_shown(provider)}'. Available: {known}")
    return RunRequest(_prompt(fields.get("input")), mode, session_id, provider)


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(str(body, "utf-8"))  # in no other encoding: its values were counted as they are in this one
    except (ValueError, RecursionError) as error:
        raise Refused(400, "Invalid JSON") from error
    if not isinstance(fields, dict):
        raise Refused(400, "Invalid JSON: an object is needed")
    return fields


def _mode(given: Any) -> Mode:
    for mode in get_args(Mode):
        if given == mode or (given is None and mode == "sync"):
            found: Mode = mode
            return found
    raise Refused(400, f"Invalid mode: '{_shown(given)}'")


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Refused(400, f"Invalid {name}: it must be a text")
    return value or None


def _prompt(messages: Any) -> str:
    """The texts of all that the user says, one below the other."""
    if not isinstance(messages, list):
        raise Refused(400, "Invalid input: a list of messages is needed")
    said = [_text_of(message, at) for at, message in enumerate(messages)]
    prompt = "\n".join(text for text in said if text)
    if not prompt.strip():
        raise Refused(400, "Invalid input: no message of the role 'user' has a text")
    return prompt


def _text_of(message: Any, at: int) -> str:
    where = f"Invalid input: message {at}"
    if not isinstance(message, dict):
        raise Refused(400, f"{where} is no object")
    role, parts = message.get("role", "user"), message.get("parts", [])
    if not isinstance(role, str):
        raise Refused(400, f"{where}: the role must be a text")
    if not isinstance(parts, list):
        raise Refused(400, f"{where}: the parts must be a list")
    texts = [_part(part, f"{where}, part {index}") for index, part in enumerate(parts)]
    return "".join(texts) if role == "user" else ""


def _part(part: Any, where: str) -> str:
    """What it says; nothing when it is no plain text."""
    if not isinstance(part, dict):
        raise Refused(400, f"{where} is no object")
    kind, content = part.get("content_type", "text/plain"), part.get("content", "")
    if not isinstance(kind, str):
        raise Refused(400, f"{where}: the content_type must be a text")
    if kind.partition(";")[0].strip().lower() != "text/plain":
        return ""
    if not isinstance(content, str):
        raise Refused(400, f"{where}: the content must be a text")
    return content


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
