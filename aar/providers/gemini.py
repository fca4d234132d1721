"""Google's Gemini, through the vendor's client, or by HTTP when the settings give an address."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import trio

from aar.errors import BadProviderReply, InvalidSetting, ProviderError
from aar.messages.provider import ImageLimits, ModelInfo, ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly
from aar.providers.gemini_doors import API_ROOT, Door, HttpDoor, SdkDoor, addresses
from aar.providers.gemini_stream import AnswerEvents, AnswerReader, models_of
from aar.providers.gemini_wire import (
    OUTPUT_LIMIT,
    Thinking,
    answer_format,
    contents_of,
    encode_tools,
    format_in_words,
    generation_config,
    is_before_gemini_3,
    system_instruction,
)
from aar.providers.headers import request_headers
from aar.providers.http import HttpPool, open_chunks
from aar.providers.openai_wire import encode_json
from aar.providers.output_limits import usual_limit
from aar.providers.posting import PostingProvider
from aar.providers.sdk import check_installed, key_of, missing_key
from aar.providers.secrets import Secrets

if TYPE_CHECKING:
    import httpx2

__all__ = ["GeminiProvider"]

_log = logging.getLogger(__name__)

DRAIN_TIMEOUT = 0.05  # seconds to wait for the end of the body once nothing more can follow
TRAILER_TIMEOUT = 5.0  # seconds to wait for more once a chunk has told why the answer finished

_ABOUT_THINKING = re.compile(r"thinking|budget", re.IGNORECASE)


class GeminiProvider(PostingProvider):
    """Speaks to Google, or to `base_url`. Its thinking is off for models that are not `pro`, unless set.

    A thinking budget that was not asked for and that the model does not take is left out from then on, for as long as
    the instance lives.
    """

    name = "gemini"
    supports_structured_output = True
    supports_vision = True
    # https://ai.google.dev/gemini-api/docs/image-understanding: 20 MB for a whole request with inline data (newer
    # models take more), these formats; 900 images is the least that any current model takes.
    image_limits = ImageLimits(
        at_most=900,
        bytes_total=18_000_000,
        formats=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    )

    def __init__(
        self,
        config: ProviderConfig,
        *,
        pool: HttpPool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`pool` may be shared and is not closed here; `environ` gives the key that `config` leaves out.

        Raises `MissingKey`, `MissingPackage` without a `base_url` and without the vendor's package, and
        `InvalidSetting` for a URL, a header or a budget that cannot be one.
        """
        super().__init__(config)
        self._api_key = key_of(config, "GEMINI_API_KEY", environ)
        if not self._api_key:
            raise missing_key(self.name, "GEMINI_API_KEY")
        self._pool = pool or HttpPool()
        self._owns_pool = pool is None
        self._thinking = Thinking.of(config)
        self._may_set_thinking = True
        self._answers = answer_format(config)
        self._check_extra()
        self.supports_tools = bool(config.extra.get("supports_tools", True))
        self.supports_reasoning = self._thinking.budget != 0
        self._door = self._open_door(environ)
        self.endpoint = self._door.address
        self._has_warned = False

    def _check_extra(self) -> None:
        for name, kind, what in (("generation_config", dict, "an object"), ("safety_settings", list, "a list")):
            found = self.config.extra.get(name)
            if found is not None and not isinstance(found, kind):
                raise InvalidSetting(f"provider.extra.{name} must be {what}")

    def _open_door(self, environ: Mapping[str, str]) -> Door:
        config, extra = self.config, self.config.extra
        base, endpoint = config.base_url, str(extra.get("endpoint") or "")
        if base or endpoint:
            found = addresses(base, config.model, endpoint, str(extra.get("stream_endpoint") or ""))
            name = extra.get("auth_header") or ("x-goog-api-key" if found.is_google_form else "api-key")
            headers = request_headers(self._api_key, {**extra, "auth_header": name})
            self._secrets = self._secrets_of(headers)
            return HttpDoor(self._pool, found, headers)
        check_installed("google.genai", self.name)
        headers = request_headers(self._api_key, {**extra, "auth_header": "x-goog-api-key"})
        self._secrets = self._secrets_of(headers)
        may_look = extra.get("use_environment", True) is not False
        root = (environ.get("GOOGLE_GEMINI_BASE_URL") if may_look else "") or API_ROOT  # the vendor's own variable
        return SdkDoor(
            self._pool,
            api_key=self._api_key,
            model=config.model,
            root=str(extra.get("sdk_base_url") or root),
            version=str(extra.get("api_version") or "v1beta"),
            headers={name: value for name, value in headers.items() if name not in ("content-type", "x-goog-api-key")},
        )

    def _secrets_of(self, headers: Mapping[str, str]) -> Secrets:
        return Secrets(self._api_key, (value for name, value in headers.items() if name != "content-type"))

    @property
    def output_limit(self) -> int:
        return usual_limit(self.config, self.config.extra.get("generation_config") or {}, OUTPUT_LIMIT)

    async def aclose(self) -> None:
        self._door.forget()
        if self._owns_pool:
            await self._pool.aclose()

    # --- asking -------------------------------------------------------------------------------

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        with self._own_errors():
            async with self._answer(request, streaming=True) as response, aclosing(self._deltas(response)) as deltas:
                async for delta in deltas:
                    yield delta

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        self._warn_once()
        while True:
            sets_thinking = self._may_set_thinking
            async with AsyncExitStack() as stack:
                body = self._body(request, sets_thinking=sets_thinking)
                try:
                    response = await stack.enter_async_context(self._door.post(body, streaming=streaming))
                except ProviderError as error:
                    if not (sets_thinking and self._is_about_thinking(error)):
                        raise
                    _log.warning("%s refuses the thinking budget: asking without it from now on", self.config.model)
                    self._may_set_thinking = False
                    continue
                yield response
                return

    def _is_about_thinking(self, error: ProviderError) -> bool:
        """Whether the server complains about a budget that nobody has asked for."""
        return error.status == 400 and not self._thinking.is_chosen and bool(_ABOUT_THINKING.search(str(error)))

    def _body(self, request: ProviderRequest, *, sets_thinking: bool) -> bytes:
        has_tools = bool(request.tools) and self.supports_tools
        system, answers = request.system, self._answers
        if answers and has_tools and is_before_gemini_3(self.config.model):
            # These models refuse a request that has both.
            system, answers = f"{system}\n\n{format_in_words(answers)}".strip(), {}
        thinking = self._thinking.config() if sets_thinking else None
        fields: dict[str, Any] = {
            "systemInstruction": system_instruction(system) if system.strip() else None,
            "generationConfig": generation_config(self.config, request.max_tokens, thinking, answers),
            "safetySettings": self.config.extra.get("safety_settings"),
        }
        # The conversation comes first and grows at its end: equal starts are equal bytes.
        parts = [b'"contents":' + contents_of(request.messages, self.config.model)]
        if request.tools and has_tools:
            parts.append(b'"tools":' + encode_tools(request.tools))
        if sent := {name: value for name, value in fields.items() if value}:
            parts.append(encode_json(sent)[1:-1])
        return b"{" + b",".join(parts) + b"}"

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        self._warn_of_an_open_key(self._api_key)
        if self.config.response_format == "json_schema" and not self._answers:
            _log.warning("response_format is json_schema and there is no provider.json_schema: asking for text")

    # --- reading ------------------------------------------------------------------------------

    async def _deltas(self, answer: httpx2.Response) -> AsyncGenerator[StreamDelta, None]:
        if "html" in answer.headers.get("content-type", "").lower():
            await self._json(answer)  # which says what it is
        reading, events = self._reading(), AnswerEvents()
        async with open_chunks(answer) as chunks:
            while (chunk := await _next_chunk(chunks, reading)) is not None:
                yield reading.read(events.feed(chunk))
        last = reading.read(events.finish())
        if last.text or last.reasoning_delta:
            yield last
        for delta in reading.end():
            yield delta

    def _reading(self) -> AnswerReader:
        return AnswerReader(model=self.config.model)

    def _parsed(self, answer: Any) -> ProviderResponse:
        reading = self._reading()
        assembly = Assembly()
        assembly.add(reading.read_chunks(answer if isinstance(answer, list) else [answer]))
        if not reading.has_candidate and not reading.is_blocked:
            raise BadProviderReply(f"Gemini gave no candidates: {json.dumps(answer)[:400]}", provider=self.name)
        reading.is_over = True
        for delta in reading.end():
            assembly.add(delta)
        return assembly.response()

    async def models(self) -> tuple[ModelInfo, ...]:
        """The models that generate content. Empty where the address has no list."""
        with self._own_errors():
            async with self._door.list_models() as response:
                return () if response is None else models_of(await self._json(response))


async def _next_chunk(chunks: AsyncIterator[bytes], reading: AnswerReader) -> bytes | None:
    """The next read, or `None` at the end. What follows a finished answer is not worth an error, nor a long wait."""
    import httpx2

    if not reading.finish and not reading.is_over:
        return await anext(chunks, None)
    with suppress(httpx2.HTTPError), trio.move_on_after(DRAIN_TIMEOUT if reading.is_over else TRAILER_TIMEOUT):
        return await anext(chunks, None)
    return None
