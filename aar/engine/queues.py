"""What waits to be said: at the next step, and when the model would stop."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import trio

from aar.engine.options import Options, QueueMode, Said, messages_of
from aar.messages.events import UserMessage

__all__ = ["Queues", "asked"]

CALLBACK_TIMEOUT = 10.0  # seconds for an option that is asked between two steps

logger = logging.getLogger(__name__)


class Queues:
    def __init__(self, options: Options) -> None:
        self.steering: list[UserMessage] = []
        self.follow_ups: list[UserMessage] = []
        self._options = options

    def __bool__(self) -> bool:
        return bool(self.steering or self.follow_ups)

    def steer(self, message: Said) -> None:
        self.steering += _said(message, "steering")

    def follow_up(self, message: Said) -> None:
        self.follow_ups += _said(message, "follow_up")

    async def pull(self, *, has_stopped: bool) -> None:
        """Ask the sources of the options: for follow-ups only when the model has stopped and nothing else waits."""
        await _pull(self._options.get_steering_messages, self.steer)
        if has_stopped and not self.steering:
            await _pull(self._options.get_follow_up_messages, self.follow_up)

    def take(self, *, has_stopped: bool) -> Sequence[UserMessage]:
        """What is said now, as the modes say."""
        if self.steering or not has_stopped:
            return _taken(self.steering, self._options.steering_mode)
        return _taken(self.follow_ups, self._options.followup_mode)

    def take_back(self, said: Iterable[UserMessage]) -> None:
        for one in reversed(list(said)):
            (self.steering if one.data.get("kind") == "steering" else self.follow_ups).insert(0, one)


async def asked(option: Callable[..., Any], *arguments: Any) -> Any:
    """What an option answers; `None` when it fails or takes too long."""
    try:
        with trio.fail_after(CALLBACK_TIMEOUT):
            given = option(*arguments)
            return await given if inspect.isawaitable(given) else given
    except Exception as error:  # a wall: the application's own code
        logger.error("an option of the engine failed", exc_info=error)
        return None


async def _pull(source: Callable[[], Any] | None, put: Callable[[Said], None]) -> None:
    if source is None:
        return
    try:
        given = messages_of(await asked(source))
    except TypeError as error:  # a wall, too: nothing of it is said
        logger.error("an option of the engine gave what cannot be said", exc_info=error)
        return
    for one in given:
        put(one)


def _said(message: Said, kind: str) -> list[UserMessage]:
    """One message. Raises `TypeError`."""
    if not isinstance(message, Said):
        raise TypeError(f"a message is text or a UserMessage, not {message!r}")
    return [one.model_copy(update={"data": {**one.data, "kind": kind}}) for one in messages_of(message)]


def _taken(queue: list[UserMessage], mode: QueueMode) -> list[UserMessage]:
    count = len(queue) if mode is QueueMode.ALL else 1
    taken, queue[:count] = queue[:count], []
    return taken
