"""Anthropic's Messages API, through its own package: Claude, and servers and gateways that speak the same format."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

import trio

from aar.errors import BadProviderReply, ProviderError
from aar.messages.provider import ImageLimits, ModelInfo, ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.anthropic_body import MessageBody, Shape, reshaped
from aar.providers.anthropic_stream import MessageStream
from aar.providers.anthropic_wire import NAME
from aar.providers.base import Provider, as_provider_error, error_for_status, replay, timed_out
from aar.providers.bodies import ERROR_LIMIT, read_body
from aar.providers.failures import describe_body, error_in_answer
from aar.providers.headers import request_headers
from aar.providers.http import CONNECT_TIMEOUT, HttpPool, is_loopback, open_chunks, split_url
from aar.providers.sdk import SdkClients, check_installed, key_of, load, missing_key, translated
from aar.providers.secrets import Secrets
from aar.providers.sse import SseParser

if TYPE_CHECKING:
    import anthropic
    import httpx2

__all__ = ["AnthropicProvider", "server_root"]

_log = logging.getLogger(__name__)

DEFAULT_URL = "https://api.anthropic.com"
DRAIN_TIMEOUT = 0.05  # seconds to wait for the end of the body, so that the connection can be used again
PAGE_LIMIT = 20  # pages of the list of models


class AnthropicProvider(Provider):
    """Asks `config.model`. Every answer is streamed on the wire, also when nobody watches.

    A temperature that the model does not take, and a limit of tokens beyond its own, are left out or lowered from
    then on, for as long as the instance lives.
    """

    name = NAME
    supports_reasoning = True
    supports_structured_output = True
    supports_vision = True
    # "Vision" in Anthropic's documentation: 100 images in a request, 8000 pixels a side (2000 with more than 20),
    # 5 MB each, of which the API counts the base64 text; 32 MB for the whole request, the conversation included.
    image_limits = ImageLimits(
        at_most=100,
        bytes_each=5 * 1024 * 1024,
        bytes_total=24 * 1024 * 1024,
        side=8000,
        many=20,
        side_of_many=2000,
    )

    def __init__(
        self,
        config: ProviderConfig,
        *,
        pool: HttpPool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`pool` may be shared and is not closed here; `environ` gives the key and the URL that `config` leaves out,
        unless `extra.use_environment` is false. Raises `MissingPackage`, and `InvalidSetting` for a URL, key or header
        that cannot be one.
        """
        super().__init__(config)
        check_installed("anthropic", self.name)
        extra = config.extra
        self._uses_environment = extra.get("use_environment", True) is not False
        self.url = server_root(config.base_url or self._variable(environ, "ANTHROPIC_BASE_URL") or DEFAULT_URL)
        self._key = key_of(config, "ANTHROPIC_API_KEY", environ)
        self._token = "" if self._key else self._variable(environ, "ANTHROPIC_AUTH_TOKEN")
        more = extra.get("extra_headers") or {}
        if isinstance(more, dict):
            more = _header_lines(self._variable(environ, "ANTHROPIC_CUSTOM_HEADERS")) | more
        self._sent_headers = request_headers(self._key or self._token, {**extra, "extra_headers": more})
        values = (value for name, value in self._sent_headers.items() if name != "content-type")
        self._secrets = Secrets(self._key or self._token, values)
        self.supports_tools = bool(extra.get("supports_tools", True))
        self.supports_vision = bool(extra.get("supports_vision", True))
        self._body = MessageBody(config, has_tools=self.supports_tools)
        self._shape = Shape()
        self._has_warned = False
        self._sdk: ModuleType | None = None
        self._pool = pool or HttpPool()
        self._owns_pool = pool is None
        self._clients: SdkClients[anthropic.AsyncAnthropic] = SdkClients(self._pool, self.url, self._build)

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        with translated(self.name, self._secrets):
            async with self._answer(request) as response:
                if _is_stream(response):
                    async with aclosing(self._deltas(response)) as deltas:
                        async for delta in deltas:
                            yield delta
                else:
                    for delta in replay(await self._whole(response)):
                        yield delta

    async def models(self) -> tuple[ModelInfo, ...]:
        found: list[ModelInfo] = []
        after = ""
        with translated(self.name, self._secrets):
            for _ in range(PAGE_LIMIT):
                page = await self._page_of_models(after)
                found += [_model_info(entry) for entry in page["data"] if entry.get("lifecycle") != "retired"]
                after = page.get("last_id") or ""
                if not page.get("has_more") or not after:
                    break
        return tuple(found)

    async def aclose(self) -> None:
        self._clients.forget()
        if self._owns_pool:
            await self._pool.aclose()

    # --- asking -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[anthropic.AsyncAnthropic, None]:
        if not (self._key or self._token) and self.url == DEFAULT_URL:
            raise missing_key(self.name, "ANTHROPIC_API_KEY")
        self._sdk = self._sdk or await load("anthropic")
        self._warn_once()
        async with self._clients.client() as client:
            yield client

    def _build(self, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        """Everything that the package would look up in the environment is said here."""
        import httpx2

        assert self._sdk is not None  # loaded before any client is asked for
        omit = self._sdk.Omit()
        sent: dict[str, Any] = {name: value for name, value in self._sent_headers.items() if name != "authorization"}
        # The package adds headers from the environment by itself: under their names, it gets what is to be sent.
        for name in _header_lines(os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "")):
            sent[name] = sent.pop(name.lower(), omit)
        if betas := self.config.extra.get("betas"):
            sent["anthropic-beta"] = betas if isinstance(betas, str) else ",".join(map(str, betas))
        own = self._sent_headers.get("authorization", "")
        if own != f"Bearer {self._key or self._token}":  # none, in another header, or set by `extra_headers`
            sent["Authorization"] = own or omit
        credential = {"auth_token": self._token} if self._token else {"api_key": self._key}
        return cast(
            "anthropic.AsyncAnthropic",
            self._sdk.AsyncAnthropic(
                **credential,
                base_url=self.url,
                http_client=http,
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                default_headers=sent,
            ),
        )

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest) -> AsyncGenerator[httpx2.Response, None]:
        """An answer with status 200, its body unread."""
        async with self._client() as client:
            response = await self._accepted(client, request)
            try:
                yield response
            finally:
                await response.aclose()

    async def _accepted(self, client: anthropic.AsyncAnthropic, request: ProviderRequest) -> httpx2.Response:
        assert self._sdk is not None
        shape = self._shape
        while True:
            try:
                response = await self._send(client, "POST", "/v1/messages", self._body.encode(request, shape))
            except self._sdk.APIStatusError as error:
                text = self._secrets.hide(_error_text(error.response))
                changed = reshaped(shape, error.status_code, text)
                if changed is None:
                    raise self._refusal(error.status_code, text, error.response.headers) from error
                _log.warning("The request is changed and sent again, since the server said: %s", describe_body(text))
                shape = changed
            else:
                self._shape = shape._replace(has_thoughts=True)
                return response

    async def _send(
        self, client: anthropic.AsyncAnthropic, method: str, path: str, content: bytes = b""
    ) -> httpx2.Response:
        """The answer of the server, its body unread. Raises the package's error for a status other than 2xx."""
        import httpx2

        assert self._sdk is not None
        try:
            if method == "GET":
                return await client.get(path, cast_to=httpx2.Response)
            # With `stream` and this type the package hands out the response as it is: no model per event.
            return await client.post(path, cast_to=httpx2.Response, content=content, stream=True)
        except self._sdk.APITimeoutError as error:
            raise timed_out(self.name, CONNECT_TIMEOUT, f"no connection to {self._server}") from error
        except self._sdk.APIConnectionError as error:
            found = as_provider_error(error.__cause__ or error, self.name)
            found.args = (f"{found} ({self._server})",)
            raise found from error

    async def _page_of_models(self, after: str) -> dict[str, Any]:
        path = "/v1/models?limit=1000" + (f"&after_id={after}" if after else "")
        async with self._client() as client:
            assert self._sdk is not None
            try:
                response = await self._send(client, "GET", path)
            except self._sdk.APIStatusError as error:
                text = _error_text(error.response)
                raise error_for_status(error.status_code, text, error.response.headers, self.name) from error
            page = self._json(await response.aread())
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            raise BadProviderReply(f"{self._server} gave no list of models", provider=self.name)
        return page

    def _refusal(self, status: int, text: str, headers: Mapping[str, str]) -> ProviderError:
        error = error_for_status(status, text, headers, self.name)
        if status == 404 and "model" in text and "<" not in text:
            error.advice = f"Anthropic has no model '{self.config.model}': name another one in provider.model."
        elif status in (404, 405):
            error.advice = f"{self._server} does not speak Anthropic's Messages API: check provider.base_url."
        if error.advice:
            error.args = (f"{error.advice} (HTTP {status}: {describe_body(text)})",)
        return error

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        if self.config.response_format in ("json", "json_object"):
            _log.warning("Anthropic's API promises JSON only for a schema: asking for text. Set provider.json_schema")
        is_seen = self.url.startswith("http:") and not is_loopback(urlsplit(self.url).hostname or "")
        if is_seen and (self._key or self._token):
            _log.warning("The key goes to %s unencrypted: use https://", self._server)

    def _variable(self, environ: Mapping[str, str], name: str) -> str:
        return (environ.get(name) or "").strip() if self._uses_environment else ""

    @property
    def _server(self) -> str:
        """The address as it may be shown: without a password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    # --- reading ------------------------------------------------------------------------------

    async def _deltas(self, response: httpx2.Response) -> AsyncGenerator[StreamDelta, None]:
        import httpx2

        reading = MessageStream(model=self.config.model)
        parser = SseParser()
        async with open_chunks(response) as chunks:
            async for chunk in chunks:
                yield reading.read(parser.feed(chunk))
                if reading.is_over:
                    break
            else:
                yield reading.read(parser.finish())
            with suppress(httpx2.HTTPError), trio.move_on_after(DRAIN_TIMEOUT):
                while await anext(chunks, b""):
                    pass
        for delta in reading.end():
            yield delta

    async def _whole(self, response: httpx2.Response) -> ProviderResponse:
        """What servers answer that do not stream every request: a message, an error, or a page of something else."""
        answer = self._json(await read_body(response))
        if isinstance(answer, dict) and answer.get("error"):
            raise error_in_answer(answer, self.name)
        return MessageStream(model=self.config.model).read_message(answer)

    def _json(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            said = describe_body(body[:ERROR_LIMIT].decode(errors="replace"))
            raise BadProviderReply(f"{self._server} answered with something that is no JSON: {said}") from error


def server_root(address: str) -> str:
    """The address that `/v1/messages` is added to, from that address, with `/v1`, or the whole URL.

    Without a scheme it is `https`, on this machine `http`. Raises `InvalidSetting` for what is no such URL.
    """
    address = address.strip()
    if "://" not in address:
        host = split_url(f"http://{address}").hostname or ""
        address = f"{'http' if is_loopback(host) else 'https'}://{address}"
    parts = split_url(address)
    path = parts.path.rstrip("/")
    for suffix in ("/messages", "/v1"):
        path = path.removesuffix(suffix).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _header_lines(text: str) -> dict[str, str]:
    """Headers as `ANTHROPIC_CUSTOM_HEADERS` holds them: one `Name: value` a line."""
    pairs = (line.partition(":") for line in text.split("\n") if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _error_text(response: httpx2.Response) -> str:
    if response.is_redirect:
        return f"redirected to {response.headers.get('location', 'nowhere')}: use that URL as base_url"
    return response.content[:ERROR_LIMIT].decode(errors="replace")


def _model_info(entry: Mapping[str, Any]) -> ModelInfo:
    told = entry.get("capabilities") or {}
    abilities = ["tools"] if told else []
    known = {"image_input": "vision", "pdf_input": "documents", "thinking": "thinking", "structured_outputs": "json"}
    abilities += [word for name, word in known.items() if (told.get(name) or {}).get("supported")]
    window, output = entry.get("max_input_tokens"), entry.get("max_tokens")
    return ModelInfo(
        name=str(entry.get("id", "")),
        context_window=window if isinstance(window, int) else None,
        max_output=output if isinstance(output, int) else None,
        abilities=tuple(abilities),
    )


def _is_stream(response: httpx2.Response) -> bool:
    return "json" not in (kind := response.headers.get("content-type", "").lower()) and "html" not in kind
