"""Ways into Gemini's API: through the vendor's client, or by HTTP to addresses of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import SplitResult, quote, urlunsplit

from aar.errors import MissingPackage, ProviderError
from aar.providers.addresses import with_scheme
from aar.providers.bodies import error_text
from aar.providers.failures import error_for_status
from aar.providers.http import CONNECT_TIMEOUT, HttpPool, split_url
from aar.providers.sdk import SdkClients, load

if TYPE_CHECKING:
    import httpx2
    from google import genai

__all__ = ["API_ROOT", "Addresses", "Door", "HttpDoor", "SdkDoor", "addresses", "model_path"]

API_ROOT = "https://generativelanguage.googleapis.com"

_ACTION = re.compile(r":(?:generateContent|streamGenerateContent|streamGenerateContentSse)$")
_IS_ROOT = re.compile(r"(?:/v\d+[a-z]*\d*)?/?$")
_OF_A_MODEL = re.compile(r"/models/[^/]+$")
_RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


class Door(Protocol):
    """Where requests go. Both give an answer with status 200, its body unread, and raise `ProviderError`."""

    @property
    def address(self) -> str:
        """The URL that is posted to."""

    def post(self, body: bytes, *, streaming: bool) -> AbstractAsyncContextManager[httpx2.Response]:
        """Ask the model."""

    def list_models(self) -> AbstractAsyncContextManager[httpx2.Response | None]:
        """Ask for the models; `None` where there is no such list."""

    def forget(self) -> None:
        """The pool was closed."""


# --- HTTP -------------------------------------------------------------------------------------


class Addresses(NamedTuple):
    """URLs for an answer in one piece and for a streamed one, and for the list of models, which may be empty.

    `is_google_form` says that the server has the vendor's own paths, and so its header for the key.
    """

    whole: str
    streamed: str
    models: str
    is_google_form: bool


def addresses(base: str, model: str, endpoint: str = "", stream_endpoint: str = "") -> Addresses:
    """The URLs below `base`, which names a model's resource (an action at its end is replaced) or the API's root.

    `endpoint` and `stream_endpoint` are used as they are. Raises `InvalidSetting` for what is no URL.
    """
    base = with_scheme(base or endpoint)
    parts = split_url(base)
    path = _ACTION.sub("", parts.path.rstrip("/"))
    is_google = (parts.hostname or "").endswith(".googleapis.com")
    if _IS_ROOT.fullmatch(path):
        is_google = True
        root = path.rstrip("/") or "/v1beta"
        path = f"{root}/{model_path(model)}"
    made = parts._replace(path=path)
    if is_google:
        streamed = _acted(made, "streamGenerateContent", "alt=sse")
    else:
        streamed = _acted(made, "streamGenerateContentSse")
    query = "&".join(piece for piece in (parts.query, "pageSize=1000") if piece)
    listed = made._replace(path=_OF_A_MODEL.sub("/models", path), query=query)
    return Addresses(
        with_scheme(endpoint) or _acted(made, "generateContent"),
        with_scheme(stream_endpoint) or streamed,
        urlunsplit(listed) if _OF_A_MODEL.search(path) else "",
        is_google,
    )


def _acted(parts: SplitResult, action: str, more: str = "") -> str:
    query = "&".join(piece for piece in (parts.query, more) if piece)
    return urlunsplit(parts._replace(path=f"{parts.path}:{action}", query=query))


def model_path(model: str) -> str:
    """`models/NAME`; a name that says what kind of resource it is (`tunedModels/mine`) is used as it is."""
    return quote(model if "/" in model else f"models/{model}", safe="/-._~@")


class HttpDoor:
    """Posts to addresses of one's own."""

    def __init__(self, pool: HttpPool, found: Addresses, headers: Mapping[str, str]) -> None:
        self._pool = pool
        self._found = found
        self._headers = headers

    @property
    def address(self) -> str:
        return self._found.whole

    @asynccontextmanager
    async def post(self, body: bytes, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        url = self._found.streamed if streaming else self._found.whole
        async with self._pool.open_stream("POST", url, headers=self._headers, content=body) as response:
            yield await _accepted(response)

    @asynccontextmanager
    async def list_models(self) -> AsyncGenerator[httpx2.Response | None, None]:
        if not self._found.models:
            yield None
            return
        async with self._pool.open_stream("GET", self._found.models, headers=self._headers) as found:
            yield await _accepted(found)

    def forget(self) -> None:
        pass


async def _accepted(response: httpx2.Response) -> httpx2.Response:
    if response.is_success:
        return response
    raise _refusal(response.status_code, await error_text(response), response.headers)


# --- the vendor's client ----------------------------------------------------------------------


class SdkDoor:
    """Sends through `google-genai`: its client has the key, the addresses and the errors.

    The client's public methods walk and copy the whole conversation at every call. So this uses the level below them,
    `_build_request` and `_async_request`, which take a body in bytes and give the answer unread. The names are
    private; a test holds them.
    """

    def __init__(
        self,
        pool: HttpPool,
        *,
        api_key: str,
        model: str,
        root: str = API_ROOT,
        version: str = "v1beta",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers` are sent beside those of the client."""
        self._path = model_path(model)
        self._api_key = api_key
        self._root = root
        self._version = version
        self._headers = dict(headers or {})
        self._clients = SdkClients(pool, root, self._build)
        self._is_loaded = False

    @property
    def address(self) -> str:
        return f"{self._root.rstrip('/')}/{self._version}/{self._path}:generateContent"

    @asynccontextmanager
    async def post(self, body: bytes, *, streaming: bool) -> AsyncGenerator[httpx2.Response, None]:
        action = "streamGenerateContent?alt=sse" if streaming else "generateContent"
        async with self._sent("post", f"{self._path}:{action}", body) as response:
            yield response

    @asynccontextmanager
    async def list_models(self) -> AsyncGenerator[httpx2.Response | None, None]:
        async with self._sent("get", "models?pageSize=1000", b"") as response:
            yield response

    def forget(self) -> None:
        self._clients.forget()

    @asynccontextmanager
    async def _sent(self, method: str, path: str, body: bytes) -> AsyncGenerator[httpx2.Response, None]:
        if not self._is_loaded:
            await load("google.genai")
            self._is_loaded = True
        import httpx2
        from google.genai.errors import APIError

        async with self._clients.client() as client:
            build, send = _lower_level(client)
            request = build(method, path, {})
            request.data = body
            request.timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT)
            try:
                answer = await send(request, stream=True)
            except APIError as error:
                raise _from_vendor(error) from error
            response: Any = answer.response_stream  # the HTTP client's own answer, unread
            try:
                yield response
            finally:
                await response.aclose()

    def _build(self, http: httpx2.AsyncClient) -> genai.Client:
        """A client over `http`, with nothing from the environment, no retries and no second connection pool."""
        import ssl

        from google import genai
        from google.genai import types

        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it makes three of its own otherwise, in 0.1 s
        options = types.HttpOptions(
            base_url=self._root,
            api_version=self._version,
            headers=self._headers or None,
            httpx_async_client=http,
            async_client_args={"verify": unused, "ssl": unused},
        )
        return genai.Client(vertexai=False, api_key=self._api_key, http_options=options)


def _lower_level(client: genai.Client) -> tuple[Any, Any]:
    try:
        return client._api_client._build_request, client._api_client._async_request
    except AttributeError as error:
        raise MissingPackage(
            "This version of google-genai is not known to Aar: pip install 'aar-agent[gemini]' gets one that is, and "
            f"with provider.base_url set to {API_ROOT} none is needed",
            provider="gemini",
        ) from error


def _from_vendor(error: Any) -> ProviderError:
    response = error.response
    status = getattr(response, "status_code", None) or error.code or 500
    text = str(error) if response is None else response.text
    if 300 <= status < 400:
        text = f"redirected to {response.headers.get('location', 'nowhere')}"
    return _refusal(status, text, getattr(response, "headers", {}))


def _refusal(status: int, text: str, headers: Mapping[str, str]) -> ProviderError:
    error = error_for_status(status, _without_list(text), headers, "gemini")
    delay = _RETRY_DELAY.search(text)
    if error.retryable and error.retry_after is None and delay:
        error.retry_after = float(delay[1])  # the API tells it in the body
    if status == 404:
        error.args = (f"{error} (check provider.model and provider.base_url)",)
    return error


def _without_list(text: str) -> str:
    """The errors of streams come in a list of one."""
    if text.lstrip()[:1] != "[":
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(found[0]) if isinstance(found, list) and found and isinstance(found[0], dict) else text
