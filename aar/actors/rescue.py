"""What is done about a model call that failed: a shorter conversation, another model, and what injectors want."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import trio

from aar.actors.budget import BudgetTaken
from aar.actors.closing import partial_answer
from aar.actors.compaction import compact_one_of, shorter_forms
from aar.actors.fallback import fall_back
from aar.actors.workbench import Progress, Workbench
from aar.errors import ContentRefused, ContextTooLong, InvalidSetting, ProviderError, SessionError
from aar.messages.events import Compacted, ErrorEvent, Notice, StopReason, TurnStop
from aar.providers.base import Provider, explain

__all__ = ["given_up", "passed_over", "rescue"]

logger = logging.getLogger(__name__)


async def rescue(
    bench: Workbench, model: Callable[[], Provider], error: ProviderError | InvalidSetting, stopping: trio.Event
) -> Literal["retry", "skip", ""]:
    """Try what there is, in this order. `retry`: ask again; `skip`: go on as if nothing had happened."""
    if isinstance(error, ContextTooLong) and await _made_shorter(bench, model(), stopping):
        return "retry"
    if await fall_back(bench, error):
        return "retry"
    if bench.injecting is None or not isinstance(error, ProviderError):
        return ""
    return await bench.injecting.on_error(bench, error)


async def passed_over(bench: Workbench, error: Exception, progress: Progress) -> None:
    """The error is none: an injector has said so."""
    await _record_cut(bench, progress)
    text = f"The model could not be asked ({error}). The turn goes on as if that had not happened."
    await bench.journal.append(Notice(kind="error_skipped", text=text))


async def given_up(bench: Workbench, error: ProviderError, progress: Progress) -> tuple[TurnStop, ErrorEvent]:
    """How the turn ends. What the model had said so far is on record then."""
    await _record_cut(bench, progress)
    data = {"kind": type(error).__name__, "detail": str(error), "provider": error.provider, "status": error.status}
    event = ErrorEvent(message=explain(error), recoverable=error.retryable, data=data)
    return ("refused" if isinstance(error, ContentRefused) else "error"), event


async def _record_cut(bench: Workbench, progress: Progress) -> None:
    cut = partial_answer(progress, StopReason.ERROR)
    if cut:
        await bench.journal.append(*cut)
        progress.restart()


async def _made_shorter(bench: Workbench, provider: Provider, stopping: trio.Event) -> bool:
    """Let the model summarise a conversation that it finds too long, from as much of it as it takes."""
    session = bench.journal.session
    if len(session.transcript) < 2 or _is_fresh_summary(bench):
        return False
    try:
        await compact_one_of(bench, provider, stopping, shorter_forms(session.history()), session.seq)
    except (ProviderError, SessionError, BudgetTaken) as error:
        logger.warning("session %s could not be made shorter: %s", bench.session_id, error)
        return False
    text = "The conversation was too long for the model: a summary stands for it from now on."
    await bench.journal.append(Notice(kind="shortened", text=text))
    return True


def _is_fresh_summary(bench: Workbench) -> bool:
    """Whether nothing was said since the conversation was summarised: it will not get any shorter."""
    for fact in reversed(bench.journal.session.events):
        if not isinstance(fact, Notice):
            return isinstance(fact, Compacted)
    return False
