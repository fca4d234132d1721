"""Making a long conversation short: the model summarises it, and the summary stands for what was said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import trio

from aar.actors.pricing import limiting_price, meta_of
from aar.actors.provider_call import RetryPolicy, provider_call
from aar.actors.workbench import Workbench
from aar.errors import BadProviderReply, ContextTooLong, SessionError
from aar.journal.context import trim, trim_messages
from aar.journal.sizes import estimate_token_count
from aar.journal.views import without_long_results
from aar.messages.events import Compacted, Event
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.messages.todos import rendered, todos_of
from aar.providers.base import Provider
from aar.providers.images import fit_images

__all__ = ["compact", "compact_one_of", "shorter_forms"]

RESULTS = (200, 150, 100, 50, 0)  # characters of each tool result that a summary is made of, one try after the other
SHARES = (2, 4)  # and then only the newest half of the conversation, and the newest quarter

_ASK = (
    "Summarise our conversation so that you can go on with the work from your summary alone. Name the goal, what was "
    "decided and why, which files were read or changed and how, what is finished, and what remains to be done. "
    "Write only the summary."
)


async def compact(bench: Workbench, provider: Provider, stopping: trio.Event, instructions: str) -> Compacted:
    """Record a summary of everything so far. Raises `ProviderError`; then the conversation is as it was."""
    session, config = bench.journal.session, bench.config
    if not len(session.transcript):
        raise SessionError("there is nothing to compact yet")
    history, _ = trim(session.transcript, config.effective_context_window, config.context_strategy)
    return await compact_one_of(bench, provider, stopping, [history], session.seq, instructions)


async def compact_one_of(
    bench: Workbench,
    provider: Provider,
    stopping: trio.Event,
    forms: Iterable[History],
    up_to: int,
    instructions: str = "",
) -> Compacted:
    """The same for everything up to the fact `up_to`, made of the first of these forms that the model takes."""
    if bench.injecting is not None and not await bench.injecting.before_compaction(bench):
        raise SessionError("an injector keeps the conversation as it is: it is not compacted")
    started = trio.current_time()
    ask = f"{_ASK}\n\n{instructions}" if instructions else _ASK
    response = await _first_summary(bench, provider, stopping, ask, forms)
    meta = await meta_of(bench, provider, response, (trio.current_time() - started) * 1000)
    if not response.content.strip():
        await bench.journal.append(meta)
        raise BadProviderReply("the model gave an empty summary; the conversation is as it was", provider=provider.name)
    fact = Compacted(up_to_seq=up_to, summary=response.content.strip() + _todos(bench.journal.session.events))
    await bench.journal.append(meta, fact, sync=True, header=True)
    if bench.injecting is not None:
        await bench.injecting.after_compaction(bench, fact)
    return fact


def _todos(facts: Sequence[Event]) -> str:
    """The list of what is to be done, as it is: no model has to remember it."""
    todos = todos_of(facts)
    return f"\n\nThe list of what is to be done:\n{rendered(todos)}" if todos else ""


def shorter_forms(history: History) -> Iterator[History]:
    """A conversation in ever shorter forms; those that change nothing are left out."""
    messages = list(history)
    before = estimate_token_count(messages) + 1
    for longest in RESULTS:
        cut = without_long_results(messages, longest)
        if estimate_token_count(cut) < before:
            before = estimate_token_count(cut)
            yield History(tail=cut)
    barest = without_long_results(messages, 0)
    for share in SHARES:
        newest, dropped = trim_messages(barest, max(1, estimate_token_count(barest) // share))
        if dropped:
            yield History(tail=newest)


async def _first_summary(
    bench: Workbench, provider: Provider, stopping: trio.Event, ask: str, forms: Iterable[History]
) -> ProviderResponse:
    too_long = ContextTooLong("the conversation is too long to be summarised", provider=provider.name)
    for history in forms:
        try:
            return await _summary(bench, provider, stopping, ask, history)
        except ContextTooLong as error:
            too_long = error
    raise too_long


async def _summary(
    bench: Workbench, provider: Provider, stopping: trio.Event, ask: str, history: History
) -> ProviderResponse:
    config = bench.config
    history, _ = await fit_images(history, provider.image_limits, bench.threads)
    messages = history.followed_by({"role": "user", "content": ask})
    request = ProviderRequest(messages=messages, system=await bench.system_prompt(), session_id=bench.session_id)
    policy = RetryPolicy(config.max_retries, stopping)
    price = await limiting_price(bench, provider)
    with bench.budget.reserve(config, request, price, provider.output_limit) as limited:
        async with provider_call(provider, limited, policy, streaming=False) as items:
            async for item in items:
                if isinstance(item, ProviderResponse):
                    return item
    raise BadProviderReply("the model gave no summary", provider=provider.name)
