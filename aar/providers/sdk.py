"""What adapters over a vendor's own package share: it is loaded beside the event loop, and its clients use our pool.

Such an adapter posts bytes that it has encoded itself and reads the answer from the network as it comes: vendors'
packages walk and copy the whole history at every call, which costs more than everything else in a long session.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from aar.errors import MissingKey, MissingPackage, ProviderError
from aar.messages.settings import ProviderConfig
from aar.providers.failures import label
from aar.providers.http import HttpPool

if TYPE_CHECKING:
    import httpx2

__all__ = ["Refused", "SdkClients", "check_installed", "custom_headers", "key_of", "load", "missing_key"]

_C = TypeVar("_C")


def check_installed(package: str, provider: str) -> None:
    """Raises `MissingPackage`, which names the pip command, without importing anything heavy."""
    try:
        found = find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise MissingPackage(
            f"The provider '{provider}' needs the package '{package}': pip install 'aar-agent[{provider}]'",
            provider=provider,
        )


async def load(module: str) -> ModuleType:
    """Import a module in a thread. Vendors' packages take up to a second, and other sessions go on meanwhile."""
    return await trio.to_thread.run_sync(import_module, module, abandon_on_cancel=True)


def missing_key(provider: str, variable: str) -> MissingKey:
    """The error for a provider that cannot be asked without a key."""
    return MissingKey(
        f"There is no key for {label(provider)}: set {variable} in the environment, or provider.api_key in the "
        "settings",
        provider=provider,
    )


def key_of(config: ProviderConfig, variable: str, environ: Mapping[str, str] | None = None) -> str:
    """The key from the settings, else from the environment, unless `extra.use_environment` is false; else empty."""
    if config.api_key.strip():
        return config.api_key.strip()
    if config.extra.get("use_environment", True) is False:
        return ""
    return ((os.environ if environ is None else environ).get(variable) or "").strip()


def custom_headers(environ: Mapping[str, str], variable: str) -> dict[str, str]:
    """Headers from a variable that the vendor's package reads, too: a line each. Their names are in lower case."""
    lines = (line.partition(":") for line in environ.get(variable, "").splitlines())
    return {name.strip().lower(): value.strip() for name, colon, value in lines if colon}


class Refused(Exception):
    """An answer other than 2xx: its body, and the error that it is unless the request can be put in another way."""

    def __init__(self, as_provider_error: ProviderError, status: int, text: str) -> None:
        super().__init__(text)
        self.as_provider_error = as_provider_error
        self.status = status
        self.text = text


class SdkClients(Generic[_C]):
    """One vendor client for each HTTP client of a pool, made when it is first needed."""

    def __init__(self, pool: HttpPool, url: str, build: Callable[[httpx2.AsyncClient], _C]) -> None:
        """`build` makes the vendor's client over one of ours. It must not retry by itself."""
        self._pool = pool
        self._url = url
        self._build = build
        self._built: dict[int, tuple[httpx2.AsyncClient, _C]] = {}

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[_C, None]:
        """A vendor client for one request; leave the block when its answer is read or given up."""
        async with self._pool.client(self._url) as http:
            _, found = self._built.get(id(http), (None, None))
            if found is None:
                found = self._build(http)
                self._built[id(http)] = (http, found)
            yield found

    def forget(self) -> None:
        """The pool was closed: its clients are made anew when the provider is used again."""
        self._built.clear()
