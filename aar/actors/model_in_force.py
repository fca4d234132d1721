"""Which model a session uses at this moment."""

from __future__ import annotations

from aar.actors.providers import Providers
from aar.actors.workbench import Workbench
from aar.errors import AarError, InvalidSetting
from aar.messages.settings import ProviderConfig
from aar.providers.base import Provider

__all__ = ["ModelInForce"]


class ModelInForce:
    """The provider that the settings in force ask for, acquired when they change."""

    def __init__(self, bench: Workbench, providers: Providers, given: Provider | None, given_for: str) -> None:
        self._bench = bench
        self._providers = providers
        self._given = given
        self._given_for = given_for
        self._provider: Provider | None = None
        self._config: ProviderConfig | None = None

    def in_force(self) -> Provider:
        """Raises `InvalidSetting` for a provider that there is none of."""
        try:
            config = self._bench.config.resolve_provider()
            if self._given is not None and config.label == self._given_for:
                return self._given
            if self._provider is None or self._config != config:
                provider = self._providers.acquire(config)
                self.release()
                self._provider, self._config = provider, config
        except ValueError as error:
            if isinstance(error, AarError):
                raise
            raise InvalidSetting(str(error)) from error
        return self._provider

    def release(self) -> None:
        if self._provider is not None:
            self._providers.release(self._provider)
            self._provider = None
