"""What a request to chat may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from aar.client import PromptContent
from aar.config.unknown import nearest
from aar.messages.content import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, VideoBlock
from aar.messages.events import UserMessage
from aar.messages.settings import AgentConfig
from aar.runtime import checked_id
from aar.transports.http.refused import Refused
from aar.transports.runs.request import RunRequest
from aar.transports.web.rules import rules_of

__all__ = ["parse_request"]

FIELDS = ("prompt", "session_id", "safety", "provider")

_SCHEMES = ("http", "https", "data")
_SHOWN = 100  # characters of a wrong value that an answer repeats


def parse_request(body: Any, config: AgentConfig, *, may_loosen: bool, says_yes: bool) -> RunRequest:
    """Raises `Refused` with a status of 400, or 403 for rules that a request may not loosen.

    `says_yes`: questions would be answered with yes, which does not hold for those that the request itself wants asked.
    """
    if not isinstance(body, Mapping):
        raise Refused(400, 'The body must be a JSON object, such as {"prompt": "What is in this folder?"}')
    for name in body:
        if name not in FIELDS:
            raise Refused(400, f"Unknown field '{_shown(name)}'. {_advice(name)}")
    prompt, session_id = _prompt(body.get("prompt")), _session_id(body)
    provider = _provider(body, config)
    rules = rules_of(body.get("safety"), config.safety, may_loosen=may_loosen)
    wanted = body.get("safety") or {}  # as it was sent: what the settings say anyhow is none of the `rules`
    wants_questions = any(wanted.get(f"require_approval_for_{what}") for what in ("writes", "execute"))
    return RunRequest(
        prompt,
        session_id=session_id,
        provider=provider,
        safety=rules,
        may_be_approved=not (says_yes and wants_questions),
    )


def _advice(name: str) -> str:
    guess = nearest(name, list(FIELDS))
    return f"Did you mean '{guess}'?" if guess else f"Known: {', '.join(FIELDS)}."


# --- the prompt -------------------------------------------------------------------------------


def _prompt(given: Any) -> PromptContent:
    if isinstance(given, str) and given.strip():
        if not _is_unicode(given):
            raise Refused(400, "Invalid prompt: it has half a surrogate pair in it; send whole characters")
        return given
    if isinstance(given, list) and given:
        return _blocks(given)
    raise Refused(400, "A prompt is needed: a text that is not empty, or a list of content blocks")


def _blocks(given: list[Any]) -> list[ContentBlock]:
    try:
        message = UserMessage.of(given)
    except ValidationError as error:
        raise Refused(400, f"Invalid {_first(error)}") from error
    if not message.content.strip() and not any(_url(block) for block in message.parts):
        raise Refused(400, "Invalid prompt: its content blocks are empty")
    for at, block in enumerate(message.parts):
        if (url := _url(block)) is not None and _scheme(url) not in _SCHEMES:
            raise Refused(400, f"Invalid prompt.{at}: its url must begin with http:, https: or data:")
    return message.parts


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in ("prompt", *first["loc"][1:]))
    return f"{where}: {first['msg']}"


def _url(block: ContentBlock) -> str | None:
    match block:
        case ImageBlock(image_url=media) | AudioBlock(audio=media) | VideoBlock(video=media):
            return media.url
        case DocumentBlock(document=document):
            return document.url
        case _:
            return None


def _scheme(url: str) -> str:
    try:
        return urlsplit(url[:_SHOWN]).scheme.lower()
    except ValueError:
        return ""


# --- where, and by whom -----------------------------------------------------------------------


def _session_id(body: Mapping[str, Any]) -> str | None:
    given = _text(body, "session_id")
    try:
        return checked_id(given) if given else None
    except ValueError as error:
        wanted = "1 to 128 letters, digits, '-' or '_', or none for a new session"
        raise Refused(400, f"Invalid session_id '{_shown(given)}': {wanted}") from error


def _provider(body: Mapping[str, Any], config: AgentConfig) -> str | None:
    given = _text(body, "provider")
    if given and given not in config.providers:
        known = ", ".join(sorted(config.providers)) or "(none)"
        raise Refused(400, f"Unknown provider '{_shown(given)}'. Available: {known}")
    return given


def _text(body: Mapping[str, Any], name: str) -> str | None:
    given = body.get(name)
    if given is not None and not isinstance(given, str):
        raise Refused(400, f"Invalid {name}: it must be a text")
    return given or None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
