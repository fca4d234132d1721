"""Asking an adapter for a streamed answer, as many of these tests do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from aar.messages.provider import History, ProviderRequest, ProviderResponse, StreamDelta
from aar.providers.base import Assembly, Provider

__all__ = ["REQUEST", "answered", "streamed"]

REQUEST = ProviderRequest(History([{"role": "user", "content": "hi"}]))


async def streamed(provider: Provider, assembly: Assembly | None = None) -> list[StreamDelta]:
    """All that comes; `assembly` has what came before an error."""
    seen: list[StreamDelta] = []
    async with aclosing(provider.stream(REQUEST)) as deltas:
        async for delta in deltas:
            seen.append(delta)
            if assembly is not None:
                assembly.add(delta)
    return seen


async def answered(provider: Provider, plain: Callable[[ProviderResponse], Any]) -> Any:
    """The whole answer, as the fixture `plain` shows it."""
    assembly = Assembly()
    await streamed(provider, assembly)
    return plain(assembly.response())
