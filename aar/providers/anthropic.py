"""Anthropic's Messages API, through its own package: Claude, and servers and gateways that speak the same format."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlunsplit

from aar.errors import BadProviderReply
from aar.messages.provider import ImageLimits, ModelInfo, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers.addresses import with_scheme
from aar.providers.anthropic_body import MessageBody, Shape, reshaped
from aar.providers.anthropic_stream import MessageStream
from aar.providers.anthropic_wire import NAME
from aar.providers.bodies import ERROR_LIMIT
from aar.providers.failures import as_provider_error, describe_body, error_for_status, error_in_answer
from aar.providers.headers import request_headers
from aar.providers.http import CONNECT_TIMEOUT, HttpPool, split_url
from aar.providers.openai_wire import text_of
from aar.providers.posting import AnswerReading, PostingProvider
from aar.providers.sdk import Refused, SdkClients, check_installed, custom_headers, key_of, load, missing_key
from aar.providers.secrets import Secrets

if TYPE_CHECKING:
    import httpx2

__all__ = ["AnthropicProvider", "server_root"]

_log = logging.getLogger(__name__)

DEFAULT_URL = "https://api.anthropic.com"
PAGE_LIMIT = 20  # pages of the list of models

_ABILITIES = {"image_input": "vision", "pdf_input": "documents", "thinking": "thinking", "structured_outputs": "json"}


class AnthropicProvider(PostingProvider):
    """Asks `config.model`. Every answer is streamed on the wire, also when nobody watches.

    A temperature that the model does not take, and a limit of tokens beyond its own, are left out or lowered from
    then on, for as long as the instance lives.
    """

    name = NAME
    supports_reasoning = True
    supports_structured_output = True
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
        """`pool` may be shared and is not closed here; `environ` gives the key and the address that `config` leaves
        out, unless `extra.use_environment` is false. Nothing is loaded or connected yet.

        Raises `MissingPackage`, and `InvalidSetting` for an address, key, header or `thinking` that cannot be one.
        """
        super().__init__(config)
        check_installed("anthropic", self.name)
        extra = config.extra
        environ = {} if extra.get("use_environment", True) is False else environ
        self._url = server_root(config.base_url or environ.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_URL)
        self.endpoint = f"{self._url}/v1/messages"
        self._key = key_of(config, "ANTHROPIC_API_KEY", environ)
        self._token = "" if self._key else environ.get("ANTHROPIC_AUTH_TOKEN", "").strip()
        more = extra.get("extra_headers") or {}
        more = {**custom_headers(environ, "ANTHROPIC_CUSTOM_HEADERS"), **more} if isinstance(more, dict) else more
        self._headers = request_headers(self._key or self._token, {**extra, "extra_headers": more})
        values = (value for name, value in self._headers.items() if name != "content-type")
        self._secrets = Secrets(self._key or self._token, values)
        self.supports_tools = bool(extra.get("supports_tools", True))
        self.supports_vision = bool(extra.get("supports_vision", True))
        self._body = MessageBody(config, has_tools=self.supports_tools)
        self._shape = Shape()
        self._has_warned = False
        self._sdk: ModuleType | None = None
        self._pool = pool or HttpPool()
        self._owns_pool = pool is None
        self._clients: SdkClients[Any] = SdkClients(self._pool, self._url, self._build)

    async def models(self) -> tuple[ModelInfo, ...]:
        """What the server lists, retired models left out."""
        found: list[ModelInfo] = []
        after = ""
        with self._own_errors():
            for _ in range(PAGE_LIMIT):
                page = await self._page_of_models(after)
                try:
                    found += [_model(entry) for entry in page["data"] if entry.get("lifecycle") != "retired"]
                except (AttributeError, TypeError) as error:
                    raise BadProviderReply(f"{self._server} gave no list of models") from error
                after = text_of(page.get("last_id"))
                if not page.get("has_more") or not after:
                    break
        return tuple(found)

    @property
    def output_limit(self) -> int:
        return self._body.output_limit

    async def aclose(self) -> None:
        self._clients.forget()
        if self._owns_pool:
            await self._pool.aclose()

    # --- asking -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        self._warn_once()
        shape = self._shape
        while True:
            try:
                async with self._sent("POST", "/v1/messages", content=self._body.encode(request, shape)) as response:
                    self._shape = shape._replace(has_thoughts=True)
                    yield response
                    return
            except Refused as error:
                changed = reshaped(shape, error.status, error.text)
                if changed is None:
                    raise error.as_provider_error from error.__cause__
                _log.warning("Asking again in another way, since the server said: %s", describe_body(error.text))
                shape = changed

    @asynccontextmanager
    async def _sent(self, method: str, path: str, **more: Any) -> AsyncGenerator[httpx2.Response, None]:
        """An answer with status 2xx, its body unread. Raises `Refused`, `ProviderError` and `httpx2.HTTPError`."""
        import httpx2

        if not (self._key or self._token) and self._url == DEFAULT_URL:
            raise missing_key(self.name, "ANTHROPIC_API_KEY")
        sdk = self._sdk = self._sdk or await load("anthropic")
        async with self._clients.client() as client:
            ask = client.get if method == "GET" else client.post
            try:
                # With this type the package hands out the answer as it is, unread.
                response = await ask(path, cast_to=httpx2.Response, stream=True, **more)
            except sdk.APIStatusError as error:
                raise self._refusal(error.response) from error
            except sdk.APIConnectionError as error:
                raise error.__cause__ or error from None
            except sdk.AnthropicError as error:
                raise as_provider_error(error, self.name) from error
            try:
                yield response
            finally:
                await response.aclose()

    def _refusal(self, response: httpx2.Response) -> Refused:
        """What an answer other than 2xx stands for, with a word on what to look at."""
        status = response.status_code
        text = self._secrets.hide(response.content[:ERROR_LIMIT].decode(errors="replace"))
        if response.is_redirect:
            text = f"redirected to {response.headers.get('location', 'nowhere')}: use that URL as base_url"
        error = error_for_status(status, text, response.headers, self.name)
        if status == 404 and text[:1] == "{" and "model" in text:
            error.advice = f"Anthropic has no model '{self.config.model}': name another one in provider.model."
        elif status in (404, 405):
            error.advice = f"{self._server} is no Messages API of Anthropic's: check provider.base_url."
        if error.advice:
            error.args = (f"{error.advice} (HTTP {status}: {describe_body(text)})",)
        return Refused(error, status, text)

    async def _page_of_models(self, after: str) -> dict[str, Any]:
        path = "/v1/models?limit=1000" + (f"&after_id={after}" if after else "")
        try:
            async with self._sent("GET", path) as response:
                page = await self._json(response)
        except Refused as error:
            raise error.as_provider_error from error.__cause__
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            raise BadProviderReply(f"{self._server} gave no list of models", provider=self.name)
        return page

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        self._warn_of_an_open_key(self._key or self._token)
        if self.config.response_format in ("json", "json_object"):
            _log.warning("Anthropic promises JSON only for a schema, in provider.json_schema: asking for text")

    # --- the vendor's package -------------------------------------------------------------------

    def _build(self, http: httpx2.AsyncClient) -> Any:
        """A client that takes nothing from the environment by itself."""
        import httpx2

        assert self._sdk is not None  # loaded before any client is asked for
        omit = self._sdk.Omit()
        sent: dict[str, Any] = {name: value for name, value in self._headers.items() if name != "authorization"}
        if betas := self.config.extra.get("betas"):
            sent["anthropic-beta"] = betas if isinstance(betas, str) else ",".join(map(str, betas))
        for name in custom_headers(os.environ, "ANTHROPIC_CUSTOM_HEADERS"):
            sent.setdefault(name, omit)
        own = self._headers.get("authorization", "")
        if own != f"Bearer {self._key or self._token}":  # none, in another header, or one of `extra_headers`
            sent["Authorization"] = own or omit
        credential = {"auth_token": self._token} if self._token else {"api_key": self._key}
        return self._sdk.AsyncAnthropic(
            **credential,
            base_url=self._url,
            http_client=http,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            default_headers=sent,
        )

    # --- reading ------------------------------------------------------------------------------

    def _reading(self) -> AnswerReading:
        return MessageStream(model=self.config.model)

    def _parsed(self, answer: Any) -> ProviderResponse:
        """What servers answer that do not stream every request: a message or an error."""
        if isinstance(answer, dict) and answer.get("error"):
            raise error_in_answer(answer, self.name)
        return MessageStream(model=self.config.model).read_message(answer)


def server_root(address: str) -> str:
    """The address that `/v1/messages` is added to, from that address, with `/v1`, or the whole URL.

    Without a scheme it is `https`, on this machine `http`. Raises `InvalidSetting` for what is no such URL.
    """
    parts = split_url(with_scheme(address))
    path = parts.path.rstrip("/")
    for suffix in ("/messages", "/v1"):
        path = path.removesuffix(suffix).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    told = entry.get("capabilities") or {}
    abilities = [word for name, word in _ABILITIES.items() if (told.get(name) or {}).get("supported")]
    window, output = entry.get("max_input_tokens"), entry.get("max_tokens")
    return ModelInfo(
        name=str(entry.get("id", "")),
        context_window=window if isinstance(window, int) else None,
        max_output=output if isinstance(output, int) else None,
        abilities=("tools", *abilities) if told else (),
    )
