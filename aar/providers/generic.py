"""Any server that speaks OpenAI's chat format at one URL: llama.cpp, vLLM, LM Studio, Ollama, gateways."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import trio

from aar.errors import BadProviderReply, ProviderError
from aar.messages.provider import ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Assembly, Provider, replay
from aar.providers.bodies import ERROR_LIMIT, error_text, read_body
from aar.providers.failures import as_provider_error, describe_body, error_for_status, error_in_answer, timed_out
from aar.providers.headers import request_headers
from aar.providers.http import CONNECT_TIMEOUT, HttpPool, is_loopback, open_chunks, split_url
from aar.providers.openai_stream import ChatStream
from aar.providers.openai_wire import encode_json, encode_message, encode_tools, parse_answer, response_format
from aar.providers.secrets import Secrets
from aar.providers.sse import SseParser

if TYPE_CHECKING:
    import httpx2

__all__ = ["GenericProvider", "chat_endpoint"]

_log = logging.getLogger(__name__)

TRAILER_TIMEOUT = 2.0  # seconds to wait for usage once the answer is finished
DRAIN_TIMEOUT = 0.05  # seconds to wait for the end of the body, so that the connection can be used again

_UNSUPPORTED = re.compile(r"unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed", re.IGNORECASE)

CODEC = "openai"  # under this name a history keeps the bytes of its messages


class GenericProvider(Provider):
    """Speaks to `endpoint`, with `api_key` unless that is empty.

    What a server refuses by name (`max_completion_tokens`, `stream_options`, a temperature) is left out or renamed
    from then on, for as long as the instance lives.
    """

    name = "generic"
    supports_structured_output = True
    default_max_tokens_field = "max_completion_tokens"

    def __init__(
        self,
        config: ProviderConfig,
        *,
        pool: HttpPool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`pool` may be shared and is not closed here; `environ` gives the key and the URL that `config` leaves out,
        unless `extra.use_environment` is false. Raises `InvalidSetting` for a URL, key or header that cannot be one.
        """
        super().__init__(config)
        extra = config.extra
        if extra.get("use_environment", True) is False:
            environ = {}
        address = config.base_url or extra.get("endpoint") or environ.get("GENERIC_ENDPOINT") or ""
        self._use(chat_endpoint(address), (config.api_key or environ.get("GENERIC_API_KEY") or "").strip())
        self.supports_tools = bool(extra.get("supports_tools", True))
        self.supports_reasoning = bool(extra.get("supports_reasoning", False))
        self.supports_vision = bool(extra.get("supports_vision", "vision" in config.model or "4o" in config.model))
        self._fixed_field = extra.get("max_tokens_field")
        self._max_tokens_field: str = self._fixed_field or self.default_max_tokens_field
        self._left_out: frozenset[str] = frozenset()
        self._has_warned = False
        self._format = self._response_format()
        self._pool = pool or HttpPool()
        self._owns_pool = pool is None

    def _use(self, endpoint: str, api_key: str) -> None:
        self.endpoint, self.api_key = endpoint, api_key
        self._sent_headers = request_headers(api_key, self.config.extra)
        values = (value for name, value in self._sent_headers.items() if name != "content-type")
        self._secrets = Secrets(self.api_key, values)

    async def aclose(self) -> None:
        if self._owns_pool:
            await self._pool.aclose()

    # --- asking -------------------------------------------------------------------------------

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        with self._own_errors():
            async with self._answer(request, streaming=False) as response:
                if not _is_stream(response):
                    return await self._whole(response)
                assembly = Assembly()
                async with aclosing(self._deltas(response)) as deltas:
                    async for delta in deltas:
                        assembly.add(delta)
                return assembly.response()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        with self._own_errors():
            async with self._answer(request, streaming=True) as response:
                if _is_stream(response):
                    async with aclosing(self._deltas(response)) as deltas:
                        async for delta in deltas:
                            yield delta
                else:
                    # Some servers cannot stream every request and answer in one piece.
                    for delta in replay(await self._whole(response)):
                        yield delta

    @contextmanager
    def _own_errors(self) -> Generator[None, None, None]:
        import httpx2

        try:
            yield
        except ProviderError as error:
            error.provider = self.name
            self._secrets.hide_in(error)
            raise
        except httpx2.ConnectTimeout as error:
            raise timed_out(self.name, CONNECT_TIMEOUT, f"no connection to {self._server}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            found = as_provider_error(error, self.name)
            found.args = (self._secrets.hide(f"{found} ({self._server})"),)
            raise found from error

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        """An answer with status 200, its body unread."""
        if not self.endpoint:
            raise ProviderError(
                "No server to ask: set provider.base_url or GENERIC_ENDPOINT, for example to http://localhost:8080/v1"
            )
        self._warn_once()
        left_out, field = self._left_out, self._max_tokens_field
        while True:
            async with AsyncExitStack() as stack:
                body = self._body(request, streaming, left_out, field)
                sent = self._pool.open_stream("POST", self.endpoint, headers=self._sent_headers, content=body)
                response = await stack.enter_async_context(sent)
                if response.is_success:
                    self._left_out, self._max_tokens_field = left_out, field
                    yield response
                    return
                text = self._secrets.hide(await error_text(response))
                refused = self._refused_field(response.status_code, text, left_out, field)
                if not refused:
                    raise error_for_status(response.status_code, text, response.headers, self.name)
            _log.warning("The server does not take %r: trying without it", refused)
            if refused == field:
                field = "max_tokens"
            else:
                left_out |= {refused}

    def _refused_field(self, status: int, text: str, left_out: frozenset[str], field: str) -> str:
        """The optional field that the server complains about, if it may be renamed or left out."""
        if status not in (400, 422):
            return ""
        if field == "max_completion_tokens" and field in text and not self._fixed_field:
            return field
        if "stream_options" in text and "stream_options" not in left_out:
            return "stream_options"
        if "temperature" in text and "temperature" not in left_out and _UNSUPPORTED.search(text):
            return "temperature"
        return ""

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        if self._asked_format() == "json_schema" and self._format is None:
            _log.warning("response_format is json_schema and there is no provider.json_schema: asking for text")
        parts = urlsplit(self.endpoint)
        if parts.scheme == "http" and self.api_key and not is_loopback(parts.hostname or ""):
            _log.warning("The key goes to %s unencrypted: use https://", self._server)

    def _body(self, request: ProviderRequest, streaming: bool, left_out: frozenset[str], field: str) -> bytes:
        messages = request.messages.encoded(CODEC, encode_message)
        if request.system:
            messages.insert(0, encode_json({"role": "system", "content": request.system}))
        limit = self.config.max_tokens if request.max_tokens is None else request.max_tokens
        options: dict[str, Any] = {
            "model": self.config.model or None,
            field: limit or None,
            "temperature": self.config.temperature,
            "stream": streaming,
            "stream_options": {"include_usage": True} if streaming else None,
            "response_format": self._format,
        }
        sent = {name: value for name, value in options.items() if value is not None and name not in left_out}
        tools = b',"tools":' + encode_tools(request.tools) if request.tools and self.supports_tools else b""
        # The conversation comes first and grows at its end: equal starts are equal bytes.
        return b'{"messages":[' + b",".join(messages) + b"]," + encode_json(sent)[1:-1] + tools + b"}"

    def _response_format(self) -> dict[str, Any] | None:
        schema = self.config.json_schema or self.config.extra.get("json_schema_def") or {}
        return response_format(self._asked_format(), schema)

    def _asked_format(self) -> str:
        return self.config.response_format or str(self.config.extra.get("response_format") or "text")

    # --- reading ------------------------------------------------------------------------------

    async def _deltas(self, response: httpx2.Response) -> AsyncGenerator[StreamDelta, None]:
        reading = ChatStream(provider=self.name, model=self.config.model, splits_tags=self.supports_reasoning)
        parser = SseParser()
        async with open_chunks(response) as chunks:
            async for chunk in chunks:
                yield reading.read(parser.feed(chunk))
                if reading.finish or reading.is_over:
                    break
            for delta in await _read_trailer(reading, parser, chunks):
                yield delta
        for delta in reading.end():
            yield delta

    async def _whole(self, response: httpx2.Response) -> ProviderResponse:
        body = await read_body(response)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            said = describe_body(body[:ERROR_LIMIT].decode(errors="replace"))
            raise BadProviderReply(f"{self._server} answered with something that is no JSON: {said}") from error
        if isinstance(answer, dict) and (answer.get("error") or answer.get("object") == "error"):
            raise error_in_answer(answer, self.name)
        return parse_answer(answer, provider=self.name, model=self.config.model, splits_tags=self.supports_reasoning)

    @property
    def _server(self) -> str:
        """The endpoint as it may be shown: without a password or a query."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def chat_endpoint(address: str) -> str:
    """The URL to post to: a server or its `/v1` root is completed, any other path is used as it is.

    Without a scheme it is `https`, on this machine `http`. Raises `InvalidSetting` for what is no such URL.
    """
    address = address.strip()
    if not address:
        return ""
    if "://" not in address:
        host = split_url(f"http://{address}").hostname or ""
        address = f"{'http' if is_loopback(host) else 'https'}://{address}"
    parts = split_url(address)
    path = parts.path.rstrip("/")
    if not path:
        path = "/v1/chat/completions"
    elif re.search(r"/v\d+$", path):
        path += "/chat/completions"
    else:
        path = parts.path
    return urlunsplit(parts._replace(path=path))


async def _read_trailer(reading: ChatStream, parser: SseParser, chunks: AsyncIterator[bytes]) -> list[StreamDelta]:
    """What may follow the end of the answer: usage, `[DONE]`, the end of the body. None of it is worth an error."""
    import httpx2

    deltas: list[StreamDelta] = []
    try:
        with trio.move_on_after(TRAILER_TIMEOUT):
            while not reading.is_over:
                chunk = await anext(chunks, b"")
                deltas.append(reading.read(parser.feed(chunk) if chunk else parser.finish()))
                if not chunk:
                    break
        with trio.move_on_after(DRAIN_TIMEOUT):
            while await anext(chunks, b""):
                pass
    except (httpx2.HTTPError, ProviderError):
        if not reading.finish and not reading.is_over:
            raise
    return [delta for delta in deltas if delta.text or delta.reasoning_delta]


def _is_stream(response: httpx2.Response) -> bool:
    return "json" not in (kind := response.headers.get("content-type", "").lower()) and "html" not in kind
