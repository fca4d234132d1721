"""Where an Ollama server is, and what it says about its models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlunsplit

from aar.messages.provider import ModelInfo
from aar.providers.http import split_url

__all__ = ["DEFAULT_URL", "ModelCard", "model_names", "read_card", "server_root"]

DEFAULT_URL = "http://localhost:11434"
USUAL_WINDOW = 32_768  # tokens: enough for an agent's work, and most machines have the memory for it

_ENDPOINT = re.compile(r"(?:/api(?:/chat|/generate)?|/v1(?:/chat/completions)?)?/*$")
_OWN_WINDOW = re.compile(r"^[ \t]*num_ctx[ \t]+(\d{1,9})\s*$", re.MULTILINE)
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a server listens is not always where it is asked


def server_root(base_url: str, environ: Mapping[str, str]) -> str:
    """The URL that `/api/...` is added to: from `base_url`, else `OLLAMA_HOST`, else this machine's default.

    `/api`, `/v1` and the endpoints below them are taken off. As for Ollama itself, the scheme may be missing (then it
    is `http`) and with it the port (then it is 11434). Raises `InvalidSetting` for what is no URL.
    """
    address = (base_url or environ.get("OLLAMA_HOST") or "").strip().strip("\"'")
    if not address:
        return DEFAULT_URL
    has_scheme = "://" in address
    if not has_scheme:
        address = f"http://{f'localhost{address}' if address.startswith(':') else address}"
    parts = split_url(address)
    host = _ANY_ADDRESS.get(parts.hostname or "", parts.hostname or "")
    port = parts.port or (None if has_scheme else 11434)
    place = f"[{host}]" if ":" in host else host
    netloc = f"{place}:{port}" if port else place
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, user + at + netloc, _ENDPOINT.sub("", parts.path), "", ""))


class ModelCard(NamedTuple):
    """What is known of a model: tokens that it can take, those its maker set it to, and its abilities.

    A remote one computes elsewhere, with all of its window.
    """

    limit: int | None = None
    own_window: int | None = None
    abilities: tuple[str, ...] = ()
    is_remote: bool = False

    @property
    def window(self) -> int | None:
        """The window to ask for when nobody has chosen one; `None` when nothing is known."""
        if self.own_window or self.is_remote or self.limit is None:
            return self.own_window or self.limit
        return min(self.limit, USUAL_WINDOW)

    @property
    def can_chat(self) -> bool:
        """False for models that make embeddings and nothing else."""
        return not self.abilities or "completion" in self.abilities

    def info(self, name: str) -> ModelInfo:
        abilities = tuple(word for word in self.abilities if word != "completion")
        return ModelInfo(name, context_window=self.limit, abilities=abilities)


def read_card(answer: Any) -> ModelCard:
    """The answer of `/api/show`. What it does not tell stays unknown."""
    if not isinstance(answer, dict):
        return ModelCard()
    facts = answer.get("model_info")
    facts = facts if isinstance(facts, dict) else {}
    limit = _count(facts.get(f"{facts.get('general.architecture')}.context_length"))
    if limit is None:
        found = [
            count for name, value in facts.items() if name.endswith(".context_length") and (count := _count(value))
        ]
        limit = max(found, default=None)
    own = _OWN_WINDOW.search(parameters) if isinstance(parameters := answer.get("parameters"), str) else None
    abilities = answer.get("capabilities")
    return ModelCard(
        limit=limit,
        own_window=_count(int(own[1])) if own else None,
        abilities=tuple(word for word in abilities if isinstance(word, str)) if isinstance(abilities, list) else (),
        is_remote=bool(answer.get("remote_host")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def model_names(answer: Any) -> list[str]:
    """The names in the answer of `/api/tags`, in its order."""
    models = answer.get("models") if isinstance(answer, dict) else None
    entries = [entry for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    names = [entry.get("name") or entry.get("model") for entry in entries]
    return [name for name in names if isinstance(name, str) and name]
