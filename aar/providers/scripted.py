"""A provider that plays a script: for tests, benchmarks and demonstrations.

    provider = ScriptedProvider().call("bash", command="ls").text("There are two files.")

Each answer serves one request, streamed or not, in the order in which they were added. `reasoning`, `usage`,
`stop`, `after` and `forever` change the answer added last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import trio

from aar.errors import AnswerCut, ProviderError
from aar.messages.events import ProviderMeta, ReasoningBlock, ToolCall
from aar.messages.provider import ProviderRequest, StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.base import Provider

__all__ = ["ScriptedAnswer", "ScriptedProvider"]


@dataclass(frozen=True)
class ScriptedAnswer:
    """One answer. `delay` is the time before each piece, in seconds; `chunks` how many pieces the text has.

    After the text the answer ends properly, unless `error` is raised or `hangs` keeps it silent for ever.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall | tuple[str, dict[str, Any]], ...] = ()
    stop: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    chunks: int = 1
    delay: float = 0.0
    error: BaseException | None = None
    hangs: bool = False
    gate: trio.Event | None = None


Reply = ScriptedAnswer | str | Callable[[ProviderRequest], "ScriptedAnswer | str"]


class ScriptedProvider(Provider):
    """`requests` holds what was asked, `closed` counts calls of `aclose`, `streaming_now` the open streams."""

    name = "scripted"
    supports_reasoning = True
    supports_structured_output = True
    supports_vision = True

    def __init__(self, config: ProviderConfig | None = None) -> None:
        super().__init__(config or ProviderConfig(name="scripted", model="scripted"))
        self.requests: list[ProviderRequest] = []
        self.closed = 0
        self.streaming_now = 0
        self._script: deque[Reply] = deque()
        self._endless: Reply | None = None
        self._calls_made = 0
        self._arrivals = trio.lowlevel.ParkingLot()

    # --- writing the script -------------------------------------------------------------------

    def reply(self, answer: Reply) -> Self:
        """Add an answer: as an object, as text, or as a function of the request that gives one of the two."""
        self._script.append(answer)
        return self

    def text(self, text: str, *, chunks: int = 1, delay: float = 0.0) -> Self:
        """Add an answer of plain text."""
        return self.reply(ScriptedAnswer(text=text, chunks=chunks, delay=delay))

    def call(self, tool: str, /, **arguments: Any) -> Self:
        """Add an answer that calls one tool."""
        return self.calls((tool, arguments))

    def calls(self, *calls: ToolCall | tuple[str, dict[str, Any]], text: str = "", delay: float = 0.0) -> Self:
        """Add an answer with several calls, given as `(name, arguments)`. Ids are `call_1`, `call_2`, ..."""
        return self.reply(ScriptedAnswer(text=text, calls=calls, delay=delay))

    def error(self, error: BaseException, *, after: str = "") -> Self:
        """Add an answer that fails, perhaps after some text."""
        return self.reply(ScriptedAnswer(text=after, error=error))

    def cut(self, text: str, *, chunks: int = 1) -> Self:
        """Add an answer whose connection ends after `text`."""
        cut = AnswerCut("the connection was closed in the middle of the answer", provider=self.name)
        return self.reply(ScriptedAnswer(text=text, chunks=chunks, error=cut))

    def hang(self, text: str = "", *, chunks: int = 1) -> Self:
        """Add an answer that says `text` and then nothing more."""
        return self.reply(ScriptedAnswer(text=text, chunks=chunks, hangs=True))

    def reasoning(self, text: str) -> Self:
        """The last answer thinks before it speaks."""
        return self._change(reasoning=text)

    def usage(self, input_tokens: int, output_tokens: int, **more: int) -> Self:
        """The last answer reports these tokens."""
        return self._change(usage={"input_tokens": input_tokens, "output_tokens": output_tokens, **more})

    def stop(self, reason: str) -> Self:
        """The last answer ends for this reason."""
        return self._change(stop=reason)

    def after(self, gate: trio.Event) -> Self:
        """The last answer begins once `gate` is set."""
        return self._change(gate=gate)

    def forever(self) -> Self:
        """The last answer serves every further request."""
        self._endless = self._script.pop()
        return self

    def _change(self, **changes: Any) -> Self:
        last = self._script.pop()
        if not isinstance(last, ScriptedAnswer):
            last = ScriptedAnswer(text=last) if isinstance(last, str) else last
        if not isinstance(last, ScriptedAnswer):
            raise TypeError("a function cannot be changed: let it return a ScriptedAnswer with these fields")
        return self.reply(replace(last, **changes))

    # --- playing it ---------------------------------------------------------------------------

    @property
    def remaining(self) -> int:
        """Answers that nobody has asked for yet."""
        return len(self._script)

    async def reached(self, count: int) -> None:
        """Wait until `count` requests have arrived."""
        while len(self.requests) < count:
            await self._arrivals.park()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamDelta, None]:
        answer = self._next_answer(request)
        number = len(self.requests)
        self.streaming_now += 1
        try:
            if answer.gate is not None:
                await answer.gate.wait()
            for delta in self._pieces(answer):
                await trio.sleep(answer.delay)
                yield delta
            await self._end_badly(answer)
            yield self._terminal(answer, number)
        finally:
            self.streaming_now -= 1

    async def aclose(self) -> None:
        self.closed += 1

    def _next_answer(self, request: ProviderRequest) -> ScriptedAnswer:
        self.requests.append(request)
        self._arrivals.unpark_all()
        reply = self._script.popleft() if self._script else self._endless
        if reply is None:
            number = len(self.requests)
            raise ProviderError(
                f"The script is over: it has no answer for request {number}. Add one with text(), call() or reply().",
                provider=self.name,
            )
        if not isinstance(reply, ScriptedAnswer | str):
            reply = reply(request)
        return ScriptedAnswer(text=reply) if isinstance(reply, str) else reply

    def _pieces(self, answer: ScriptedAnswer) -> list[StreamDelta]:
        deltas = [StreamDelta(reasoning_delta=answer.reasoning)] if answer.reasoning else []
        deltas += [StreamDelta(text=piece) for piece in _split(answer.text, answer.chunks)]
        if answer.error is None and not answer.hangs:
            deltas += [StreamDelta(tool_call_delta=self._tool_call(call)) for call in answer.calls]
        return deltas

    def _tool_call(self, call: ToolCall | tuple[str, dict[str, Any]]) -> ToolCall:
        if isinstance(call, ToolCall):
            return call
        self._calls_made += 1
        name, arguments = call
        return ToolCall(tool_name=name, tool_call_id=f"call_{self._calls_made}", arguments=arguments)

    async def _end_badly(self, answer: ScriptedAnswer) -> None:
        if answer.hangs:
            await trio.sleep_forever()
        if answer.error is not None:
            await trio.sleep(answer.delay)
            raise answer.error
        await trio.lowlevel.checkpoint()

    def _terminal(self, answer: ScriptedAnswer, number: int) -> StreamDelta:
        meta = ProviderMeta(
            provider=self.name,
            model=self.config.model,
            usage=answer.usage,
            request_id=f"scripted_{number}",
        )
        stop = answer.stop or ("tool_use" if answer.calls else "end_turn")
        blocks = (ReasoningBlock(content=answer.reasoning),) if answer.reasoning else ()
        return StreamDelta(done=True, stop_reason=stop, meta=meta, reasoning=blocks)


def _split(text: str, chunks: int) -> list[str]:
    """At most `chunks` pieces of nearly the same length, none of them empty."""
    count = max(1, min(chunks, len(text)))
    edges = [len(text) * index // count for index in range(count + 1)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]
