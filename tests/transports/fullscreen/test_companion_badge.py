"""The companion in the header."""

from __future__ import annotations

import subprocess

import pytest
import trio

from aar.messages.events import ErrorEvent, Recorded, StreamChunk, ToolCall, TurnEnded
from aar.messages.themes import Theme
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.fullscreen.companion import CompanionBadge

CALL = ToolCall(tool_name="bash")


def theme(**companion) -> Theme:
    return Theme.model_validate({"name": "test", "fixed_layout": {"companion": companion}})


class Handle:
    """What is asked of a session here."""

    def __init__(self, *events, cwd: str = "/", **metadata) -> None:
        self.metadata = {"cwd": cwd, **metadata}
        self._events = events

    def records(self) -> list[Recorded]:
        return [Recorded(seq, "t", event) for seq, event in enumerate(self._events, 1)]


@pytest.mark.covers("FTUI-19")
async def test_it_shows_face_experience_level_and_mood_at_the_right_of_the_header(scene) -> None:
    scene.handle = Handle()
    badge = CompanionBadge(scene)
    for seq, event in enumerate([*[CALL] * 10, ErrorEvent(message="no")], 1):
        badge.notice(Recorded(seq, "t", event))
    badge.companion = badge.companion.ticked(8)
    badge.notice(Recorded(12, "t", TurnEnded()))
    assert scene.companion == "│ (^_^) [■■■■░░░░] lv.2 happy"


@pytest.mark.covers("FTUI-19")
async def test_it_moves_at_its_interval_and_falls_asleep(scene, nursery, mock_clock) -> None:
    scene.handle = Handle()
    scene.theme = theme(animation_interval=0.5, parts=["kaomoji", "mood"])
    nursery.start_soon(CompanionBadge(scene)._animate)
    faces = []
    for seconds in (0.1, *[0.5] * 3):
        mock_clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked()
        faces.append(scene.companion)
    assert faces == ["│ (^_^) happy"] * 3 + ["│ (-_-) happy"]
    before = scene.redraws
    mock_clock.autojump_threshold = 0
    await trio.sleep(0.5 * 61)
    assert scene.companion.endswith("sleeping")
    assert scene.redraws - before < 50  # it is drawn only when it looks different
    nursery.cancel_scope.cancel()


@pytest.mark.covers("FTUI-20")
async def test_a_resumed_session_brings_its_progress(scene, tmp_path) -> None:
    provider = ScriptedProvider()
    for number in range(6):
        provider = provider.call("list_directory", path=f"{number}")
    async with open_test_runtime(provider.text("Done.")) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        await session.prompt("look")
        await runtime.sessions.close(session.session_id)
        scene.handle = await runtime.sessions.load(session.session_id)
        badge = CompanionBadge(scene)
        for record in scene.handle.records():
            badge.notice(record)  # what is replayed counts once
    assert (badge.companion.steps, badge.companion.level, badge.companion.mood) == (6, 2, "happy")


async def test_another_session_has_its_own_progress(scene) -> None:
    scene.handle = Handle(*[CALL] * 5)
    badge = CompanionBadge(scene)
    badge.companion = badge.companion.with_dirty(2)
    scene.handle = Handle(companion_baseline={"steps": 16, "errors": 0})
    badge.reset()
    assert (badge.companion.steps, badge.companion.mood) == (16, "focused")
    badge.notice(Recorded(0, "t", StreamChunk(text="a")))
    assert badge.companion.mood == "excited"


@pytest.mark.covers("FTUI-19")
async def test_it_minds_what_is_not_committed(scene, nursery, tmp_path) -> None:
    await trio.run_process(["git", "init", "-q", str(tmp_path)], stdout=subprocess.DEVNULL)
    for number in range(5):
        (tmp_path / str(number)).write_text("")
    scene.handle = Handle(cwd=str(tmp_path))
    badge = CompanionBadge(scene)
    nursery.start_soon(badge.run)
    with trio.fail_after(10):
        while badge.companion.dirty is None:
            await trio.lowlevel.checkpoint()
    assert (badge.companion.dirty, badge.companion.mood) == (5, "stressed")
    nursery.cancel_scope.cancel()


@pytest.mark.covers("FTUI-19")
async def test_a_theme_says_what_is_shown_of_it_and_whether(scene) -> None:
    scene.handle = Handle()
    scene.theme = theme(parts=["name", "steps", "level"], name="Blob")
    badge = CompanionBadge(scene)
    badge.notice(Recorded(1, "t", CALL))
    assert scene.companion == "│ Blob 1 steps lv.1"
    scene.theme = theme(enabled=False)
    badge.notice(Recorded(2, "t", CALL))
    assert scene.companion == ""
