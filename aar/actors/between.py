"""Who drives a session step by step, as its turns see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from aar.messages.events import UserMessage

__all__ = ["Between"]


class Between(Protocol):
    """Who drives the session. All of it is about the turn with this id, which may be somebody else's."""

    def has_more(self, turn_id: str) -> bool:
        """Whether the turn goes on although the model has stopped."""

    async def said(self, turn_id: str) -> Sequence[UserMessage] | None:
        """Before each step: what is said first, or `None` to end the turn as if the model had stopped."""

    def take_back(self, said: Iterable[UserMessage]) -> None:
        """This could not be put on record."""

    async def begins(self, turn_id: str) -> None:
        """The step is run now."""

    def terminates(self, call_id: str, is_last: bool) -> None:
        """What a tool has said about ending the turn."""
