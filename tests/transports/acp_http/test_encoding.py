"""Long answers: they are what they would be at once, and nobody waits for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider
from aar.transports.acp_http import encoding
from aar.transports.acp_http.encoding import encoded, encoded_events
from tests.transports.acp_http.conftest import text_of

texts = st.text(max_size=30)
events = st.lists(
    st.fixed_dictionaries({"type": texts, "message": st.dictionaries(texts, texts)})
    | st.fixed_dictionaries({"type": texts, "run": st.dictionaries(texts, texts | st.lists(texts) | st.none())}),
    max_size=20,
)


@given(events)
def test_in_pieces_it_is_the_same(events: list[dict[str, Any]]) -> None:
    assert b"".join(trio.run(encoded_events, events)) == json.dumps({"events": events}).encode()
    for event in events:
        assert b"".join(trio.run(encoded, event)) == json.dumps(event).encode()


async def test_others_get_their_turn_while_it_is_made() -> None:
    long = [{"type": "message_created", "message": "x" * 1000}] * 2000 + [{"type": "run", "run": ["x"] * 50_000}]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        pieces = await encoded_events(long)
        nursery.cancel_scope.cancel()
    assert turns > 50
    assert len(pieces) > 50
    assert json.loads(b"".join(pieces)) == {"events": long}


@pytest.mark.covers("ACPH-05", "ACPH-06", "ACPH-08")
async def test_a_long_run_is_told_whole_in_every_way(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PIECE", 10)
    async with api(
        ScriptedProvider().text("Much. " * 20_000, chunks=50).forever(), AgentConfig(streaming=True)
    ) as client:
        told = await client.stream("go")
        run = told[-1]["run"]
        assert text_of(*run["output"]) == "Much. " * 20_000
        answer = await client.get(f"/runs/{run['run_id']}")
        assert (answer.json(), int(answer.headers["content-length"])) == (run, len(answer.content))
        assert (await client.get(f"/runs/{run['run_id']}/events")).json() == {"events": told}
