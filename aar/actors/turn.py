"""A turn: from one prompt until the agent stops. Straight-line code, from here to the bottom of the file.

Context, model, tools, and again. Whatever happens is a fact in the journal; the way the turn ended is the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import trio

from aar.actors.budget import BudgetTaken
from aar.actors.closing import as_event
from aar.actors.guardrails import Guardrails
from aar.actors.pricing import limiting_price, meta_of
from aar.actors.provider_call import RetryPolicy, provider_call
from aar.actors.workbench import Progress, Workbench, guarded, heard
from aar.errors import InvalidSetting, ProviderError, StoreError
from aar.journal.context import trim
from aar.messages.base import new_call_id
from aar.messages.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    Notice,
    StepRestarted,
    StopReason,
    StreamChunk,
    ToolCall,
    TurnStop,
    UserMessage,
)
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.messages.settings import AgentConfig
from aar.providers.base import Provider
from aar.usage import budget_error

if TYPE_CHECKING:
    from aar.actors.between import Between

__all__ = ["CANCELLED", "Controls", "run_turn"]

CANCELLED = "Agent cancelled"
_REFUSALS = ("refusal", "content_filter", "refused", "safety")

logger = logging.getLogger(__name__)


@dataclass
class Controls:
    """What reaches a running turn from outside. `stopping` is the soft cancel: finish the step, then stop."""

    stopping: trio.Event = field(default_factory=trio.Event)
    steering: list[UserMessage] = field(default_factory=list)
    follow_ups: list[UserMessage] = field(default_factory=list)


class _Ending(NamedTuple):
    stop: TurnStop
    error: ErrorEvent | None = None

    @classmethod
    def failed(cls, stop: TurnStop, message: str, *, recoverable: bool = False) -> _Ending:
        return cls(stop, ErrorEvent(message=message, recoverable=recoverable))


_AGAIN = _Ending("error")  # no end at all: the model is asked once more


async def run_turn(
    bench: Workbench, provider: Callable[[], Provider], controls: Controls, progress: Progress
) -> TurnStop:
    """Run steps until the turn is over, and say how. Everything but `turn_ended` is on record then.

    `provider` is asked at each step, so that a change of the model holds from the next one on.
    """
    guard = Guardrails.for_turn(bench.journal.session.metadata)
    steps = 0
    if bench.injecting is not None:
        bench.injecting.begin_turn(bench.journal.session.turn_id)
    await bench.servers.ready()
    while True:
        config = bench.config
        if controls.stopping.is_set():
            ending: _Ending | None = _Ending.failed("cancelled", CANCELLED)
        elif steps >= (config.max_steps if bench.injecting is None else bench.injecting.most_steps(config)):
            ending = _Ending.failed("max_steps", f"Reached max steps ({config.max_steps})")
        else:
            steps += 1
            if config.compact_at:
                await _compact(bench, provider, controls)
            ending = await _step(bench, provider, controls, progress, guard)
        if ending is not None:
            if ending.error is not None:
                await bench.journal.append(ending.error)
            return ending.stop


async def _step(
    bench: Workbench, model: Callable[[], Provider], controls: Controls, progress: Progress, guard: Guardrails
) -> _Ending | None:
    """One model call and the tool calls it leads to. `None`: the turn goes on."""
    await _say(bench, controls.steering)
    if bench.between is not None or bench.injecting is not None:
        ending = await _begin(bench, controls)
        if ending is not None:
            return ending
    while True:
        progress.restart()
        started = trio.current_time()
        try:
            provider = model()
            response = await _ask_model(bench, provider, controls, progress)
            break
        except BudgetTaken as taken:
            return _Ending.failed("budget_exceeded", str(taken))
        except (ProviderError, InvalidSetting) as error:
            failed = await _failed(bench, model, error, controls, progress)
            if failed is not _AGAIN:
                return failed
            bench.journal.hint(StepRestarted())
    milliseconds = (trio.current_time() - started) * 1000
    if bench.injecting is not None:
        response = await bench.injecting.after_response(bench, response)
    recorded = await _record_answer(bench, provider, response, guard, milliseconds)
    progress.restart()
    if isinstance(recorded, _Ending):
        return recorded
    if recorded:
        await _run_tools(bench, recorded, progress)
        return _Ending("end_turn") if progress.is_last and bench.between is None else None
    return await _stop_or_go_on(bench, response, controls, guard)


async def _compact(bench: Workbench, provider: Callable[[], Provider], controls: Controls) -> None:
    from aar.actors.auto_compaction import compact_if_due  # most sessions never are

    await compact_if_due(bench, provider, controls.stopping)


async def _begin(bench: Workbench, controls: Controls) -> _Ending | None:
    """Who has a word to say before each step, and may end the turn."""
    if bench.between is not None:
        ending = await _hand_over(bench, bench.between, controls)
        if ending is not None:
            return ending
    if bench.injecting is not None:
        change = await bench.injecting.before_chat(bench)
        if change.skip:
            return _Ending.failed("error", change.reason) if change.reason else _Ending("end_turn")
    return _Ending.failed("cancelled", CANCELLED) if controls.stopping.is_set() else None


async def _hand_over(bench: Workbench, between: Between, controls: Controls) -> _Ending | None:
    """Who drives the session speaks before each of its steps, and may end the turn."""
    from aar.actors.stepping import begin_step  # most sessions have nobody between their steps

    try:
        goes_on = await begin_step(bench, between, controls.stopping)
    except StoreError as error:
        return _Ending("error", as_event(error))
    if controls.stopping.is_set():
        return _Ending.failed("cancelled", CANCELLED)
    return None if goes_on else _Ending("end_turn")


# --- the model --------------------------------------------------------------------------------


async def _ask_model(bench: Workbench, provider: Provider, controls: Controls, progress: Progress) -> ProviderResponse:
    config = bench.config
    request = await _request(bench, provider, config)
    price = await limiting_price(bench, provider)
    with bench.budget.reserve(config, request, price, provider.output_limit) as limited:
        response = await _answer(bench, provider, limited, controls, progress)
    for hook in bench.hooks.after_provider_call:
        await guarded(bench, "after_provider_call", hook, response)
    return response


async def _answer(
    bench: Workbench, provider: Provider, request: ProviderRequest, controls: Controls, progress: Progress
) -> ProviderResponse:
    policy = RetryPolicy(bench.config.max_retries, controls.stopping)
    response: ProviderResponse | None = None
    async with provider_call(provider, request, policy, streaming=bench.config.streaming) as items:
        async for item in items:
            match item:
                case StreamChunk():
                    progress.text += item.text
                    progress.thoughts += item.reasoning_text
                    progress.is_streaming = not item.finished
                    bench.journal.hint(item)
                    await bench.journal.room()
                case StepRestarted():
                    progress.restart()
                    bench.journal.hint(item)
                case Notice():
                    await bench.journal.append(item)
                case ProviderResponse():
                    response = item
    assert response is not None  # the worker raises when it has none
    return response


async def _request(bench: Workbench, provider: Provider, config: AgentConfig) -> ProviderRequest:
    session = bench.journal.session
    history, dropped = trim(session.transcript, config.effective_context_window, config.context_strategy)
    if dropped > session.metadata.get("trimmed", 0):
        session.metadata["trimmed"] = dropped
        text = f"The conversation is longer than the context window: the oldest {dropped} messages are not sent."
        await bench.journal.append(Notice(kind="trimmed", text=text, data={"dropped": dropped}))
    history, lost = await _fitting(bench, provider, history)
    request = ProviderRequest(
        messages=history,
        system=await bench.system_prompt(),
        tools=bench.offered.schemas() or None,
        session_id=bench.session_id,
    )
    if bench.injecting is not None:
        request = await bench.injecting.into(bench, request)
    for hook in bench.hooks.before_provider_call:
        request = await guarded(bench, "before_provider_call", hook, request) or request
    if request.messages is not history:  # what is said in this call alone has to fit, too
        messages, more = await _fitting(bench, provider, request.messages)
        lost = more if messages.kept is history.kept else (*lost, *more)  # of the same conversation, or of another
        request = replace(request, messages=messages)
    await _tell_of_images(bench, provider, list(lost))
    return request


async def _fitting(bench: Workbench, provider: Provider, history: History) -> tuple[History, tuple[str, ...]]:
    """The history with images as the provider takes them, and why some are lost."""
    if not history.messages_with_images():
        return history, ()
    from aar.providers.images import fit_images  # with the first image

    fitted, lost = await fit_images(history, provider.image_limits, bench.threads)
    return fitted, lost.reasons


async def _tell_of_images(bench: Workbench, provider: Provider, reasons: list[str]) -> None:
    """Once, until there are other reasons."""
    told = bench.journal.session.metadata
    if reasons and reasons != told.get("images_left_out"):
        told["images_left_out"] = reasons
        text = f"Not all images are sent to {provider.config.label}: {'; '.join(reasons)}."
        await bench.journal.append(Notice(kind="images", text=text, data={"reasons": reasons}))


async def _failed(
    bench: Workbench,
    model: Callable[[], Provider],
    error: ProviderError | InvalidSetting,
    controls: Controls,
    progress: Progress,
) -> _Ending | None:
    """No answer. `_AGAIN`: something is to be asked once more, perhaps something shorter, or another model."""
    from aar.actors.rescue import given_up, passed_over, rescue  # most calls go well

    match "" if controls.stopping.is_set() else await rescue(bench, model, error, controls.stopping):
        case "retry":
            return _AGAIN
        case "skip":
            await passed_over(bench, error, progress)
            return None if bench.injecting is not None and bench.injecting.wants_more() else _Ending("end_turn")
    if not isinstance(error, ProviderError):
        raise error
    ending = _Ending(*await given_up(bench, error, progress))
    return _Ending.failed("cancelled", CANCELLED) if controls.stopping.is_set() else ending


# --- what it said -----------------------------------------------------------------------------


async def _record_answer(
    bench: Workbench, provider: Provider, response: ProviderResponse, guard: Guardrails, milliseconds: float
) -> _Ending | list[ToolCall]:
    """Put an answer on record. Answers with the calls to run, under their names, unless the turn ends here."""
    config, session = bench.config, bench.journal.session
    meta = await meta_of(bench, provider, response, milliseconds)
    tokens = session.total_tokens + meta.usage.get("input_tokens", 0) + meta.usage.get("output_tokens", 0)
    dollars = session.total_cost + meta.data["cost"]
    facts: list[Event] = [meta, *response.reasoning]
    over = budget_error(tokens, dollars, config)
    if over is not None:
        await bench.journal.append(*facts)
        return _Ending.failed("budget_exceeded", over)
    warning = guard.budget_warning(tokens, dollars, config)
    if warning is not None:
        logger.warning("session %s is near its budget", bench.session_id)
        facts.append(warning)
    calls = _named(bench, response.tool_calls)
    if calls and (stuck := guard.stuck(calls, config, bench.toolbox, session.step_count)):
        logger.warning("session %s: %s", bench.session_id, stuck)
        if response.content:
            facts.append(AssistantMessage(content=response.content, stop_reason=StopReason.ERROR))
        await bench.journal.append(*facts)
        return _Ending.failed("error", stuck)
    stop = StopReason.TOOL_USE if calls else _parsed(response.stop_reason)
    facts += [*calls, AssistantMessage(content=response.content, stop_reason=stop)]
    logger.info(
        "step=%d provider_ms=%.0f tool_calls=%d",
        session.step_count + 1,
        milliseconds,
        len(calls),
        extra={"session_id": session.session_id, "trace_id": session.trace_id},
    )
    if calls and not bench.hooks.before_tool_call and bench.injecting is None:  # a hook may look at the session
        bench.journal.hold(*facts)  # for a moment: until the first of the calls starts, or has to wait for something
    else:
        await bench.journal.append(*facts)
    return calls


def _named(bench: Workbench, calls: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls with ids that are unique in the session (models repeat them) and the effects of their tools."""
    known = bench.journal.session.transcript.known_call_ids
    taken: set[str] = set()
    named: list[ToolCall] = []
    for call in calls:
        changes: dict[str, object] = {}
        if call.tool_call_id in known or call.tool_call_id in taken:
            changes["tool_call_id"] = new_call_id()
        spec = bench.offered.get(call.tool_name)
        if spec is not None:
            changes["data"] = {**call.data, "side_effects": [str(effect) for effect in spec.side_effects]}
        named.append(call.model_copy(update=changes))
        taken.add(named[-1].tool_call_id)
    return named


def _parsed(stop_reason: str) -> StopReason:
    if stop_reason in _REFUSALS:
        return StopReason.ERROR
    try:
        return StopReason(stop_reason)
    except ValueError:
        return StopReason.END_TURN


async def _stop_or_go_on(
    bench: Workbench, response: ProviderResponse, controls: Controls, guard: Guardrails
) -> _Ending | None:
    stop = _parsed(response.stop_reason)
    if stop is StopReason.ERROR:
        refused = response.stop_reason in _REFUSALS
        text = "The provider refused to answer this." if refused else "The provider stopped its answer with an error."
        return _Ending.failed("refused" if refused else "error", text)
    if stop is StopReason.MAX_TOKENS:
        again = guard.recover(bench.config)
        if again is not None:
            await bench.journal.append(again)
            return None
    if controls.steering or (bench.between is not None and bench.between.has_more(bench.journal.session.turn_id)):
        return None
    if bench.injecting is not None and bench.injecting.wants_more():
        return None
    if controls.follow_ups:
        await _say(bench, controls.follow_ups, at_most=1)
        return None
    return _Ending("max_tokens" if stop is StopReason.MAX_TOKENS else "end_turn")


# --- tools ------------------------------------------------------------------------------------


async def _run_tools(bench: Workbench, calls: Sequence[ToolCall], progress: Progress) -> None:
    from aar.actors.tool_executor import run_calls  # with the first call: policy and tools are a tenth of a start

    await run_calls(bench, calls, progress)


# --- what people say meanwhile ----------------------------------------------------------------


async def _say(bench: Workbench, queue: list[UserMessage], *, at_most: int | None = None) -> None:
    count = len(queue) if at_most is None else min(at_most, len(queue))
    if count:
        said, queue[:count] = queue[:count], []
        try:
            await bench.journal.append(*[await heard(bench, one) for one in said])
        except BaseException:
            queue[:0] = said  # not on record: the next turn says it
            raise
