"""Optional fields of a request that one server wants and another refuses: learned from what they say."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Fields"]

_OTHER_LIMIT = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
_TOO_LARGE = r"(?i)too large|at most"
_UNSUPPORTED = r"(?i)unsupported|not support|unknown|unrecogni[sz]ed|not permitted|not allowed"

# What a server says when it refuses an optional field, tried in this order.
_REFUSALS = {
    "stream_options": r"stream_options",
    "reasoning.summary": r"(?i)reasoning[._ ]summar",
    "include": r"(?i)encrypted content is not supported|'include'",
    "replayed reasoning": (
        r"(?i)encrypted[_ ]content|item with id|reasoning input items|of type 'reasoning'|required 'reasoning'"
    ),
    "prompt_cache_key": r"prompt_cache_key",
}
_NO_IMAGES = (
    r"(?i)image(?: input|_url)? is (?:not|only) supported|not support (?:image|vision|multimodal)|mmproj"
    r"|not a multimodal model|at most 0 image"
)


class Fields(NamedTuple):
    """How requests to one server are put: how the limit on the answer is called, and what is left out.

    `optional` are the fields that may be left out. Not all of them are in every request.
    """

    limit: str
    optional: frozenset[str]
    may_rename: bool = True

    def refused(self, status: int, text: str) -> str:
        """The field that the server complains about, if it may be renamed or left out; else empty."""
        if "images" in self.optional and status in (400, 404, 422, 500, 501) and re.search(_NO_IMAGES, text):
            return "images"
        if status not in (400, 404, 422):
            return ""
        if self.may_rename and status != 404 and self._limit_is_refused(text):
            return self.limit
        for name, pattern in _REFUSALS.items():
            if name in self.optional and re.search(pattern, text):
                return name
        if "temperature" in self.optional and "temperature" in text and re.search(_UNSUPPORTED, text):
            return "temperature"
        return ""

    def without(self, name: str) -> Fields:
        """The same, with `name` left out, or with the other name for the limit; that is changed only once."""
        if name == self.limit:
            return self._replace(limit=_OTHER_LIMIT[name], may_rename=False)
        return self._replace(optional=self.optional - {name})

    def _limit_is_refused(self, text: str) -> bool:
        # Who knows the new name only tells us to take it, so this name stands in both complaints.
        return "max_completion_tokens" in text and not re.search(_TOO_LARGE, text)
