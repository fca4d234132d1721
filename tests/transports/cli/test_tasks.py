"""`aar tasks`: what is kept in a file is listed, done by hand, and done when it is due."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta

import pytest


def keep(place, **tasks) -> None:
    place.home.mkdir(exist_ok=True)
    (place.home / "tasks.json").write_text(json.dumps(tasks))


def test_tasks_are_listed_with_the_time_at_which_they_are_due(here, place):
    kept = place.home / "tasks.yaml"
    assert here("tasks").out == f"There are no tasks: keep them in {kept}, one line each: `NAME: PROMPT`.\n"
    assert "Which task? Give its name: `aar tasks` lists them." in here("tasks", "run").err
    keep(place, tidy=["Remove what is\nnot used.", "two"], nightly={"prompts": "x", "when": "daily 03:00"})
    first, second = here("tasks", "list").out.splitlines()
    assert first == "  tidy     by hand           Remove what is not used. (and 1 more)"
    at = datetime.now() + timedelta(days=datetime.now().hour >= 3)
    assert second == f"  nightly  {at:%Y-%m-%d} 03:00  x"


def test_a_mistake_in_the_file_is_told(here, place):
    keep(place, a={"prompts": "x", "when": "often"})
    done = here("tasks")
    assert (done.code, "tasks.json: a.when: 'often' is no schedule" in done.err) == (2, True)
    assert here("tasks", "--file", "nosuch.json").code == 2


@pytest.mark.covers("AURA-117")
async def test_tasks_are_done_by_hand(aar, model, flags, place):
    keep(place, greet=["hi", "!echo x > made"], bad="!false")
    model.says("Hello.")
    done = await aar("tasks", "run", "greet", "bad", "--yes", *flags)
    assert (done.code, done.out) == (1, "Hello.\n")
    assert "aar: bad: !false: Exit code: 1" in done.err
    assert done.err.count("Session: ") == 2
    assert (place.project / "made").exists()
    done = await aar("tasks", "run", "nosuch", *flags)
    assert (done.code, "There is no task 'nosuch'. There are: greet, bad." in done.err) == (2, True)


async def test_watching_ends_with_a_signal(started, model, flags, place):
    keep(place, soon={"prompts": "hi", "when": f"once {datetime.now() + timedelta(minutes=9):%Y-%m-%d %H:%M}"})
    async with started("tasks", "watch", *flags) as process:
        assert b"Watching 1 task. Ctrl+C ends it." in await process.stderr.receive_some(200)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 143


def test_nothing_is_watched_where_nothing_is_due(here, place):
    keep(place, a="x")
    done = here("tasks", "watch")
    assert (done.code, "No task has a schedule" in done.err) == (2, True)
    assert here("tasks", "watch", "--at-once", "0").code == 2
