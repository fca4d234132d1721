"""The seam to a model: one class with one generator.

An adapter subclasses `Provider` and writes `stream` or `complete`; the other one follows from it. Adapters
know nothing of sessions or actors: they are written and tested as plain async code. They raise `ProviderError`
and never retry what they have begun to receive; retrying and the limits on silence belong to the caller.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from aar.errors import InvalidSetting
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import Capabilities, ImageLimits, ModelInfo, ProviderRequest, ProviderResponse, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.failures import as_provider_error, ended, error_for_status, explain, is_retryable, timed_out

__all__ = [
    "Assembly",
    "Provider",
    "as_provider_error",
    "error_for_status",
    "ended",
    "explain",
    "is_retryable",
    "replay",
    "timed_out",
]

_log = logging.getLogger(__name__)


class Provider:
    """One model behind one API.

    `first_byte_timeout` and `idle_timeout` are seconds of silence that the caller allows before the first sign
    of life and between two of them; `None` allows any. They come from `config.extra`, where `read_timeout` or
    `timeout` stands for both. `answer_timeout` is for a whole answer that is not streamed, which is silent until it
    is complete. The adapter itself only limits how long connecting may take.

    Raises `InvalidSetting` when one of these is no number of seconds.
    """

    name = ""
    supports_tools = True
    supports_reasoning = False
    supports_streaming = True
    supports_structured_output = False
    supports_vision = False
    supports_audio = False

    image_limits = ImageLimits()
    default_first_byte_timeout: float | None = 120.0
    default_idle_timeout: float | None = 60.0
    default_answer_timeout: float | None = 600.0

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self.first_byte_timeout = _limit(config, "first_byte_timeout", self.default_first_byte_timeout)
        self.idle_timeout = _limit(config, "idle_timeout", self.default_idle_timeout)
        if config.extra.get("supports_vision") is False:
            self.image_limits = ImageLimits(at_most=0)
        self.answer_timeout = _limit(config, "first_byte_timeout", self.default_answer_timeout)

    @property
    def output_limit(self) -> int:
        """Tokens that an answer has at most where its request names no limit; 0 when the settings name none either."""
        return self.config.max_tokens

    def capabilities(self) -> Capabilities:
        return {
            "name": self.name,
            "tools": self.supports_tools,
            "reasoning": self.supports_reasoning,
            "streaming": self.supports_streaming,
            "structured_output": self.supports_structured_output,
            "vision": self.supports_vision,
        }

    async def complete(self, request: ProviderRequest) -> ProviderResponse:
        """The whole answer at once. Raises `ProviderError`."""
        if type(self).stream is Provider.stream:
            raise NotImplementedError(f"{type(self).__name__} must define complete() or stream()")
        assembly = Assembly()
        async with aclosing(self.stream(request)) as deltas:
            async for delta in deltas:
                assembly.add(delta)
        return assembly.response()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        """The answer in pieces, the terminal delta last. Close the generator to drop the connection.

        Raises `ProviderError`. Iterate inside `contextlib.aclosing`.
        """
        response = await self.complete(request)
        for delta in replay(response):
            yield delta

    async def models(self) -> tuple[ModelInfo, ...]:
        """The models that may be asked for here; empty when the provider cannot tell. Raises `ProviderError`."""
        return ()

    async def aclose(self) -> None:
        """Give back connections. May be called more than once; the provider opens new ones when used again."""


class Assembly:
    """Puts the deltas of one stream together again."""

    def __init__(self) -> None:
        self.is_done = False
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._resumed: list[tuple[int, int]] = []  # where thinking went on behind text: pieces of each until then
        self._calls: list[ToolCall] = []
        self._blocks: tuple[ReasoningBlock, ...] = ()
        self._stop_reason = ""
        self._meta: ProviderMeta | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, delta: StreamDelta) -> None:
        """Take one delta. Whatever comes after the terminal one is ignored."""
        if self.is_done:
            return
        if delta.reasoning_delta:  # before text that came with it
            if self._text and (not self._resumed or self._resumed[-1][1] != len(self._text)):
                self._resumed.append((len(self._thoughts), len(self._text)))
            self._thoughts.append(delta.reasoning_delta)
        if delta.text:
            self._text.append(delta.text)
        if delta.tool_call_delta is not None:
            self._calls.append(delta.tool_call_delta)
        if delta.done:
            self.is_done = True
            self._stop_reason = delta.stop_reason
            self._meta = delta.meta
            self._blocks = delta.reasoning

    def response(self) -> ProviderResponse:
        """The answer. Without a stop reason from the server it is `tool_use` or `end_turn`, as the calls say."""
        if not self.is_done:
            _log.warning("The stream ended without a terminal delta")
        return ProviderResponse(
            content=self.text,
            tool_calls=tuple(self._calls),
            stop_reason=self._stop_reason or ("tool_use" if self._calls else "end_turn"),
            reasoning=self._in_order(self._blocks or self._one_block()),
            meta=self._meta,
        )

    def _one_block(self) -> tuple[ReasoningBlock, ...]:
        thought = "".join(self._thoughts)
        return (ReasoningBlock(content=thought),) if thought else ()

    def _in_order(self, blocks: tuple[ReasoningBlock, ...]) -> tuple[ReasoningBlock, ...]:
        """One thought that text came in between is several; each says how much text there was before it.

        What an adapter divides or wants to see again stays as it is.
        """
        if not self._resumed or len(blocks) != 1 or "replay" in blocks[0].data:
            return blocks
        if blocks[0].content.strip() != "".join(self._thoughts).strip():
            return blocks
        begins = [(0, 0), *self._resumed]
        ends = [*(thought for thought, _ in self._resumed), len(self._thoughts)]
        divided = []
        for (thought, text), end in zip(begins, ends, strict=True):
            content = "".join(self._thoughts[thought:end]).strip()
            before = len("".join(self._text[:text]))
            if content:
                data = {**blocks[0].data, **({"text_before": before} if before else {})}
                divided.append(ReasoningBlock(content=content, data=data))
        return tuple(divided)


def replay(response: ProviderResponse) -> list[StreamDelta]:
    """The deltas that assemble to `response`."""
    deltas = [StreamDelta(text=response.content)] if response.content else []
    deltas += [StreamDelta(reasoning_delta=block.content) for block in response.reasoning if block.content]
    deltas += [StreamDelta(tool_call_delta=call) for call in response.tool_calls]
    last = StreamDelta(
        done=True,
        stop_reason=response.stop_reason,
        meta=response.meta,
        reasoning=response.reasoning,
    )
    return [*deltas, last]


def _limit(config: ProviderConfig, name: str, default: float | None) -> float | None:
    for key in (name, "read_timeout", "timeout"):
        if key in config.extra:
            return _seconds(config.extra[key], key)
    return default


def _seconds(value: Any, key: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidSetting(f"provider.extra.{key} must be a number of seconds, or 0 or null for no limit")
    return float(value) or None
