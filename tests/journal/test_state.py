"""`Session`: what follows from facts."""

from __future__ import annotations

import re

import pytest

from aar.journal.state import Session, cut_results, fork, state_after
from aar.journal.store import Header, Stored
from aar.messages.events import (
    AgentState,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Compacted,
    ConfigChanged,
    ErrorEvent,
    PromptQueued,
    PromptsCleared,
    ProviderMeta,
    Recorded,
    SessionEvent,
    StreamChunk,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def folded(*facts, turn_id: str = "t1") -> Session:
    session = Session()
    for seq, fact in enumerate(facts, start=1):
        session.apply(fact, seq=seq, turn_id=turn_id)
    return session


def call(number: int) -> ToolCall:
    return ToolCall(tool_name="x", tool_call_id=f"c{number}")


def result(number: int) -> ToolResult:
    return ToolResult(tool_name="x", tool_call_id=f"c{number}", output=str(number))


# --- a session of one's own -------------------------------------------------------------------


@pytest.mark.covers("SES-01")
def test_a_new_session_has_ids_and_nothing_else() -> None:
    session = Session()
    assert re.fullmatch("[0-9a-f]{16}", session.session_id)
    assert re.fullmatch("[0-9a-f]{12}", session.run_id)
    assert re.fullmatch("[0-9a-f]{12}", session.trace_id)
    assert (session.state, session.events, session.step_count, session.metadata) == (AgentState.IDLE, [], 0, {})
    assert (session.total_tokens, session.total_cost, session.last_text()) == (0, 0.0, "")
    assert Session().session_id != session.session_id


@pytest.mark.covers("SES-03")
def test_a_session_is_in_one_of_ten_states() -> None:
    assert [str(state) for state in AgentState] == [
        "idle",
        "running",
        "waiting_for_tool",
        "waiting_for_input",
        "completed",
        "error",
        "cancelled",
        "timed_out",
        "max_steps",
        "budget_exceeded",
    ]


def test_facts_are_added_by_hand() -> None:
    session = Session()
    session.add_user_message("hi")
    made = session.add_tool_call(tool_name="x", arguments={"a": 1})
    session.add_assistant_message("let me")
    session.add_tool_result(tool_call_id=made.tool_call_id, tool_name="x", output="1")
    assert session.to_messages() == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me"},
                {"type": "tool_use", "id": made.tool_call_id, "name": "x", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": made.tool_call_id, "content": "1", "is_error": False},
            ],
        },
    ]
    assert session.seq == 4
    assert session.increment_step() == 1
    assert session.last_text() == "let me"


@pytest.mark.covers("SES-08")
@pytest.mark.parametrize("whole", [True, False])
def test_a_message_of_parts_becomes_a_list_of_blocks(whole) -> None:
    session = Session()
    text = {"type": "text", "text": "what?"}
    if whole:
        session.append(UserMessage.of([IMAGE, text]))
    else:
        session.add_user_message([IMAGE, text])
    assert session.to_messages() == [{"role": "user", "content": [IMAGE, text]}]


def test_hints_are_no_part_of_a_history() -> None:
    session = Session()
    session.append([StreamChunk(text="a"), UserMessage(content="b")])
    assert [event.type for event in session.events] == ["user_message"]
    assert session.seq == 1


# --- states -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([], AgentState.IDLE),
        ([TurnStarted()], AgentState.RUNNING),
        ([TurnStarted(), call(1), AssistantMessage()], AgentState.WAITING_FOR_TOOL),
        ([TurnStarted(), call(1), AssistantMessage(), ApprovalRequested()], AgentState.WAITING_FOR_INPUT),
        (
            [TurnStarted(), call(1), AssistantMessage(), ApprovalRequested(), ApprovalResolved()],
            AgentState.WAITING_FOR_TOOL,
        ),
        ([TurnStarted(), call(1), call(2), AssistantMessage(), result(1)], AgentState.WAITING_FOR_TOOL),
        ([TurnStarted(), call(1), AssistantMessage(), result(1)], AgentState.RUNNING),
        ([TurnStarted(), TurnEnded()], AgentState.COMPLETED),
        ([TurnStarted(), TurnEnded(), TurnStarted()], AgentState.RUNNING),
        ([TurnStarted(), TurnEnded(stop="cancelled"), UserMessage(), ConfigChanged()], AgentState.CANCELLED),
        ([AssistantMessage(), call(1), AssistantMessage()], AgentState.IDLE),
    ],
)
def test_the_state_follows_from_the_facts(facts, state) -> None:
    assert folded(*facts).state is state


def test_every_way_to_stop_has_a_state() -> None:
    expected = {
        "end_turn": "completed",
        "max_tokens": "completed",
        "cancelled": "cancelled",
        "timed_out": "timed_out",
        "max_steps": "max_steps",
        "budget_exceeded": "budget_exceeded",
        "refused": "error",
        "error": "error",
        "interrupted": "error",
    }
    assert {stop: str(state_after(stop)) for stop in expected} == expected


def test_the_running_turn_is_known_by_its_id() -> None:
    session = folded(TurnStarted(), turn_id="abc")
    assert (session.turn_id, session.run_id) == ("abc", "abc")
    session.apply(TurnEnded(), seq=2, turn_id="abc")
    assert (session.turn_id, session.run_id) == ("", "abc")


# --- totals -----------------------------------------------------------------------------------


@pytest.mark.covers("TOK-01")
def test_totals_are_sums_over_all_steps() -> None:
    meta = ProviderMeta(usage={"input_tokens": 10, "output_tokens": 5}, data={"cost": 0.25})
    session = folded(meta, meta, ProviderMeta())
    assert (session.step_count, session.total_input_tokens, session.total_output_tokens) == (3, 20, 10)
    assert (session.total_tokens, session.total_cost) == (30, 0.5)


@pytest.mark.covers("TOK-08")
def test_totals_go_on_from_the_header_where_facts_were_pruned() -> None:
    header = Header("one", step_count=7, total_input_tokens=700, total_output_tokens=70, total_cost=7.0)
    meta = ProviderMeta(usage={"input_tokens": 100}, data={"cost": 1.0})
    session = Session.of(Stored(header, [Recorded(90, "t", meta)]))
    assert (session.step_count, session.total_tokens, session.total_cost, session.seq) == (7, 770, 7.0, 90)
    session.apply(meta, seq=91)
    assert (session.step_count, session.total_tokens, session.total_cost) == (8, 870, 8.0)


@pytest.mark.covers("SES-15")
def test_folding_what_is_stored_gives_the_session_again() -> None:
    facts = [SessionEvent(action="started", data={"cwd": "/x"}), TurnStarted(), UserMessage(content="a"), TurnEnded()]
    session = folded(*facts)
    session.metadata["note"] = "mine"
    records = [Recorded(seq, "t1", fact) for seq, fact in enumerate(facts, start=1)]
    again = Session.of(Stored(session.header(), records))
    for name in ("session_id", "run_id", "trace_id", "state", "events", "step_count", "metadata", "seq"):
        assert getattr(again, name) == getattr(session, name)
    assert again.to_messages() == session.to_messages()


def test_a_file_without_turns_keeps_the_state_of_its_header() -> None:
    stored = Stored(Header("old", state=AgentState.MAX_STEPS), [Recorded(1, "", UserMessage(content="x"))])
    assert Session.of(stored).state is AgentState.MAX_STEPS


# --- the queue --------------------------------------------------------------------------------


def queued(name: str) -> PromptQueued:
    return PromptQueued(content=name, data={"turn_id": name})


def test_a_prompt_waits_until_its_turn_begins_or_it_is_cleared() -> None:
    session = folded(queued("a"), queued("b"), queued("c"), queued("d"))
    session.apply(TurnStarted(), seq=5, turn_id="b")
    assert list(session.queued) == ["a", "c", "d"]
    session.apply(PromptsCleared(count=1, data={"turn_ids": ["c"]}), seq=6)
    assert list(session.queued) == ["a", "d"]
    session.apply(PromptsCleared(count=2), seq=7)
    assert session.queued == {}


def test_a_follow_up_waits_until_it_is_said() -> None:
    session = folded(TurnStarted(), queued("later"))
    session.apply(UserMessage(content="later", data={"kind": "follow_up", "queued_as": "later"}), seq=3, turn_id="t1")
    assert session.queued == {}


# --- settings and decisions -------------------------------------------------------------------


def allow(key: str, decision: str = "allow", scope: str = "session") -> ApprovalResolved:
    return ApprovalResolved(tool_call_id="c", tool_name="bash", decision=decision, scope=scope, key=key)


def entry(text: str, decision: str = "allow") -> ApprovalResolved:
    return ApprovalResolved(decision=decision, scope="session", key=text, tool_name=text.partition(":")[0])


def test_the_latest_decision_counts_and_those_for_once_do_not_stand() -> None:
    session = folded(allow("a"), allow("b", "deny"), allow("a", "deny"), allow("c", scope="once"))
    assert (session.standing.allowed, session.standing.denied) == (set(), {"a", "b"})


@pytest.mark.covers("SAFE-19")
def test_revoking_a_tool_takes_all_of_its_decisions_back_and_no_others() -> None:
    other = ApprovalResolved(tool_call_id="c", tool_name="write", decision="allow", scope="session", key="k")
    facts = [allow('["bash", "ls"]'), allow('["bash", "rm"]', "deny"), entry("bash"), entry("bash:git *"), other]
    session = folded(*facts, entry("basher:x*"), entry("bash", "revoked"))
    assert (session.standing.allowed, session.standing.denied) == ({"k"}, set())
    assert session.standing.entries == ["basher:x*"]


def test_one_entry_can_be_revoked_alone() -> None:
    session = folded(entry("bash:git *"), entry("bash:ls*"), allow("k"), entry("bash:git *", "revoked"))
    assert session.standing.entries == ["bash:ls*"]
    assert session.standing.allowed == {"k"}


def test_an_opening_ends_changes_and_decisions() -> None:
    session = folded(ConfigChanged(patch={"a": 1}), allow("k"), entry("bash"), SessionEvent(action="resumed"))
    assert session.patch == {}
    assert (session.standing.allowed, session.standing.entries) == (set(), [])


def test_changes_of_settings_are_merged() -> None:
    session = folded(ConfigChanged(patch={"a": {"b": 1, "c": 2}}), ConfigChanged(patch={"a": {"b": None}, "d": 3}))
    assert session.patch == {"a": {"c": 2}, "d": 3}


def test_nearness_to_the_budget_is_remembered() -> None:
    session = folded(ErrorEvent(data={"near_budget": True}))
    assert session.metadata["guardrails"]["near_budget_warned"] is True


def test_a_summary_says_how_far_it_reaches() -> None:
    session = folded(UserMessage(content="a"), Compacted(up_to_seq=1, summary="they spoke"))
    assert session.metadata["compacted_up_to"] == 1
    assert len(session.to_messages()) == 1


# --- cuts and copies --------------------------------------------------------------------------


def test_calls_that_are_cut_get_results_with_what_was_said() -> None:
    session = folded(TurnStarted(), call(1), call(2), call(3), AssistantMessage(), result(2))
    cut = cut_results(session, "Cut.", {"c3": "so far\n"})
    assert [(fact.tool_call_id, fact.output, fact.is_error, fact.data) for fact in cut] == [
        ("c1", "Cut.", True, {"cut": True}),
        ("c3", "so far\nCut.", True, {"cut": True}),
    ]
    session.append(cut)
    assert session.open_calls == {}


SAID = [
    SessionEvent(action="started"),
    TurnStarted(),
    UserMessage(content="one"),
    call(1),
    call(2),
    AssistantMessage(),
    result(1),
    result(2),
    AssistantMessage(content="two"),
    TurnEnded(),
    queued("waits"),
]


@pytest.mark.covers("SES-35")
def test_a_copy_has_all_facts_but_those_of_the_session_itself() -> None:
    first, *facts = fork(folded(*SAID))
    assert first.action == "forked"
    assert facts == SAID[1:-1]


@pytest.mark.covers("SES-34")
def test_a_copy_of_some_messages_has_just_those() -> None:
    parent = folded(*SAID)
    copy = Session()
    copy.append(fork(parent, 1))
    assert copy.to_messages() == parent.to_messages()[:1]
    assert copy.metadata["forked_from"] == parent.session_id


@pytest.mark.parametrize("count", range(7))
def test_a_copy_cut_anywhere_is_valid(problems_of, count) -> None:
    copy = Session()
    copy.append(fork(folded(*SAID), count))
    copy.add_user_message("go on")
    assert problems_of(copy.to_messages()) == []
    assert copy.open_calls == {}


@pytest.mark.parametrize("at_message", [None, 1])
def test_a_copy_takes_what_is_in_force_along(at_message) -> None:
    before = [ConfigChanged(patch={"old": 1}), entry("old"), allow("old")]
    opened = SessionEvent(action="resumed")
    after = [ConfigChanged(patch={"new": 1}), entry("bash:git *"), allow("yes"), allow("no", "deny")]
    copy = Session()
    copy.append(fork(folded(*before, opened, UserMessage(content="x"), *after), at_message))
    assert copy.patch == {"new": 1}
    assert (copy.standing.allowed, copy.standing.denied) == ({"yes"}, {"no"})
    assert copy.standing.entries == ["bash:git *"]
    copy.append(entry("bash", "revoked"))
    assert (copy.standing.allowed, copy.standing.denied, copy.standing.entries) == (set(), set(), [])
