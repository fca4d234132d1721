"""Making a conversation short before it is too long: when so much of the window is full, all but its newest part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import trio

from aar.actors.budget import BudgetTaken
from aar.actors.compaction import compact_one_of, shorter_forms
from aar.actors.workbench import Workbench
from aar.errors import InvalidSetting, ProviderError, SessionError
from aar.journal.sizes import CHARACTERS_PER_TOKEN
from aar.journal.transcript import Transcript
from aar.messages.events import Notice
from aar.messages.provider import History
from aar.messages.settings import AgentConfig
from aar.providers.base import Provider

__all__ = ["compact_if_due"]

LEAST_SHARE = 0.25  # of the conversation: a summary of less is not worth a call

logger = logging.getLogger(__name__)


async def compact_if_due(bench: Workbench, model: Callable[[], Provider], stopping: trio.Event) -> None:
    """Summarise all but the newest messages, if the conversation takes `compact_at` of the window by now.

    When that fails the conversation stays as it is, and it is not tried again before it has grown by a tenth.
    """
    session, config = bench.journal.session, bench.config
    if not _is_due(session.transcript, config, session.metadata.get("compaction_failed_at", 0)):
        return
    index, up_to = session.transcript.before_newest(config.compact_keep)
    sizes = session.transcript.sizes()
    if sizes.before(index) < sizes.total * LEAST_SHARE:
        return
    try:
        done = await compact_one_of(bench, model(), stopping, _forms(session.transcript, index), up_to)
    except (ProviderError, SessionError, InvalidSetting, BudgetTaken) as error:
        logger.warning("session %s could not be compacted: %s", bench.session_id, error)
        session.metadata["compaction_failed_at"] = sizes.total
        return
    session.metadata.pop("compaction_failed_at", None)
    share = f"{config.compact_at:.0%}"
    text = f"More than {share} of the context window was full: a summary stands for the first {index} messages."
    await bench.journal.append(Notice(kind="compacted", text=text, data={"up_to": done.up_to_seq}))


def _is_due(transcript: Transcript, config: AgentConfig, failed_at: int) -> bool:
    total, window = transcript.sizes().total, config.effective_context_window
    is_full = window > 0 and total // CHARACTERS_PER_TOKEN >= window * config.compact_at
    return is_full and total >= failed_at * 1.1


def _forms(transcript: Transcript, count: int) -> Iterator[History]:
    """The first so many messages, and the same in shorter forms."""
    whole = History(tail=list(transcript.history())[:count])
    yield whole
    yield from shorter_forms(whole)
