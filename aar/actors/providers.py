"""The model providers of a runtime: one instance for all sessions with the same settings, closed exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from aar.kernel import Child, Exhausted, Mailbox, Restart, Supervisor
from aar.messages.settings import ProviderConfig
from aar.providers.base import Provider

__all__ = ["Providers"]

CLOSE_TIMEOUT = 5.0  # seconds a provider may take to give its connections back

logger = logging.getLogger(__name__)


@dataclass
class _Shared:
    provider: Provider
    key: str
    users: int = 0
    service: str = ""


class Providers:
    """Providers by their settings. Sessions acquire and release; the last one to release closes.

    A provider with a `serve` method (a model server of its own, say) runs as a service below `supervisor` for as
    long as somebody uses it.
    """

    def __init__(
        self, supervisor: Supervisor, nursery: trio.Nursery, build: Callable[[ProviderConfig], Provider]
    ) -> None:
        self._supervisor = supervisor
        self._nursery = nursery
        self._build = build
        self._by_key: dict[str, _Shared] = {}
        self._started = 0

    def acquire(self, config: ProviderConfig) -> Provider:
        """The provider for these settings. Raises `ValueError` for an unknown name, `ProviderError` otherwise."""
        key = config.model_dump_json()
        shared = self._by_key.get(key)
        if shared is None:
            shared = self._by_key[key] = _Shared(self._build(config), key)
            self._serve(shared)
        shared.users += 1
        return shared.provider

    def release(self, provider: Provider) -> None:
        """This user is done with it. A provider that came from elsewhere is none of ours."""
        shared = next((one for one in self._by_key.values() if one.provider is provider), None)
        if shared is None:
            return
        shared.users -= 1
        if not shared.users:
            del self._by_key[shared.key]
            self._nursery.start_soon(self._close, shared)

    async def close_all(self) -> None:
        """For the end of the runtime."""
        remaining, self._by_key = list(self._by_key.values()), {}
        for shared in remaining:
            await self._close(shared)

    def _serve(self, shared: _Shared) -> None:
        serve = getattr(shared.provider, "serve", None)
        if serve is None:
            return

        async def run(mailbox: Mailbox[None]) -> None:
            await serve()

        self._started += 1
        shared.service = f"model:{self._started}"
        self._supervisor.start(Child(shared.service, run, restart=Restart.TRANSIENT, exhausted=Exhausted.GIVE_UP))

    async def _close(self, shared: _Shared) -> None:
        if shared.service:
            with trio.CancelScope(shield=True):
                await self._supervisor.stop(shared.service, grace=CLOSE_TIMEOUT)
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as limit:
            try:
                await shared.provider.aclose()
            except Exception as error:  # an adapter that cannot close must not end what still runs
                logger.error("%s could not be closed", shared.provider.name, exc_info=error)
        if limit.cancelled_caught:
            logger.warning("%s did not close within %g s", shared.provider.name, CLOSE_TIMEOUT)
