"""The panel with what the model thinks."""

from __future__ import annotations

import pytest

from aar.messages.events import AssistantMessage, ReasoningBlock, Recorded, StreamChunk
from aar.transports.fullscreen.thinking import Thinking


@pytest.mark.parametrize("chunks", [("\n", "a\x1b[31mb\tc"), ("a\x1b[31m", "b\tc"), ("\n \n", "ab"), ("a\tb",)])
def test_what_came_in_pieces_is_not_told_again_once_it_is_whole(chunks) -> None:
    thinking, streamed = Thinking(), Thinking()
    for step in (1, 2):
        for chunk in chunks:
            for panel in (thinking, streamed):
                panel.notice(Recorded(0, "t", StreamChunk(reasoning_text=chunk)))
        thinking.notice(Recorded(step, "t", ReasoningBlock(content="".join(chunks))))
        for panel in (thinking, streamed):
            panel.notice(Recorded(step, "t", AssistantMessage(content="")))
    assert thinking.texts() == streamed.texts()


def test_what_did_not_come_in_pieces_is_added() -> None:
    thinking = Thinking()
    thinking.notice(Recorded(0, "t", StreamChunk(reasoning_text="\x1b[31ma\t")))
    thinking.notice(Recorded(1, "t", ReasoningBlock(content="\x1b[31ma\tb")))
    assert thinking.texts()[1].split() == ["a", "b"]
