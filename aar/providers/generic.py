"""Any server that speaks OpenAI's chat format at one URL: llama.cpp, vLLM, LM Studio, Ollama, gateways."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlunsplit

from aar.errors import ProviderError
from aar.messages.provider import ModelInfo, ProviderRequest, ProviderResponse
from aar.messages.settings import ProviderConfig
from aar.providers.addresses import with_scheme
from aar.providers.bodies import error_text
from aar.providers.failures import error_for_status, error_in_answer
from aar.providers.headers import request_headers
from aar.providers.http import HttpPool, split_url
from aar.providers.openai_fields import Fields
from aar.providers.openai_models import parse_models
from aar.providers.openai_stream import ChatStream
from aar.providers.openai_wire import encode_json, encode_tools, encoded_messages, parse_answer, response_format
from aar.providers.posting import PostingProvider
from aar.providers.secrets import Secrets

if TYPE_CHECKING:
    import httpx2

__all__ = ["GenericProvider", "chat_endpoint"]

_log = logging.getLogger(__name__)


class GenericProvider(PostingProvider):
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
        fixed_field = extra.get("max_tokens_field")
        self._fields = Fields(
            fixed_field or self.default_max_tokens_field,
            frozenset({"images", "stream_options", "temperature"}),
            may_rename=not fixed_field and self.default_max_tokens_field == "max_completion_tokens",
        )
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

    async def models(self) -> tuple[ModelInfo, ...]:
        """What the server lists beside the endpoint; nothing for an endpoint of another form."""
        self._check_endpoint()
        root, is_usual, _ = self.endpoint.partition("/chat/completions")
        if not is_usual:
            return ()
        with self._own_errors():
            async with self._pool.open_stream("GET", f"{root}/models", headers=self._sent_headers) as response:
                if not response.is_success:
                    text = self._secrets.hide(await error_text(response))
                    error = error_for_status(response.status_code, text, response.headers, self.name)
                    if text[:1] == "<":
                        error.args = (f"{error} (check provider.base_url, {self._server})",)
                    raise error
                listed = await self._json(response)
        return parse_models(listed, provider=self.name, server=self._server)

    # --- asking -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _answer(self, request: ProviderRequest, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        """An answer with status 200, its body unread."""
        self._check_endpoint()
        self._warn_once()
        fields = self._fields
        while True:
            body = self._body(request, streaming, fields)
            async with self._pool.open_stream(
                "POST", self.endpoint, headers=self._sent_headers, content=body
            ) as response:
                if response.is_success:
                    self._fields = fields
                    yield response
                    return
                text = self._secrets.hide(await error_text(response))
                refused = fields.refused(response.status_code, text)
                if not refused:
                    raise self._refusal(response, text)
            _log.warning("The server does not take %r: trying without it", refused)
            fields = fields.without(refused)

    def _check_endpoint(self) -> None:
        if not self.endpoint:
            raise ProviderError(
                "No server to ask: set provider.base_url or GENERIC_ENDPOINT, for example to http://localhost:8080/v1"
            )

    def _refusal(self, response: httpx2.Response, text: str) -> ProviderError:
        """What an answer other than 2xx stands for, with a word on what to look at."""
        error = error_for_status(response.status_code, text, response.headers, self.name)
        if response.status_code == 404:
            is_of_model = text[:1] == "{" and "model" in text
            setting = f"provider.model, {self.config.model!r}" if is_of_model else f"provider.base_url, {self._server}"
            error.args = (f"{error} (check {setting})",)
        return error

    def _warn_once(self) -> None:
        """With the first request, not before: settings are also looked at without asking anything."""
        if self._has_warned:
            return
        self._has_warned = True
        if self._asked_format() == "json_schema" and self._format is None:
            _log.warning("response_format is json_schema and there is no provider.json_schema: asking for text")
        self._warn_of_an_open_key(self.api_key)

    def _body(self, request: ProviderRequest, streaming: bool, fields: Fields) -> bytes:
        messages = encoded_messages(request.messages, with_images="images" in fields.optional)
        if request.system:
            messages.insert(0, encode_json({"role": "system", "content": request.system}))
        limit = self.config.max_tokens if request.max_tokens is None else request.max_tokens
        options: dict[str, Any] = {
            "model": self.config.model or None,
            fields.limit: limit or None,
            "temperature": self.config.temperature if "temperature" in fields.optional else None,
            "stream": streaming,
            "stream_options": {"include_usage": True} if streaming and "stream_options" in fields.optional else None,
            "response_format": self._format,
        }
        sent = {name: value for name, value in options.items() if value is not None}
        tools = b',"tools":' + encode_tools(request.tools) if request.tools and self.supports_tools else b""
        # The conversation comes first and grows at its end: equal starts are equal bytes.
        return b'{"messages":[' + b",".join(messages) + b"]," + encode_json(sent)[1:-1] + tools + b"}"

    def _response_format(self) -> dict[str, Any] | None:
        schema = self.config.json_schema or self.config.extra.get("json_schema_def") or {}
        return response_format(self._asked_format(), schema)

    def _asked_format(self) -> str:
        return self.config.response_format or str(self.config.extra.get("response_format") or "text")

    # --- reading ------------------------------------------------------------------------------

    def _reading(self) -> ChatStream:
        return ChatStream(provider=self.name, model=self.config.model, splits_tags=self.supports_reasoning)

    def _parsed(self, answer: Any) -> ProviderResponse:
        if isinstance(answer, dict) and (answer.get("error") or answer.get("object") == "error"):
            raise error_in_answer(answer, self.name)
        return parse_answer(answer, provider=self.name, model=self.config.model, splits_tags=self.supports_reasoning)


def chat_endpoint(address: str) -> str:
    """The URL to post to: a server or its `/v1` root is completed, any other path is used as it is.

    Without a scheme it is `https`, on this machine `http`. Raises `InvalidSetting` for what is no such URL.
    """
    address = with_scheme(address)
    if not address:
        return ""
    parts = split_url(address)
    path = parts.path.rstrip("/")
    if not path:
        path = "/v1/chat/completions"
    elif re.search(r"/v\d+$", path):
        path += "/chat/completions"
    else:
        path = parts.path
    return urlunsplit(parts._replace(path=path))
