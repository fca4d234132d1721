"""What is sent from the input: prompts in the order in which they were sent, and commands beside them."""

from __future__ import annotations

from collections.abc import Callable

import trio

from aar.client import PromptContent
from aar.errors import AarError, ClientGone
from aar.groups import leaves
from aar.transports.program.opening import Conversation
from aar.transports.program.sentences import sentence
from aar.transports.terminal.attaching import with_files
from aar.transports.terminal.expanding import typed_prompt, words_about

__all__ = ["WAITING", "Prompts"]

WAITING = 32
"""Prompts that may wait here while what goes along with one is read. What waits for a turn waits in the session."""

Tell = Callable[[str, str], None]


class Prompts:
    """`tell` gets texts for people and their style."""

    def __init__(self, conversation: Conversation, tell: Tell) -> None:
        self._conversation = conversation
        self._tell = tell
        self._to_send, self._sent = trio.open_memory_channel[str](WAITING)
        self._reading: trio.CancelScope | None = None

    def send(self, text: str) -> bool:
        """Whether there was room for it."""
        try:
            self._to_send.send_nowait(text)
        except trio.WouldBlock:
            return False
        return True

    async def ask(self, text: str, *, is_typed: bool) -> bool:
        """Take a turn now, and say whether it ended well. Raises `AarError`."""
        handle, config = self._conversation.handle, self._conversation.config
        if is_typed:
            prompt = await typed_prompt(text, config, handle)
        else:
            prompt = await with_files(text, config, handle.cwd, is_typed=False)
        return (await handle.prompt(prompt)).stop in ("end_turn", "max_tokens")

    def forget(self) -> None:
        """Drop what has not reached the session yet."""
        while True:
            try:
                self._sent.receive_nowait()
            except trio.WouldBlock:
                break
        if self._reading is not None:
            self._reading.cancel()

    async def run(self) -> None:
        """Hand them to the session, one after the other, without waiting for their turns.

        Cancelled, it cancels the turns that it has begun and waits for their end, at most 15 seconds.
        """
        async with trio.open_nursery() as nursery:
            async for text in self._sent:
                with trio.CancelScope() as self._reading:
                    prompt = await self._with_what_it_names(text)
                    if prompt is not None:
                        await nursery.start(self._prompt, prompt)
                self._reading = None

    async def _with_what_it_names(self, text: str) -> PromptContent | None:
        try:
            remarks = await self._conversation.reread()
            config = self._conversation.config
            prompt = await typed_prompt(text, config, self._conversation.handle)
        except AarError as error:
            self._tell(sentence(error), "error.text")
            return None
        for line in (*remarks, *words_about(prompt, config)):
            self._tell(line, "dim")
        return prompt

    async def _prompt(self, prompt: PromptContent, *, task_status: trio.TaskStatus[None]) -> None:
        handle = self._conversation.handle
        is_taken = False
        try:
            async with handle.running(prompt) as (_, ended):
                task_status.started()
                is_taken = True
                await ended()
        except* ClientGone:
            raise
        except* AarError as errors:
            if handle is self._conversation.handle:  # of a session that was left nobody wants to know
                self._tell("\n".join(sentence(error) for error in leaves(errors)), "error.text")
        if not is_taken:
            task_status.started()
