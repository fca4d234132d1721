"""Making a long conversation short: the model summarises it, and the summary stands for what was said."""

from __future__ import annotations

import trio

from aar.actors.provider_call import RetryPolicy, provider_call
from aar.actors.workbench import Workbench
from aar.errors import BadProviderReply, SessionError
from aar.messages.events import Compacted
from aar.messages.provider import History, NeutralMessage, ProviderRequest, ProviderResponse
from aar.providers.base import Provider

__all__ = ["compact"]

_ASK = (
    "Summarise our conversation so that you can go on with the work from your summary alone. Name the goal, what was "
    "decided and why, which files were read or changed and how, what is finished, and what remains to be done. "
    "Write only the summary."
)


async def compact(bench: Workbench, provider: Provider, instructions: str) -> Compacted:
    """Record a summary of everything so far. Raises `ProviderError`; then the conversation is as it was."""
    session = bench.journal.session
    if not session.events:
        raise SessionError("there is nothing to compact yet")
    up_to = session.seq
    ask = f"{_ASK}\n\n{instructions}" if instructions else _ASK
    messages: list[NeutralMessage] = [*session.to_messages(), {"role": "user", "content": ask}]
    request = ProviderRequest(
        messages=History(tail=messages), system=await bench.system_prompt(), session_id=bench.session_id
    )
    summary = ""
    policy = RetryPolicy(bench.config.max_retries, trio.Event())
    async with provider_call(provider, request, policy, streaming=False) as items:
        async for item in items:
            if isinstance(item, ProviderResponse):
                summary = item.content.strip()
    if not summary:
        raise BadProviderReply("the model gave an empty summary; the conversation is as it was", provider=provider.name)
    fact = Compacted(up_to_seq=up_to, summary=summary)
    await bench.journal.append(fact, sync=True)
    return fact
