"""OpenAI's own API over the vendor's package: chat completions and responses, Azure, and hosts that speak the same."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aar.errors import InvalidSetting
from aar.messages.provider import ImageLimits, ModelInfo, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers.bodies import ERROR_LIMIT
from aar.providers.failures import as_provider_error, error_for_status
from aar.providers.headers import request_headers
from aar.providers.http import CONNECT_TIMEOUT, HttpPool
from aar.providers.openai_chat import ChatApi
from aar.providers.openai_models import parse_models
from aar.providers.openai_responses import ResponsesApi
from aar.providers.openai_settings import place_of, reasons, sees
from aar.providers.posting import AnswerReading, PostingProvider
from aar.providers.sdk import Refused, SdkClients, check_installed, custom_headers, load, missing_key
from aar.providers.secrets import Secrets

if TYPE_CHECKING:
    import httpx2

__all__ = ["OpenAIProvider"]

_log = logging.getLogger(__name__)

# How OpenAI repeats a wrong key. It begins where a word does: otherwise a long word would be gone through once for each
# of its letters.
_STARRED_KEY = re.compile(r"(?<![\w-])[\w-]*+\*{3,}[\w*-]*")

_APIS: dict[str, type[ChatApi] | type[ResponsesApi]] = {"chat": ChatApi, "responses": ResponsesApi}


class OpenAIProvider(PostingProvider):
    """Asks OpenAI, or who speaks like it at `base_url`.

    `extra.api` is `chat` (chat completions) or `responses`. What a server refuses by name (the name of the limit, a
    temperature, `stream_options`) is left out or renamed from then on, for as long as the instance lives.
    """

    name = "openai"
    supports_structured_output = True
    default_first_byte_timeout = 600.0  # models that reason say nothing of it in chat completions
    default_idle_timeout = 300.0
    # platform.openai.com/docs/guides/images-vision: images and bytes of one request. GIFs must not move.
    image_limits = ImageLimits(at_most=500, bytes_each=20_000_000, bytes_total=50_000_000)

    def __init__(
        self,
        config: ProviderConfig,
        *,
        pool: HttpPool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`pool` may be shared and is not closed here. `environ` gives the key and the address that `config` leaves
        out, unless `extra.use_environment` is false. Nothing is loaded or connected yet.

        Raises `MissingPackage`, and `InvalidSetting` for settings that cannot be.
        """
        super().__init__(config)
        check_installed("openai", self.name)
        api = str(config.extra.get("api") or "chat")
        if api not in _APIS:
            raise InvalidSetting(f"provider.extra.api is {api!r}: use one of {', '.join(_APIS)}")
        self._environ = {} if config.extra.get("use_environment", True) is False else environ
        self._place = place_of(config, api, self._environ)
        self.endpoint = self._place.url
        self._headers = self._own_headers()
        self._secrets = Secrets(self._place.key, self._headers.values())
        self._api = _APIS[api](config, self.name, is_vendor=self._place.is_vendor)
        self._fields = self._api.fields()
        self.supports_tools = bool(config.extra.get("supports_tools", True))
        thinks_aloud = reasons(config) if api == "responses" else config.extra.get("supports_reasoning", False)
        self.supports_reasoning = bool(thinks_aloud)
        self.supports_vision = sees(config)
        self._has_warned = False
        self._owns_pool = pool is None
        self._pool = pool or HttpPool()
        self._sdk: ModuleType | None = None
        self._clients: SdkClients[Any] | None = None

    def _own_headers(self) -> dict[str, str]:
        extra = self.config.extra
        if self._place.version:
            extra = {"auth_header": "api-key", **extra}
        found = custom_headers(self._environ, "OPENAI_CUSTOM_HEADERS") | request_headers(self._place.key, extra)
        for name, setting, variable in (
            ("openai-organization", "organization", "OPENAI_ORG_ID"),
            ("openai-project", "project", "OPENAI_PROJECT_ID"),
        ):
            if value := str(extra.get(setting) or self._environ.get(variable) or ""):
                found.setdefault(name, value)
        return found

    @property
    def output_limit(self) -> int:
        return self._api.output_limit

    async def aclose(self) -> None:
        if self._clients is not None:
            self._clients.forget()
        if self._owns_pool:
            await self._pool.aclose()

    async def models(self) -> tuple[ModelInfo, ...]:
        """What the server lists, in the order of the names. OpenAI itself tells no more than these."""
        with self._own_errors():
            try:
                async with self._sent("GET", "/models") as response:
                    listed = await self._json(response)
            except Refused as error:
                raise error.as_provider_error from error.__cause__
        return parse_models(listed, provider=self.name, server=self._server)

    # --- asking -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        if not self._has_warned:
            self._has_warned = True
            self._warn_of_an_open_key(self._place.key)
        fields = self._fields
        while True:
            async with AsyncExitStack() as stack:
                body = self._api.body(request, fields, streaming=streaming)
                try:
                    response = await stack.enter_async_context(self._sent("POST", self._api.path, content=body))
                except Refused as error:
                    refused = fields.refused(error.status, error.text)
                    if not refused:
                        raise error.as_provider_error from error.__cause__
                    _log.warning("The server does not take %r: trying without it", refused)
                    fields = fields.without(refused)
                    continue
                self._fields = fields
                yield response
                return

    @asynccontextmanager
    async def _sent(self, method: str, path: str, **more: Any) -> AsyncGenerator[httpx2.Response, None]:
        """An answer with status 200, its body unread. Raises `Refused`, `ProviderError` and `httpx2.HTTPError`."""
        import httpx2

        sdk, clients = await self._loaded()
        headers = self._sent_headers(sdk)
        async with clients.client() as client:
            ask = client.get if method == "GET" else client.post
            try:
                # With this type the package hands out the answer as it is, unread.
                response = await ask(path, cast_to=httpx2.Response, stream=True, options={"headers": headers}, **more)
            except sdk.APIStatusError as error:
                raise self._refusal(error.response) from error
            except sdk.APIConnectionError as error:
                raise error.__cause__ or error from None
            except sdk.OpenAIError as error:
                raise as_provider_error(error, self.name) from error
            try:
                yield response
            finally:
                await response.aclose()

    def _sent_headers(self, sdk: ModuleType) -> dict[str, Any]:
        """Ours, and none that the package would add from the environment or from its own idea of a key."""
        unwanted = [
            "authorization",
            "openai-organization",
            "openai-project",
            *custom_headers(os.environ, "OPENAI_CUSTOM_HEADERS"),
        ]
        if self._place.version:
            unwanted.append("api-key")
        return {name: sdk.Omit() for name in unwanted} | self._headers

    def _refusal(self, response: httpx2.Response) -> Refused:
        """What an answer other than 2xx stands for, with a word on what to look at."""
        text = response.content[:ERROR_LIMIT].decode(errors="replace")
        text = self._secrets.hide(_STARRED_KEY.sub("[redacted]", text))
        if response.is_redirect:
            text = f"redirected to {response.headers.get('location', 'nowhere')}: use that URL as base_url"
        found = error_for_status(response.status_code, text, response.headers, self.name)
        if response.status_code == 404:
            is_of_model = text[:1] == "{" and "model" in text
            setting = f"provider.model, {self.config.model!r}" if is_of_model else f"provider.base_url, {self._server}"
            found.args = (f"{found} (check {setting})",)
        return Refused(found, response.status_code, text)

    # --- the vendor's package -------------------------------------------------------------------

    async def _loaded(self) -> tuple[ModuleType, SdkClients[Any]]:
        if not self._place.key and self._place.is_vendor:
            raise missing_key(self.name, "OPENAI_API_KEY")
        if self._sdk is None or self._clients is None:
            sdk = self._sdk = await load("openai")
            self._clients = SdkClients(self._pool, self._place.url, lambda http: self._client(sdk, http))
        return self._sdk, self._clients

    def _client(self, sdk: ModuleType, http: httpx2.AsyncClient) -> Any:
        import httpx2

        place = self._place
        settings: dict[str, Any] = {
            "api_key": place.key or "none",
            "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            "max_retries": 0,
            "http_client": http,
        }
        if not place.version:
            return sdk.AsyncOpenAI(base_url=place.url, **settings)
        return sdk.AsyncAzureOpenAI(
            azure_endpoint=place.url, azure_deployment=place.deployment, api_version=place.version, **settings
        )

    # --- reading ------------------------------------------------------------------------------

    def _reading(self) -> AnswerReading:
        return self._api.reading()

    def _parsed(self, answer: Any) -> ProviderResponse:
        return self._api.parsed(answer)
