"""Sessions that somebody has named, and copies of sessions."""

from __future__ import annotations

import pytest

from aar.testing import ScriptedProvider


@pytest.mark.covers("AURA-103")
async def test_a_named_session_goes_on_by_its_name(aar, model, flags):
    model.says("One.").says("Two.")
    await aar("chat", *flags, stdin="hi\n/rename my work\n")
    done = await aar("run", "--session", "my work", "again", *flags)
    assert (done.code, done.out) == (0, "Two.\n")


@pytest.mark.covers("AURA-103")
def test_a_session_is_named_and_found_by_its_name(here, told):
    session_id = told(ScriptedProvider().text("One."), "hi")
    assert here("sessions", "rename", session_id[:6], "my work").out == f"{session_id} is named my work\n"
    assert here("sessions").out.endswith("  my work\n")
    assert here("sessions", "show", "my work").out.startswith(f"Session: {session_id}\n")
    assert here("sessions", "rename", "my work", "").out == f"{session_id} has no name\n"
    assert here("sessions", "show", "my work").code == 2
    here("sessions", "rename", session_id, "other")
    assert here("sessions", "delete", "other").out == f"Deleted {session_id}\n"


@pytest.mark.covers("AURA-103")
def test_what_could_mean_two_sessions_is_an_error_that_names_them(here, told, place):
    ids = sorted(told(ScriptedProvider().text("One."), "hi") for _ in range(2))
    for session_id in ids:
        here("sessions", "rename", session_id, "same")
    said = here("sessions", "show", "same")
    assert said.code == 1
    assert sorted(said.err.strip().partition(": 2 sessions are named same: give the id. ")[2].split(", ")) == ids
    for session_id, other in zip(ids, ("abcdef01", "abcdef02"), strict=True):
        (place.home / "sessions" / f"{session_id}.jsonl").rename(place.home / "sessions" / f"{other}.jsonl")
    said = here("sessions", "show", "abcdef")
    assert said.code == 1
    assert sorted(said.err.strip().partition("give more of the id. ")[2].split(", ")) == ["abcdef01", "abcdef02"]


@pytest.mark.covers("AURA-103")
def test_a_session_is_copied_whole_or_in_part(here, told):
    session_id = told(ScriptedProvider().text("One."), "hi")
    copies = [here("sessions", "fork", session_id, *more).out.strip() for more in ((), ("--at", "1"))]
    said = [here("sessions", "export", copy).out.partition("## ")[2].split("\n\n") for copy in copies]
    assert said == [["User", "hi", "## Assistant", "One.\n"], ["User", "hi\n"]]


async def test_what_was_taken_back_is_shown_with_a_word(aar, model, flags):
    model.says("One.")
    done = await aar("chat", *flags, stdin="hi\n/drop 1\n")
    session_id = done.err.split()[-1]
    said = (await aar("sessions", "export", session_id)).out.partition("## ")[2].split("\n\n")
    assert said == ["User", "hi", "## Assistant", "One.", "## Taken back", "1 messages before this count no more.\n"]
