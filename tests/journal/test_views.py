"""Who sees a message, and for how long: six kinds in one table, and a view for each purpose."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.journal.state import Session
from aar.journal.views import Messages, Shown
from aar.messages.events import (
    AssistantMessage,
    Compacted,
    ErrorEvent,
    Event,
    Notice,
    ReasoningBlock,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnStarted,
    UserMessage,
)
from aar.messages.kinds import (
    MATRIX,
    Kind,
    bookmark,
    display_only,
    ephemeral,
    is_for_people,
    is_put_in,
    kind_of,
    metadata,
    synthetic,
)

SOURCES = sorted((Path(__file__).parents[2] / "aar").rglob("*.py"))

MADE: dict[Kind, Event] = {
    Kind.NORMAL: UserMessage(content="normal"),
    Kind.SYNTHETIC: synthetic("synthetic"),
    Kind.EPHEMERAL: ephemeral("ephemeral"),
    Kind.DISPLAY_ONLY: display_only("display_only"),
    Kind.BOOKMARK: bookmark("bookmark"),
    Kind.METADATA: metadata(what="metadata"),
}

# kind: for the model, for compaction, for saving, exported as text, exported as data, shown
TRUTH = {
    Kind.NORMAL: (True, True, True, True, True, "text"),
    Kind.SYNTHETIC: (True, False, False, False, False, "text"),
    Kind.EPHEMERAL: (True, False, False, False, False, "text"),
    Kind.DISPLAY_ONLY: (False, False, True, True, False, "text"),
    Kind.BOOKMARK: (False, False, True, True, False, "divider"),
    Kind.METADATA: (False, False, True, False, True, "no"),
}


def shown_as(messages: Messages) -> str:
    shown = messages.for_display()
    return "no" if not shown else "divider" if shown[0].is_divider else "text"


@pytest.mark.covers("AURA-17")
@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_is_in_the_views_that_the_table_says(kind: Kind) -> None:
    event = MADE[kind]
    messages = Messages([event])
    assert kind_of(event) is kind
    assert (
        bool(messages.for_llm()),
        bool(messages.for_compaction(100)),
        messages.for_save() == [event],
        kind.value in messages.for_export(),
        messages.for_structured_export() == [event.dump()],
        shown_as(messages),
    ) == TRUTH[kind]


def test_the_table_is_complete_and_cannot_be_changed() -> None:
    assert set(MATRIX) == set(Kind) == set(TRUTH)
    with pytest.raises(TypeError):
        MATRIX[Kind.NORMAL] = MATRIX[Kind.METADATA]  # type: ignore[index]


@pytest.mark.covers("AURA-22")
def test_what_was_taken_back_is_sent_no_more_and_still_shown() -> None:
    facts = [
        UserMessage(content="a"),
        AssistantMessage(content="b"),
        SessionEvent(action="rewound", data={"messages": 1}),
    ]
    messages = Messages(facts)
    assert [message["content"] for message in messages.for_llm()] == ["a"]
    assert messages.for_compaction(100) == messages.for_llm()
    assert [one.text for one in messages.for_display()] == ["a", "b"]


def test_a_bookmark_is_a_divider_with_its_label_and_never_sent() -> None:
    messages = Messages([UserMessage(content="before"), bookmark("Chapter 2"), UserMessage(content="after")])
    assert messages.for_display() == [
        Shown("User", "before"),
        Shown("Notice", "──── Chapter 2 ────", is_divider=True),
        Shown("User", "after"),
    ]
    assert [one["content"] for one in messages.for_llm()] == ["before", "after"]
    assert messages.for_export() == "## User\n\nbefore\n\n──── Chapter 2 ────\n\n## User\n\nafter\n"


def test_what_was_said_and_done_is_exported_as_text() -> None:
    facts: list[Event] = [
        TurnStarted(),
        UserMessage(content="go"),
        ReasoningBlock(content="hm"),
        ToolCall(tool_name="look", tool_call_id="c", arguments={"at": 1}),
        AssistantMessage(content=""),
        ToolResult(tool_name="look", tool_call_id="c", output="seen"),
        ErrorEvent(message="lost"),
        UserMessage(content="go on", data={"kind": "internal"}),
        Notice(kind="retry", text="once more"),
    ]
    titles = re.findall(r"^## (.*)\n\n(.*)$", Messages(facts).for_export(), re.MULTILINE)
    assert titles == [
        ("User", "go"),
        ("Thinking", "hm"),
        ("Tool: look", "{"),
        ("Result: look", "seen"),
        ("Error", "lost"),
        ("Notice", "once more"),
    ]
    assert [is_for_people(one) for one in facts] == [False, True, True, True, True, True, True, False, True]


def test_results_are_cut_for_a_summary_and_nothing_else_is() -> None:
    session = Session()
    session.add_user_message("x" * 50)
    session.add_tool_call(tool_name="a", tool_call_id="1", arguments={"long": "y" * 50})
    session.add_assistant_message("z" * 50)
    session.add_tool_result(tool_call_id="1", tool_name="a", output="o" * 50)
    whole = Messages.of(session).for_llm()
    assert whole == session.to_messages()
    for longest, left in ((50, "o" * 50), (49, "o" * 49 + "[...]"), (0, "[...]")):
        cut = Messages.of(session).for_compaction(longest)
        assert cut[:2] == whole[:2]
        assert [block["content"] for block in cut[2]["content"]] == [left]


# --- random histories -------------------------------------------------------------------------

texts = st.sampled_from(["", "a", "b"])
names = st.sampled_from(["c1", "c2", "c3"])
events = st.one_of(
    st.builds(UserMessage, content=texts),
    st.builds(synthetic, texts),
    st.builds(ephemeral, texts),
    st.builds(display_only, texts),
    st.builds(bookmark, texts),
    st.builds(AssistantMessage, content=texts),
    st.builds(ToolCall, tool_name=st.just("a"), tool_call_id=names),
    st.builds(ToolResult, tool_call_id=names, output=texts),
    st.builds(ReasoningBlock, content=texts, data=st.sampled_from([{}, {"replay": True}])),
    st.builds(Compacted, up_to_seq=st.integers(0, 5), summary=texts),
)


@pytest.mark.covers("AURA-23")
@given(st.lists(events, max_size=12))
def test_no_answer_that_is_sent_is_empty_and_every_call_has_its_result(problems_of: Any, facts: list[Event]) -> None:
    said = Messages(facts).for_llm()
    assert [one for one in said if one["role"] == "assistant" and not one["content"]] == []
    assert {one["role"] for one in said} <= {"user", "assistant"}  # what a system says is the prompt's, and there once
    assert problems_of(said) == []


@pytest.mark.covers("AURA-16")
@given(st.lists(events, max_size=12))
def test_the_same_facts_make_the_same_history_again(facts: list[Event]) -> None:
    one, two = Session(), Session()
    for seq, fact in enumerate(facts, 1):
        one.apply(fact, seq=seq)
        one.to_messages()  # looking changes nothing
    for seq, fact in enumerate(one.events, 1):
        two.apply(fact, seq=seq)
    assert one.to_messages() == two.to_messages()
    assert Messages.of(one).for_display() == Messages.of(two).for_display()
    assert one.open_calls == two.open_calls


# --- one place --------------------------------------------------------------------------------


@pytest.mark.covers("AURA-18")
def test_nobody_else_tells_kinds_of_messages_apart() -> None:
    kinds = "|".join([*(kind.value for kind in Kind if kind is not Kind.NORMAL), "internal"])
    filters = re.compile(
        rf"""(?:==|!=|\bin\b|\bcase\b)\s*\(?\s*["'](?:{kinds})["']|get\(["']internal["']\)|Notice\(kind=["'](?:{kinds})"""
        rf"""|(?:==|!=|\bis\b|\bin\b)\s*\(?\s*Kind\."""
    )
    found = [
        f"{source.name}:{number}"
        for source in SOURCES
        if source.name != "kinds.py"
        for number, line in enumerate(source.read_text("utf-8").splitlines(), 1)
        if filters.search(line)
    ]
    assert found == []


def test_what_is_put_in_for_people_is_told_from_what_is_told_about_the_moment() -> None:
    notices = [display_only("look"), bookmark("here"), metadata(a=1), Notice(kind="retry", text="once more")]
    assert [is_put_in(one) for one in notices] == [True, True, False, False]
