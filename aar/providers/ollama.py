"""Ollama over its own API, which knows what its imitation of OpenAI's does not: windows, thinking, keeping models."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import trio

from aar.errors import BadProviderReply, ProviderError
from aar.messages.events import ProviderMeta
from aar.messages.provider import ImageLimits, ModelInfo, ProviderRequest, ProviderResponse, StreamDelta, Usage
from aar.messages.settings import ProviderConfig
from aar.providers.answering import AnsweringProvider
from aar.providers.bodies import drain, error_text, read_body
from aar.providers.failures import error_in_answer
from aar.providers.headers import request_headers
from aar.providers.http import HttpPool, is_loopback, open_chunks
from aar.providers.ollama_errors import failure, is_unknown_model, not_running
from aar.providers.ollama_form import (
    OUTPUT_LIMIT,
    Form,
    asked_format,
    encode_body,
    form_of,
    image_bytes,
    less,
    own_window,
)
from aar.providers.ollama_models import ModelCard, model_names, read_card, server_root
from aar.providers.ollama_stream import OllamaStream
from aar.providers.ollama_wire import NAME, answer_format, parse_answer
from aar.providers.openai_wire import encode_json
from aar.providers.output_limits import usual_limit
from aar.providers.secrets import Secrets
from aar.providers.sse import LineSplitter

if TYPE_CHECKING:
    import httpx2

__all__ = ["OllamaProvider"]

_log = logging.getLogger(__name__)

CARD_TIMEOUT = 5.0  # seconds to wait for what the server knows of a model
CARDS_AT_ONCE = 4
MODEL_LIMIT = 200  # models that are looked at in a list
CHARACTERS_PER_TOKEN = 4


class _Sent(NamedTuple):
    response: httpx2.Response
    window: int | None


class OllamaProvider(AnsweringProvider[_Sent]):
    """Speaks to the server at `endpoint`, the URL that `/api/chat` is added to.

    What a model refuses (tools, thinking, images, a window that its machine has no memory for) is left out or made
    smaller from then on, with a warning, for as long as the instance lives.
    """

    name = NAME
    supports_structured_output = True
    # Loading a model and reading a long prompt take minutes on a small machine, and while a model writes a tool call
    # the server says nothing at all.
    default_first_byte_timeout = 600.0
    default_idle_timeout = 600.0
    # What Ollama's own command line takes for an image: png, jpeg and webp of at most 100 MB.
    image_limits = ImageLimits(bytes_each=133_000_000, formats=("image/png", "image/jpeg", "image/webp"))

    def __init__(
        self,
        config: ProviderConfig,
        *,
        pool: HttpPool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`pool` may be shared and is not closed here; `environ` gives `OLLAMA_HOST` where `config` has no address,
        unless `extra.use_environment` is false. Raises `InvalidSetting` for settings that cannot be meant.
        """
        super().__init__(config)
        if config.extra.get("use_environment", True) is False:
            environ = {}
        self.endpoint = server_root(config.base_url, environ)
        self.api_key = config.api_key.strip() or _cloud_key(self.endpoint, environ)
        self._sent_headers = request_headers(self.api_key, config.extra)
        self._secrets = Secrets(self.api_key, (v for name, v in self._sent_headers.items() if name != "content-type"))
        self._own_window = own_window(config)
        self._use(form_of(config))
        self._card: ModelCard | None = None
        self._looking, self._looks = trio.Lock(), 0
        self._has_warned = False
        self._is_too_long = self._is_full = False
        self._pool = pool or HttpPool()
        self._owns_pool = pool is None

    def _use(self, form: Form) -> None:
        self._form = form
        self.supports_tools, self.supports_reasoning, self.supports_vision = form.tools, bool(form.think), form.images

    @property
    def output_limit(self) -> int:
        return usual_limit(self.config, self.config.extra, OUTPUT_LIMIT)

    async def aclose(self) -> None:
        if self._owns_pool:
            await self._pool.aclose()

    # --- asking -------------------------------------------------------------------------------

    async def models(self) -> tuple[ModelInfo, ...]:
        with self._own_errors():
            async with self._pool.open_stream("GET", self._url("/api/tags"), headers=self._sent_headers) as response:
                if not response.is_success:
                    raise self._failure(response, await error_text(response))
                names = model_names(self._parsed_json(await read_body(response)))[:MODEL_LIMIT]
        cards: dict[str, ModelCard | None] = {}
        places = trio.CapacityLimiter(CARDS_AT_ONCE)

        async def look(name: str) -> None:
            async with places:
                cards[name] = await self._look_at(name)

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(look, name)
        found = ((name, cards[name] or ModelCard()) for name in names)
        return tuple(card.info(name) for name, card in found if card.can_chat)

    def _not_reached(self, error: Exception) -> ProviderError:
        import httpx2

        if not isinstance(error, httpx2.ConnectError):
            return super()._not_reached(error)
        is_here = is_loopback(urlsplit(self.endpoint).hostname or "")
        return not_running(self._server, str(error), is_here=is_here)

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[_Sent, None]:
        """An answer with status 200, its body unread."""
        if not self.config.model:
            raise ProviderError("No model is named: set provider.model to one that `ollama list` shows")
        self._warn_once()
        wanted = await self._wanted_window()
        form = self._form
        while True:
            window = wanted if form.largest is None or wanted is None else min(wanted, form.largest)
            body = encode_body(self.config, request, form, window=window, streaming=streaming)
            self._watch_prompt(len(body), request, window)
            sent = self._pool.open_stream("POST", self._url("/api/chat"), headers=self._sent_headers, content=body)
            async with sent as response:
                if response.is_success:
                    yield _Sent(response, window)
                    return
                text = self._secrets.hide(await error_text(response))
                given = less(form, response.status_code, text, None if self._own_window else window)
                if given is None:
                    raise self._failure(response, text)
            _log.warning("%s: %s", self.config.label, given.text)
            form = form._replace(**given.change)
            self._use(self._form._replace(**given.change))

    def _failure(self, response: httpx2.Response, text: str) -> ProviderError:
        headers = response.headers
        return failure(response.status_code, text, headers, model=self.config.model, server=self._server)

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        kind, schema = asked_format(self.config)
        if kind == "json_schema" and answer_format(kind, schema) is None:
            _log.warning("response_format is json_schema and there is no provider.json_schema: asking for text")
        self._warn_of_an_open_key(self.api_key)

    # --- the window ---------------------------------------------------------------------------

    async def _wanted_window(self) -> int | None:
        """Tokens that the server shall make room for; `None` leaves it to the server."""
        if self._own_window is not None or "num_ctx" in self.config.extra:
            return self._own_window
        looks = self._looks
        async with self._looking:
            if self._card is None and looks == self._looks:  # who waited for another's look does not look again
                self._card = await self._look_at(self.config.model)
                self._looks += 1
            return self._card.window if self._card else None

    async def _look_at(self, model: str) -> ModelCard | None:
        """What the server knows of a model; `None` when it may know more the next time. Never a reason to fail."""
        import httpx2

        body = encode_json({"model": model})
        try:
            with trio.move_on_after(CARD_TIMEOUT):
                sent = self._pool.open_stream("POST", self._url("/api/show"), headers=self._sent_headers, content=body)
                async with sent as response:
                    if response.is_success:
                        return read_card(self._parsed_json(await read_body(response)))
                    text, status = await error_text(response), response.status_code
                may_know = status in (408, 429) or status >= 500 or is_unknown_model(status, text)
                return None if may_know else ModelCard()
        except BadProviderReply:
            return ModelCard()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            _log.info("Ollama does not describe %s: %s", model, self._secrets.hide(str(error)))
        return None

    def _watch_prompt(self, size: int, request: ProviderRequest, window: int | None) -> None:
        """Warn when a prompt grows beyond the window: Ollama then drops the oldest messages without a word."""
        if window is None:
            return
        tokens = size // CHARACTERS_PER_TOKEN
        if tokens > window:
            tokens -= image_bytes(request) // CHARACTERS_PER_TOKEN
        was_too_long, self._is_too_long = self._is_too_long, tokens > window
        if self._is_too_long and not was_too_long:
            _log.warning(
                "The prompt has about %s tokens, and the window of %s takes %s: Ollama drops the oldest messages. Set "
                "provider.context_window: Ollama then makes the window as large, and Aar sends no more than that.",
                f"{tokens:,}",
                self.config.label,
                f"{window:,}",
            )

    def _watch_usage(self, meta: ProviderMeta | None, window: int | None) -> None:
        if window is None or meta is None:
            return
        was_full, self._is_full = self._is_full, Usage.of(meta.usage).total >= window
        if self._is_full and not was_full and not self._is_too_long:
            text = "The window of %s is full (%s tokens): Ollama cut the prompt or the answer. Set a larger %s."
            _log.warning(text, self.config.label, f"{window:,}", "provider.context_window")

    # --- reading ------------------------------------------------------------------------------

    def _is_stream(self, answer: _Sent) -> bool:
        kind = answer.response.headers.get("content-type", "").lower()
        return "html" not in kind and ("json" not in kind or "ndjson" in kind or "jsonl" in kind)

    async def _deltas(self, answer: _Sent) -> AsyncGenerator[StreamDelta, None]:
        reading = OllamaStream(model=self.config.model)
        splitter = LineSplitter()
        async with open_chunks(answer.response) as chunks:
            async for chunk in chunks:
                yield reading.read(splitter.feed(chunk))
                if reading.is_over:
                    await drain(chunks)
                    break
            if not reading.is_over:
                yield reading.read(splitter.finish())
        for delta in reading.end():
            self._watch_usage(delta.meta, answer.window)
            yield delta

    async def _whole(self, answer: _Sent) -> ProviderResponse:
        found = self._parsed_json(await read_body(answer.response))
        if isinstance(found, dict) and found.get("error"):
            raise error_in_answer(found, self.name)
        response = parse_answer(found, model=self.config.model)
        self._watch_usage(response.meta, answer.window)
        return response

    def _url(self, path: str) -> str:
        return self.endpoint + path


def _cloud_key(server: str, environ: Mapping[str, str]) -> str:
    """The key from the environment, which is for the makers' own service and nobody else's."""
    host = urlsplit(server).hostname or ""
    is_cloud = server.startswith("https:") and (host == "ollama.com" or host.endswith(".ollama.com"))
    return (environ.get("OLLAMA_API_KEY") or "").strip() if is_cloud else ""
