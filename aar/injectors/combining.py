"""What several injectors decide together: flags by or, texts by whoever speaks last, and retry beats skip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from aar.injectors.injections import CompactionChange, ErrorChange, RequestChange, ResponseChange

__all__ = ["compaction_of", "error_of", "fitting", "last", "request_of", "response_of"]


def request_of(changes: Iterable[RequestChange]) -> RequestChange:
    """All texts in order, one below the other, each once."""
    given = list(changes)
    texts = dict.fromkeys(one.append_system for one in given if one.append_system)
    reason = last(one.reason or None for one in given if one.skip) or ""
    return RequestChange(append_system="\n\n".join(texts), skip=any(one.skip for one in given), reason=reason)


def response_of(changes: Iterable[ResponseChange]) -> ResponseChange:
    given = list(changes)
    return ResponseChange(
        skip_storing=any(one.skip_storing for one in given), content=last(one.content for one in given)
    )


def error_of(changes: Iterable[ErrorChange]) -> ErrorChange:
    given = list(changes)
    retry = any(one.retry for one in given)
    return ErrorChange(retry=retry, skip=not retry and any(one.skip for one in given))


def compaction_of(changes: Iterable[CompactionChange]) -> CompactionChange:
    return CompactionChange(skip=any(one.skip for one in changes))


def last(given: Iterable[str | None]) -> str | None:
    """The last one that is there."""
    found = None
    for one in given:
        found = found if one is None else one
    return found


def fitting(names: Iterable[str], filters: Iterable[Sequence[str]]) -> list[str]:
    """The tools that every filter lets through: each only narrows."""
    all_of_them = list(filters)
    return [name for name in names if all(any(fnmatchcase(name, one) for one in patterns) for patterns in all_of_them)]
