"""Keys, kept out of everything that people and logs get to read."""

from __future__ import annotations

from collections.abc import Iterable

from aar.messages.redaction import without_secrets

__all__ = ["Secrets"]

SHORTEST_KEY = 4  # characters; what is shorter stands in any text by chance
SHORTEST_VALUE = 6


class Secrets:
    """The key of a provider and the values of headers that may hold one."""

    def __init__(self, key: str = "", header_values: Iterable[str] = ()) -> None:
        found = {value for value in header_values if len(value) >= SHORTEST_VALUE}
        if len(key) >= SHORTEST_KEY:
            found.add(key)
        found |= {token for value in found if len(token := value.rpartition(" ")[2]) >= SHORTEST_VALUE}
        self._texts = sorted(found, key=len, reverse=True)  # a long one may hold a short one

    def hide(self, text: str) -> str:
        """`text` with `[redacted]` in place of each of them, also where it was cut in the middle of one."""
        return without_secrets(text, self._texts)

    def hide_in(self, error: BaseException | None) -> None:
        """The same for what an error says, and for those that it came from: a log may tell all of them."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            error.args = tuple(self.hide(part) if isinstance(part, str) else part for part in error.args)
            error = error.__cause__ or error.__context__
