"""Whatever is said, aborted, cancelled and waited for, and whenever: what subscribers are told makes sense."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from aar import tool
from aar.engine import EngineEvent, QueueMode
from aar.testing import ScriptedAnswer, ScriptedProvider


@tool
async def wait(seconds: float) -> str:
    await trio.sleep(seconds)
    return "x"


def script(chance: random.Random) -> ScriptedProvider:
    model = ScriptedProvider()
    for _ in range(20):
        match chance.randrange(5):
            case 0 | 1:
                calls = tuple(("wait", {"seconds": chance.random()}) for _ in range(chance.randint(1, 3)))
                model.reply(ScriptedAnswer(text="t" * chance.randint(0, 4), calls=calls, delay=chance.random() / 5))
            case 2 | 3:
                model.text("abc", chunks=3, delay=chance.random() / 5)
            case _:
                model.hang("hm")
    return model.text("end").forever()


async def meddle(it: Any, chance: random.Random) -> None:
    for _ in range(chance.randint(0, 6)):
        await trio.sleep(chance.random())
        match chance.randrange(6):
            case 0 | 1:
                it.steer("s")
            case 2 | 3:
                it.follow_up("f")
            case 4:
                await it.abort()
            case 5:
                await it.cancel()
    await trio.sleep(15)
    await it.cancel()


def problems(events: list[EngineEvent]) -> list[str]:
    """What does not nest."""
    found: list[str] = []
    open_now: list[str] = []
    running: list[str] = []
    for event in events:
        what, _, edge = event.type.rpartition("_")
        if event.type.startswith("tool_") and "turn" not in open_now:
            found.append(f"{event.type} outside a turn")
        if what == "tool_execution" and edge != "update":
            (running.append if edge == "start" else running.remove)(event.tool_call.tool_call_id)
        elif edge == "start":
            found += [f"two of {what}"] if what in open_now else []
            open_now.append(what)
        elif edge == "end":
            found += [f"{what} ends before {open_now[-1]}"] if open_now[-1:] != [what] else []
            open_now = open_now[:-1]
    return found + [f"{what} has no end" for what in (*open_now, *running)]


@pytest.mark.covers("ENG-05", "ENG-25", "ENG-36")
@pytest.mark.parametrize("seed", range(6))
async def test_everything_that_starts_ends_within_what_it_started_in(
    autojump_clock: Any, engine: Any, seed: int
) -> None:
    chance = random.Random(seed)
    slow: list[EngineEvent] = []
    quick: list[EngineEvent] = []

    async def slowly(event: EngineEvent) -> None:
        slow.append(event)
        if chance.random() < 0.2:
            await trio.sleep(chance.random())

    modes = {name: chance.choice(list(QueueMode)) for name in ("steering_mode", "followup_mode")}
    async with engine(script(chance), tools=[wait], **modes) as it:
        it.subscribe(slowly)
        it.subscribe(quick.append)
        for patience in (1000, 3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(meddle, it, chance)
                with trio.move_on_after(patience):
                    await it.run("go")
                nursery.cancel_scope.cancel()
            assert problems(slow) == []
            assert [id(event) for event in slow] == [id(event) for event in quick]
            assert (slow[0].type, slow[-1].type) == ("agent_start", "agent_end")
            assert list(slow[-1].messages) == it.messages
            slow.clear()
            quick.clear()
