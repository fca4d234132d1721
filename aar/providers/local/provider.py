"""The adapter: waits until the model is loaded, then asks like any client of an OpenAI-style server."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import trio

from aar.errors import InvalidSetting, MissingPackage
from aar.messages.provider import ModelInfo, ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Provider
from aar.providers.generic import GenericProvider, chat_endpoint
from aar.providers.local import llama_server
from aar.providers.local.examples import BRIEF_TEMPLATE, FULL_TEMPLATE, required_only
from aar.providers.local.model_files import DEFAULT_FILE, DEFAULT_MODEL, model_file, models_folder
from aar.providers.local.server import ModelServer, Running

__all__ = ["LocalProvider"]

_log = logging.getLogger(__name__)

CONTEXT_TOKENS = 16_384  # or what the model was trained for, whichever is less
SHORT_ANSWER_TOKENS = 512  # the default model has nothing more to say
START_TIMEOUT = 600.0  # seconds: a large model on a slow disk
LIFE_SIGN_SECONDS = 5.0


class LocalProvider(GenericProvider):
    """Answers from a GGUF file through a server of its own, which lives while `serve` runs.

    `config.model` is a path or the name of a file among Aar's models; a name that nobody chose means the default
    model. `config.extra` may have `n_ctx` (tokens; also `config.context_window`), `threads` (default: one fewer than
    there are cores), `gpu_layers` (default 0) and `start_timeout` (seconds, 0 for no limit).

    Raises `MissingPackage` when `xllamacpp` is not installed, `ProviderError` when there is no such model file, and
    `InvalidSetting` for a setting that cannot be used.
    """

    name = "local"
    default_max_tokens_field = "max_tokens"
    default_first_byte_timeout = 600.0  # a long prompt is read for minutes

    def __init__(
        self,
        config: ProviderConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        program: Sequence[str] | None = None,
    ) -> None:
        """`program` is run instead of the llama.cpp server that comes with Aar."""
        if program is None and importlib.util.find_spec("xllamacpp") is None:
            raise MissingPackage(
                "The provider 'local' needs the package 'xllamacpp': pip install 'aar-agent[local]'", provider=self.name
            )
        self._folder = models_folder(environ)
        self.file = model_file(config.model, self._folder)
        self.is_default_model = self.file.name == DEFAULT_FILE
        label = DEFAULT_MODEL if self.is_default_model else self.file.stem
        super().__init__(config.model_copy(update={"model": label, "base_url": "", "api_key": ""}), environ={})
        self._child = ModelServer(
            # -P: else a script's own folder comes first in the module path, and ours has names that others have too.
            program or (sys.executable, "-P", llama_server.__file__),
            self._order(config),
            start_timeout=_at_least(0, config, "start_timeout", START_TIMEOUT) or None,
        )
        self._is_told = False

    async def serve(self) -> None:
        """Run the model server until cancelled. Whoever opened the provider runs this next to what uses it."""
        await self._child.serve()

    async def models(self) -> tuple[ModelInfo, ...]:
        """The model files in Aar's own folder."""
        files = await trio.to_thread.run_sync(lambda: sorted(self._folder.glob("*.gguf")), abandon_on_cancel=True)
        return tuple(ModelInfo(file.name, abilities=("tools",)) for file in files)

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        return await Provider.complete(self, request)

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        """As `Provider.stream`. A server that died is started again; loading gives a sign of life every 5 s."""
        await self._child.want()
        running = None
        while running is None:
            with trio.move_on_after(LIFE_SIGN_SECONDS):
                running = await self._child.ready()
            if running is None:
                yield StreamDelta()
        self._meet(running)
        async with aclosing(super().stream(self._tailored(request))) as deltas:
            async for delta in deltas:
                yield delta

    def _meet(self, running: Running) -> None:
        self._use(chat_endpoint(running.address), running.api_key)
        if not running.own_template and not self.is_default_model and not self._is_told:
            self._is_told = True
            _log.warning(
                "%s has no chat template that knows tools: it is shown worked examples instead, which may not suit it",
                self.file.name,
            )

    def _tailored(self, request: ProviderRequest) -> ProviderRequest:
        """For the default model: no optional arguments, which it fills in at random, and a short answer."""
        if not self.is_default_model:
            return request
        limit = request.max_tokens or self.config.max_tokens or SHORT_ANSWER_TOKENS
        tools = required_only(request.tools) if request.tools else None
        return replace(request, tools=tools, max_tokens=min(limit, SHORT_ANSWER_TOKENS))

    def _order(self, config: ProviderConfig) -> dict[str, Any]:
        window = config.context_window or CONTEXT_TOKENS
        return {
            "model": str(self.file),
            "alias": self.config.model,
            "n_ctx": int(_at_least(1, config, "n_ctx", window)),
            "threads": int(_at_least(1, config, "threads", max(1, _cores() - 1))),
            "gpu_layers": int(_at_least(0, config, "gpu_layers", 0)),
            "template": BRIEF_TEMPLATE if self.is_default_model else "",
            "fallback_template": FULL_TEMPLATE,
        }


def _cores() -> int:
    """Those that this process may use. All of them at once would spin-wait on each other when others work too."""
    return len(os.sched_getaffinity(0))


def _at_least(least: float, config: ProviderConfig, key: str, default: float) -> float:
    value = config.extra.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        raise InvalidSetting(f"provider.extra.{key} must be a number, {least:g} or more")
    return value
