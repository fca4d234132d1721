"""Making a long conversation short: the model summarises it, and the summary stands for what was said."""

from __future__ import annotations

import trio

from aar.actors.pricing import limiting_price, meta_of
from aar.actors.provider_call import RetryPolicy, provider_call
from aar.actors.workbench import Workbench
from aar.errors import BadProviderReply, SessionError
from aar.journal.context import trim
from aar.messages.events import Compacted
from aar.messages.provider import History, ProviderRequest, ProviderResponse
from aar.providers.base import Provider
from aar.providers.images import fit_images

__all__ = ["compact"]

_ASK = (
    "Summarise our conversation so that you can go on with the work from your summary alone. Name the goal, what was "
    "decided and why, which files were read or changed and how, what is finished, and what remains to be done. "
    "Write only the summary."
)


async def compact(
    bench: Workbench, provider: Provider, stopping: trio.Event, instructions: str, history: History | None = None
) -> Compacted:
    """Record a summary of everything so far. Raises `ProviderError`; then the conversation is as it was.

    `history` is what the summary is made of, when the model cannot take the whole.
    """
    session = bench.journal.session
    if not len(session.transcript):
        raise SessionError("there is nothing to compact yet")
    if bench.injecting is not None and not await bench.injecting.before_compaction(bench):
        raise SessionError("an injector keeps the conversation as it is: it is not compacted")
    up_to, started = session.seq, trio.current_time()
    ask = f"{_ASK}\n\n{instructions}" if instructions else _ASK
    response = await _summary(bench, provider, stopping, ask, history)
    meta = await meta_of(bench, provider, response, (trio.current_time() - started) * 1000)
    if not response.content.strip():
        await bench.journal.append(meta)
        raise BadProviderReply("the model gave an empty summary; the conversation is as it was", provider=provider.name)
    fact = Compacted(up_to_seq=up_to, summary=response.content.strip())
    await bench.journal.append(meta, fact, sync=True, header=True)
    if bench.injecting is not None:
        await bench.injecting.after_compaction(bench, fact)
    return fact


async def _summary(
    bench: Workbench, provider: Provider, stopping: trio.Event, ask: str, history: History | None
) -> ProviderResponse:
    config = bench.config
    if history is None:
        history, _ = trim(bench.journal.session.transcript, config.effective_context_window, config.context_strategy)
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
