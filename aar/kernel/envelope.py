"""One delivery: a message, and the place where its answer goes."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import trio

from aar.errors import AarError

__all__ = ["Answer", "Envelope"]

M = TypeVar("M", covariant=True)


class Answer:
    """Where one asker waits. The first answer wins; later ones, and those after the asker left, go nowhere."""

    __slots__ = ("_error", "_ready", "_value", "asker_left", "is_taken")

    def __init__(self) -> None:
        self.asker_left = trio.Event()
        self.is_taken = False  # it came in time: an asker who is cancelled in that very moment never sees it
        self._ready = trio.Event()
        self._value: Any = None
        self._error: AarError | None = None

    @property
    def is_given(self) -> bool:
        return self._ready.is_set()

    @property
    def is_owed(self) -> bool:
        """Whether somebody still waits for it."""
        return not self._ready.is_set() and not self.asker_left.is_set()

    def give(self, value: object) -> None:
        if not self._ready.is_set():
            self._value = value
            self._ready.set()

    def fail(self, error: AarError) -> None:
        if not self._ready.is_set():
            self._error = error
            self._ready.set()

    async def wait(self) -> Any:
        """The answer, or the error that stands for it."""
        await self._ready.wait()
        self.is_taken = True
        if self._error is not None:
            raise self._error
        return self._value


class Envelope(Generic[M]):
    """What a service takes from its mailbox. `answer` is `None` when nobody waits for one."""

    __slots__ = ("answer", "message")

    def __init__(self, message: M, answer: Answer | None = None) -> None:
        self.message = message
        self.answer = answer

    def reply(self, value: object = None) -> None:
        """Answer the asker. Never raises: a second answer, or one that nobody waits for, is dropped."""
        if self.answer is not None:
            self.answer.give(value)

    def fail(self, error: AarError) -> None:
        """Answer with an error, which is raised where the asker waits."""
        if self.answer is not None:
            self.answer.fail(error)

    @property
    def is_owed(self) -> bool:
        """Whether somebody still waits for an answer to this."""
        return self.answer is not None and self.answer.is_owed
