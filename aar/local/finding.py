"""Which model can be used when nobody named one: keys in the environment, then servers on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import trio

from aar.errors import InvalidSetting, MissingPackage
from aar.messages.settings import ProviderConfig
from aar.providers import open_provider
from aar.providers.http import HttpPool, open_chunks

__all__ = ["DEFAULT_SERVERS", "Found", "find_model"]

PROBE_TIMEOUT = 0.3  # seconds for all servers together
LIST_LIMIT = 1_000_000  # bytes of a list of models

DEFAULT_SERVERS = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
    "vLLM": "http://127.0.0.1:8000/v1",
}
"""Where the usual model servers listen, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Found:
    """`provider` is None when there is nothing to use. `remarks` are to be shown in either case: what was chosen,
    where from, and what was passed over.
    """

    provider: ProviderConfig | None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Key:
    variable: str
    provider: str
    model: str


_KEYS = (
    _Key("ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-6"),
    _Key("OPENAI_API_KEY", "openai", "gpt-5.4"),
    _Key("GEMINI_API_KEY", "gemini", "gemini-2.5-pro"),
)


async def find_model(
    environ: Mapping[str, str], *, servers: Mapping[str, str] = DEFAULT_SERVERS, model: str = ""
) -> Found:
    """The first of: a key in `environ` whose package is installed, `GENERIC_ENDPOINT`, a server that has a model.

    `model` is the one to use there, whatever it is; a server on this machine that names it comes before the others.

    All `servers` (name to base URL, in order of preference) are asked at the same time, for 0.3 s altogether; nothing
    but these addresses is contacted. Never raises for a server that is not there or answers nonsense.
    """
    passed_over: list[str] = []
    for key in _KEYS:
        value = environ.get(key.variable, "").strip()
        if not value:
            continue
        chosen = ProviderConfig(name=key.provider, model=model or key.model)
        try:
            open_provider(chosen.model_copy(update={"api_key": value}))
        except (MissingPackage, InvalidSetting) as error:
            passed_over.append(f"{key.variable} is set, but: {error}")
            continue
        return Found(chosen, (*passed_over, f"Using {chosen.label}, because {key.variable} is set."))
    if environ.get("GENERIC_ENDPOINT", "").strip():
        return _configured_endpoint(environ["GENERIC_ENDPOINT"].strip(), model, passed_over)
    return await _running_server(servers, model, passed_over)


def _configured_endpoint(endpoint: str, model: str, passed_over: list[str]) -> Found:
    shown = endpoint.rpartition("@")[2].partition("?")[0]
    what = f"{model} of the server" if model else "the server"
    rest = "." if model else "; name one of its models with --model."
    remark = f"Using {what} at {shown}, because GENERIC_ENDPOINT is set{rest}"
    return Found(ProviderConfig(name="generic", model=model, base_url=endpoint), (*passed_over, remark))


async def _running_server(servers: Mapping[str, str], named: str, passed_over: list[str]) -> Found:
    models = await _ask_all(servers)
    running = [name for name in servers if models.get(name)]
    if not running:
        return Found(None, tuple(passed_over))
    first, *others = sorted(running, key=lambda name: named not in models[name])
    model = named or models[first][0]
    remark = f"Using {model} of {first} at {servers[first]}, found running on this machine."
    if (more := len(models[first]) - 1) and not named:
        remark += f" It has {more} more: choose with --model."
    if others:
        remark += f" Also running: {', '.join(others)}."
    # Whoever listens there was not named by the user: a key from the environment is not for them.
    chosen = ProviderConfig(name="generic", model=model, base_url=servers[first], extra={"use_environment": False})
    return Found(chosen, (*passed_over, remark))


async def _ask_all(servers: Mapping[str, str]) -> dict[str, list[str]]:
    import httpx2  # its import takes longer than the probes: not inside their time limit

    models: dict[str, list[str]] = {}

    async def ask(name: str, base_url: str) -> None:
        try:
            models[name] = await _models_of(pool, base_url)
        except (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError):
            models[name] = []

    pool = HttpPool()
    try:
        with trio.move_on_after(PROBE_TIMEOUT):
            async with trio.open_nursery() as probes:
                for name, base_url in servers.items():
                    probes.start_soon(ask, name, base_url)
    finally:
        await pool.aclose()
    return models


async def _models_of(pool: HttpPool, base_url: str) -> list[str]:
    """The names of the models that can chat. Raises `ValueError` for anything but OpenAI's list."""
    async with pool.open_stream("GET", f"{base_url}/models") as response:
        if response.status_code != 200:
            return []
        body = bytearray()
        async with open_chunks(response) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > LIST_LIMIT:
                    return []
    answer = json.loads(body)
    entries = answer.get("data") if isinstance(answer, dict) else None
    names = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name and "embed" not in name.lower()]
