"""Keeping the files as they are before a turn, for sessions whose settings say so."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from aar.actors.workbench import Workbench
from aar.errors import AarError
from aar.journal.revision import SNAPSHOT
from aar.messages.events import Event, Notice

__all__ = ["files_before"]

_TOLD = "snapshots_failed"

logger = logging.getLogger(__name__)


async def files_before(bench: Workbench, kept: MutableMapping[str, Any]) -> list[Event]:
    """Note in `kept` under which name the files are kept; where they cannot be, give a notice, the first time."""
    try:
        kept[SNAPSHOT] = await bench.snapshots.take(bench.session_id)
    except (AarError, OSError) as error:
        logger.warning("session %s: no snapshot: %s", bench.session_id, error)
        told = bench.journal.session.metadata
        if told.get(_TOLD) == str(error):
            return []
        told[_TOLD] = str(error)
        return [Notice(kind="snapshot", text=f"The files of this turn cannot be brought back: {error}")]
    return []
