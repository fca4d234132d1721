"""What goes to a model and what comes back, in no vendor's words."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.tools import ToolSchema

__all__ = [
    "Capabilities",
    "History",
    "ImageLimits",
    "ModelInfo",
    "NeutralMessage",
    "ProviderRequest",
    "ProviderResponse",
    "StreamDelta",
    "Usage",
    "has_images",
]


class NeutralMessage(TypedDict):
    """`content` is text or a list of blocks.

    Blocks: those of `messages/content.py`, `tool_use {type, id, name, input}`,
    `tool_result {type, tool_use_id, content, is_error}`, and `reasoning {type, text, data}`, which only the
    provider that gave it may send again (it names itself in `data.provider`).
    """

    role: str
    content: str | list[dict[str, Any]]


class Capabilities(TypedDict):
    name: str
    tools: bool
    reasoning: bool
    streaming: bool
    structured_output: bool
    vision: bool


class ModelInfo(NamedTuple):
    """A model that a provider offers. `None` and an empty `abilities` mean that the provider does not tell.

    `context_window` and `max_output` are tokens; `abilities` are words such as `tools`, `vision`, `thinking`.
    """

    name: str
    context_window: int | None = None
    max_output: int | None = None
    abilities: tuple[str, ...] = ()


class ImageLimits(NamedTuple):
    """What one request may carry. `None` is no limit.

    `at_most` is images in all; `bytes_each` and `bytes_total` count the encoded text (base64); `side` is the longest
    side in pixels, and `side_of_many` the longest when there are more than `many` images.
    """

    at_most: int | None = None
    bytes_each: int | None = None
    bytes_total: int | None = None
    side: int | None = None
    many: int | None = None
    side_of_many: int | None = None
    formats: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Usage(NamedTuple):
    """Tokens of one model call. `input_tokens` as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    @classmethod
    def of(cls, usage: dict[str, int]) -> "Usage":
        """From a usage map; knows the aliases that vendors use. Values that are no whole number count as 0."""

        def first(*names: str) -> int:
            for name in names:
                value = usage.get(name)
                if isinstance(value, int) and not isinstance(value, bool):
                    return max(value, 0)
            return 0

        return cls(
            input_tokens=first("input_tokens", "prompt_tokens"),
            output_tokens=first("output_tokens", "completion_tokens"),
            cache_read_tokens=first("cache_read_tokens", "cache_read_input_tokens"),
            cache_write_tokens=first("cache_write_tokens", "cache_creation_input_tokens"),
        )

    def to_dict(self) -> dict[str, int]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
        }


def has_images(message: NeutralMessage) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any(block.get("type") == "image_url" for block in content)


CODECS_KEPT = 2  # a step may ask in two forms; a third is another provider's


class History(Sequence[NeutralMessage]):
    """The messages of a request, oldest first: a growing settled part and a short tail.

    An adapter encodes through `encoded`, which keeps the bytes of every settled message for the adapters that were
    used last, so that a long session costs one join per request and not one walk. Messages must never be changed in
    place; `replacing` makes a history with others in the place of some.
    """

    __slots__ = ("_cache", "_instead", "_lead", "_settled", "_start", "_stop", "_tail", "_with_images", "kept")

    def __init__(
        self,
        settled: list[NeutralMessage] | None = None,
        tail: Sequence[NeutralMessage] = (),
        *,
        lead: Sequence[NeutralMessage] = (),
        start: int = 0,
        cache: dict[str, list[bytes | None]] | None = None,
        with_images: Sequence[int] = (),
        kept: dict[Any, Any] | None = None,
    ) -> None:
        """`with_images` are the settled messages that hold images, in order. `kept` is for what was worked out about
        messages and holds for later requests, too.
        """
        self._settled = settled if settled is not None else []
        self._start = min(start, len(self._settled))
        self._stop = len(self._settled)
        self._lead = tuple(lead)
        self._tail = tuple(tail)
        self._cache: dict[str, list[bytes | None]] = cache if cache is not None else {}
        self._with_images = with_images
        self._instead: dict[int, NeutralMessage] = {}
        self.kept: dict[Any, Any] = kept if kept is not None else {}

    def __len__(self) -> int:
        return len(self._lead) + self._stop - self._start + len(self._tail)

    def __iter__(self) -> Iterator[NeutralMessage]:
        yield from self._leading()
        for index in range(self._start, self._stop):
            yield self._instead.get(index) or self._settled[index]
        yield from self._trailing()

    def __reversed__(self) -> Iterator[NeutralMessage]:
        yield from reversed(list(self._trailing()))
        for index in range(self._stop - 1, self._start - 1, -1):
            yield self._instead.get(index) or self._settled[index]
        yield from reversed(list(self._leading()))

    def messages_with_images(self) -> dict[int, NeutralMessage]:
        """The messages that hold images by their places, oldest first; those of the lead have negative ones.

        What is in the place of one by now is not among them.
        """
        lead = {at - len(self._lead): message for at, message in enumerate(self._lead) if has_images(message)}
        first = bisect_left(self._with_images, self._start)
        settled = {index: self._settled[index] for index in self._with_images[first:] if index < self._stop}
        tail = {at: message for at, message in enumerate(self._tail, self._stop) if has_images(message)}
        return lead | settled | tail

    def is_passing(self, place: int) -> bool:
        """Whether this is a place of the tail, where the next request may have another message."""
        return place >= self._stop

    def replacing(self, messages: dict[int, NeutralMessage]) -> "History":
        """This history with other messages in these places. What replaces a message should be one object each time."""
        other = History(
            self._settled,
            self._tail,
            lead=self._lead,
            start=self._start,
            cache=self._cache,
            with_images=self._with_images,
            kept=self.kept,
        )
        other._stop = self._stop
        other._instead = {**self._instead, **messages}
        return other

    def followed_by(self, message: NeutralMessage) -> "History":
        """This history with one more message at its end, which belongs to one request only."""
        other = self.replacing({})
        other._tail = (*self._tail, message)
        return other

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def encoded(self, codec: str, encode: Callable[[NeutralMessage], bytes]) -> list[bytes]:
        """`encode(message)` for each message, in order; settled ones are encoded once per `codec`.

        `encode` must depend on its message alone. Empty bytes mean that a message has no wire form and are left
        out. One neutral message may become several wire messages: the bytes are then joined by commas.
        """
        kept = self._kept_bytes(codec)
        if self._start < self._stop and None in kept[self._start : self._stop]:
            for index in range(self._start, self._stop):
                if kept[index] is None and index not in self._instead:
                    kept[index] = encode(self._settled[index])
        pieces = kept[self._start : self._stop]
        for index, message in self._instead.items():
            if self._start <= index < self._stop:
                pieces[index - self._start] = self._encoded_once(codec, message, encode)
        settled = [piece for piece in pieces if piece]
        lead = [encode(message) for message in self._leading()]
        tail = [encode(message) for message in self._trailing()]
        return [piece for piece in lead if piece] + settled + [piece for piece in tail if piece]

    def forget(self, old: object) -> None:
        """Let go of what was worked out from `old`, and of what was worked out from that."""
        for key, value in list(self.kept.items()):
            if isinstance(value, tuple) and value[0] is old and self.kept.pop(key, None) is not None:
                self.forget(value[1])

    def _kept_bytes(self, codec: str) -> list[bytes | None]:
        """Those of one adapter. Of adapters that are not in use any more they are let go: they may be many."""
        kept = self._cache[codec] = self._cache.pop(codec, [])
        while len(self._cache) > CODECS_KEPT:
            oldest = next(iter(self._cache))
            del self._cache[oldest]
            for key in [key for key in self.kept if key[0] == oldest]:
                del self.kept[key]
        kept.extend([None] * (self._stop - len(kept)))
        return kept

    def _leading(self) -> Iterator[NeutralMessage]:
        for at, message in enumerate(self._lead, -len(self._lead)):
            yield self._instead.get(at) or message

    def _trailing(self) -> Iterator[NeutralMessage]:
        for at, message in enumerate(self._tail, self._stop):
            yield self._instead.get(at) or message

    def _encoded_once(self, codec: str, message: NeutralMessage, encode: Callable[[NeutralMessage], bytes]) -> bytes:
        key = (codec, id(message))
        if key not in self.kept:
            self.kept[key] = (message, encode(message))  # with the message: its id must stay its own
        encoded: bytes = self.kept[key][1]
        return encoded


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One model call. Settings such as the model are the provider's own; this is what changes per call.

    `tools` is `None` when there are none; `session_id` may be used for cache routing. An answer with all that is
    thought for it has at most `max_tokens`, whatever the settings of the provider say; `None` leaves it to them.
    """

    messages: History
    system: str = ""
    tools: tuple[ToolSchema, ...] | None = None
    session_id: str = ""
    max_tokens: int | None = None


class StreamDelta(NamedTuple):
    """A piece of a streamed answer.

    `tool_call_delta` is a whole call, never a fragment. The terminal delta has `done`, the stop reason, and, when
    the server told them, `meta` and reasoning blocks with what must be sent again. A delta with nothing in it is
    a sign of life: the server is there and has nothing to say yet.
    """

    text: str = ""
    reasoning_delta: str = ""
    tool_call_delta: ToolCall | None = None
    done: bool = False
    stop_reason: str = ""
    meta: ProviderMeta | None = None
    reasoning: tuple[ReasoningBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """A whole answer. `stop_reason` is a `StopReason` value, or the provider's own word."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str = "end_turn"
    reasoning: tuple[ReasoningBlock, ...] = ()
    meta: ProviderMeta | None = None
    extra: dict[str, Any] = field(default_factory=dict)
