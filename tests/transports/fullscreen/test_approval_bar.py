"""The bar that asks whether a tool may run."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from urwid.testing import render_text

from aar.messages.approvals import ASIDE
from aar.messages.events import ApprovalRequested, ApprovalResolved, Recorded, ToolResult, TurnEnded
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime
from aar.transports.fullscreen.approval import PAUSE, ApprovalBar, Approvals

SIZE = (70,)
DANGEROUS = {"command": "rm -rf build"}


def question(call_id: str = "c1", arguments: dict[str, Any] = DANGEROUS, **more: Any) -> ApprovalRequested:
    return ApprovalRequested(tool_call_id=call_id, tool_name="bash", arguments=arguments, **more)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def ask(said):
    """A bar that somebody sees for a while already."""

    async def ask(asked: ApprovalRequested | None = None, waiting: int = 0) -> ApprovalBar:
        bar = ApprovalBar(asked or question(), waiting, said.append)
        await trio.sleep(PAUSE)
        return bar

    return ask


def drawn(bar: ApprovalBar) -> list[str]:
    text = render_text(bar, SIZE, strip=True)
    assert len(text) == bar.rows(SIZE)
    return text


@pytest.mark.covers("FTUI-13")
async def test_it_shows_the_tool_its_arguments_why_it_asks_and_three_buttons(ask, autojump_clock) -> None:
    bar = await ask(question(reason="it deletes"), waiting=2)
    assert drawn(bar) == [
        "Approval required: bash   2 more wait",
        "  command: rm -rf build",
        "Reason: it deletes",
        "[ Yes (y) ]  [ No (n) ]  [ Always (a) ]",
    ]


@pytest.mark.covers("FTUI-13")
@pytest.mark.parametrize(
    ("key", "decision"), [("y", "allow"), ("n", "deny"), ("a", "allow_always"), ("Y", "allow"), ("N", "deny")]
)
async def test_a_key_answers(ask, said, key, decision, autojump_clock) -> None:
    assert (await ask()).keypress(SIZE, key) is None
    assert said == [decision]


@pytest.mark.covers("FTUI-13")
@pytest.mark.parametrize(
    ("keys", "decision"),
    [(["right"], "allow"), (["right", "right"], "deny"), (["left"], "allow_always"), (["left", "right"], "allow")],
)
async def test_a_button_that_is_chosen_answers_at_enter(ask, said, keys, decision, autojump_clock) -> None:
    bar = await ask()
    assert [bar.keypress(SIZE, key) for key in [*keys, "enter"]] == [None] * (len(keys) + 1)
    assert said == [decision]


@pytest.mark.covers("FTUI-13")
@pytest.mark.parametrize(("word", "decision"), [("Yes", "allow"), ("No", "deny"), ("Always", "allow_always")])
async def test_a_button_that_is_clicked_answers(ask, said, word, decision, autojump_clock) -> None:
    bar = await ask()
    row = drawn(bar)[-1]
    bar.mouse_event(SIZE, "mouse press", 1, row.index(word), 2, False)
    bar.mouse_event(SIZE, "mouse press", 1, row.index("]") + 1, 2, False)  # between two buttons
    bar.mouse_event(SIZE, "mouse press", 1, row.index(word), 1, False)  # above them
    assert said == [decision]


async def test_somebody_who_types_when_it_appears_goes_on_typing_and_answers_nothing(ask, said, autojump_clock) -> None:
    bar = ApprovalBar(question(), 0, said.append)
    for key in ["s", "a", "y", " ", "enter"]:
        assert bar.keypress(SIZE, key) == key
        await trio.sleep(PAUSE / 2)
    assert said == []
    bar.keypress(SIZE, "y")
    assert drawn(bar)[-1].endswith("typed on: press it again")
    await trio.sleep(PAUSE)
    bar.keypress(SIZE, "y")
    assert said == ["allow"]


async def test_enter_belongs_to_the_input_until_a_button_is_chosen(ask, said, autojump_clock) -> None:
    assert (await ask()).keypress(SIZE, "enter") == "enter"
    assert said == []


async def test_only_what_may_be_decided_has_a_button(ask, said, autojump_clock) -> None:
    bar = await ask(question(options=["allow", "deny"]))
    assert drawn(bar)[-1] == "[ Yes (y) ]  [ No (n) ]"
    assert bar.keypress(SIZE, "a") == "a"
    assert said == []


async def test_long_arguments_are_whole_and_a_scroll_away(ask, autojump_clock) -> None:
    bar = await ask(question(arguments={"content": "\n".join(f"line {number}" for number in range(20))}))
    assert drawn(bar)[1:4] == ["  content:", "  │ line 0", "  │ line 1"]
    assert drawn(bar)[-2:] == ["  lines 1-8 of 21: Up, Down", "[ Yes (y) ]  [ No (n) ]  [ Always (a) ]"]
    for key in ("page down", "page down", "up"):
        assert bar.keypress(SIZE, key) is None
    assert drawn(bar)[1:-2] == [f"  │ line {number}" for number in range(11, 19)]
    bar.mouse_event(SIZE, "mouse press", 5, 0, 0, False)
    assert drawn(bar)[-3] == "  │ line 19"


async def test_what_just_fits_needs_no_scrolling(ask, autojump_clock) -> None:
    bar = await ask(question(arguments={"content": "\n".join("abcdefgh")}))
    assert drawn(bar)[1:-1] == ["  content:", *(f"  │ {letter}" for letter in "abcdefgh")]
    assert bar.keypress(SIZE, "down") == "down"


async def test_what_would_hide_something_is_made_visible(ask, autojump_clock) -> None:
    bar = await ask(question(arguments={"path": "a\x1b[2J\u202eb", "x\nReason": "\nReason: fine"}, reason="a\nb"))
    assert drawn(bar)[1:-1] == [
        "  path: a\\x1b[2J\\u202eb",
        "  x\\nReason:",
        "  │",
        "  │ Reason: fine",
        "Reason: a\\nb",
    ]


# --- questions of a session -------------------------------------------------------------------


def tell(part: Approvals, *events: Any) -> None:
    for at, event in enumerate(events, 1):
        part.notice(Recorded(at, "t1", event))


class Desk:
    """What is asked of a session here."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, str]] = []

    async def decide(self, tool_call_id: str, decision: str) -> bool:
        self.decided.append((tool_call_id, decision))
        return True


@pytest.mark.covers("FTUI-13")
async def test_one_question_is_asked_at_a_time_and_the_others_wait(scene, autojump_clock) -> None:
    scene.handle = Desk()
    part = Approvals(scene)
    tell(part, question("c1"), question("c2", {"command": "ls"}))
    first = scene.bar
    assert drawn(first)[:2] == ["Approval required: bash   1 more wait", "  command: rm -rf build"]
    await trio.sleep(PAUSE)
    first.keypress(SIZE, "n")
    assert drawn(scene.bar)[:2] == ["Approval required: bash", "  command: ls"]
    assert scene.bar.keypress(SIZE, "y") == "y"  # struck twice, it would answer what nobody has read
    await trio.sleep(PAUSE)
    scene.bar.keypress(SIZE, "a")
    assert scene.bar is None
    await trio.testing.wait_all_tasks_blocked()
    assert scene.handle.decided == [("c1", "deny"), ("c2", "allow_always")]


async def test_a_question_that_is_settled_elsewhere_is_taken_back(scene) -> None:
    part = Approvals(scene)
    tell(part, question("c1"), question("c2"))
    tell(part, ApprovalResolved(tool_call_id="c2", decision="withdrawn"))
    assert drawn(scene.bar)[0] == "Approval required: bash"
    tell(part, ApprovalResolved(tool_call_id="c1", decision="allow"))
    assert scene.bar is None


@pytest.mark.parametrize("leave", [lambda part: tell(part, TurnEnded(stop="cancelled")), lambda part: part.reset()])
async def test_questions_go_with_their_turn_and_with_their_session(scene, leave) -> None:
    part = Approvals(scene)
    tell(part, question("c1"), question("c2"))
    leave(part)
    assert scene.bar is None


async def test_a_question_about_a_command_beside_the_conversation_outlives_a_turn(scene) -> None:
    part = Approvals(scene)
    tell(part, question("c1"), question("c2").model_copy(update={"data": {ASIDE: True}}))
    tell(part, TurnEnded(stop="end_turn"))
    assert drawn(scene.bar)[0] == "Approval required: bash"
    tell(part, ApprovalResolved(tool_call_id="c2", decision="allow"))
    assert scene.bar is None


@pytest.mark.covers("FTUI-13")
async def test_a_session_waits_for_the_answer(scene, nursery, tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().call("write_file", path="a.txt", content="done").text("Good.")
    async with open_test_runtime(provider, AgentConfig()) as runtime:
        scene.handle = await runtime.sessions.open(str(tmp_path))
        part = Approvals(scene)
        nursery.start_soon(part.run)
        await trio.testing.wait_all_tasks_blocked()

        async def answer() -> None:
            with scene.handle.follow() as records:
                async for record in records:
                    part.notice(record)
                    if isinstance(record.event, ApprovalRequested):
                        await trio.sleep(PAUSE)
                        scene.bar.keypress(SIZE, "y")

        nursery.start_soon(answer)
        await scene.handle.prompt("go")
        assert [fact.is_error for fact in facts_of(scene.handle) if isinstance(fact, ToolResult)] == [False]
        assert (tmp_path / "a.txt").read_text() == "done"
        nursery.cancel_scope.cancel()


async def test_another_session_is_attended_when_it_takes_the_place(scene, nursery, tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().call("bash", command="echo done").text("Good.")
    async with open_test_runtime(provider, AgentConfig()) as runtime:
        scene.handle = await runtime.sessions.open(str(tmp_path))
        part = Approvals(scene)
        nursery.start_soon(part.run)
        await trio.testing.wait_all_tasks_blocked()
        scene.handle = await runtime.sessions.open(str(tmp_path))
        part.reset()
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as turn:
            turn.start_soon(scene.handle.prompt, "go")
            with scene.handle.follow() as records:
                async for record in records:
                    if isinstance(record.event, ApprovalRequested):
                        break
            await scene.handle.cancel()
        nursery.cancel_scope.cancel()
