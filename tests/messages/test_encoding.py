"""Events as JSON for those who read along."""

from __future__ import annotations

import json

from aar.messages.encoding import encode_event, json_of
from aar.messages.events import StreamChunk


def test_a_hint_may_end_in_half_a_character() -> None:
    hint = StreamChunk(text="a\ud83d")
    told = json_of(hint)
    assert told.isascii()
    assert json.loads(told)["text"] == hint.text


def test_all_others_are_written_as_in_a_journal() -> None:
    hint = StreamChunk(text="ä")
    assert json_of(hint) == encode_event(hint).decode()
