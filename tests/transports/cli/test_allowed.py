"""What is allowed for good: in one project, or everywhere."""

from __future__ import annotations

import json

import pytest


def results_of(request) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


async def asked(aar, model, command: str, *flags: str, **more) -> str:
    """What the model gets when it runs this command and nobody is there to be asked."""
    model._answers.clear()  # the last one would be given again
    model.calls("bash", command=command).says("done")
    at = len(model.requests)
    await aar("run", "go", *flags, **more)
    return results_of(model.requests[at + 1])[-1]


@pytest.mark.covers("AURA-77")
async def test_what_is_allowed_for_a_project_is_not_asked_in_the_next_run_and_nothing_else_is(
    aar, model, flags, place, tmp_path
):
    done = await aar("chat", *flags, stdin="/allow bash:echo push* project\n/allow\n")
    assert "Allowed in this project: bash:echo push*" in done.err
    assert "bash:echo push*" in done.err.partition("Allowed in this project")[2]
    assert await asked(aar, model, "echo push origin", *flags) == "push origin\n"
    assert "denied" in await asked(aar, model, "echo reset", *flags)
    assert "denied" in await asked(aar, model, "echo push; echo reset", *flags)
    other = tmp_path / "other"
    other.mkdir()
    assert "denied" in await asked(aar, model, "echo push", *flags, cwd=other)
    await aar("chat", *flags, stdin="/revoke bash:echo push*\n")
    assert "denied" in await asked(aar, model, "echo push origin", *flags)
    kept = json.loads((place.home / "trust" / "approvals.json").read_text())
    assert kept == {"version": 1, "allowed": {}}


async def test_what_is_allowed_everywhere_holds_in_every_folder_and_in_a_session_that_is_begun_anew(
    aar, model, flags, tmp_path
):
    await aar("chat", *flags, stdin="/allow bash:echo* global\n")
    other = tmp_path / "other"
    other.mkdir()
    assert await asked(aar, model, "echo x", *flags, cwd=other) == "x\n"
    model._answers.clear()
    model.says("hi").calls("bash", command="echo y").says("done")
    at = len(model.requests)
    await aar("chat", *flags, stdin="first\n/clear\nsecond\n")
    assert results_of(model.requests[at + 2]) == ["y\n"]


async def test_what_is_allowed_for_the_session_is_not_kept(aar, model, flags, place):
    model.calls("bash", command="echo x").says("done")
    await aar("chat", *flags, stdin="/allow bash:echo *\ngo\n")
    assert results_of(model.requests[1]) == ["x\n"]
    assert not (place.home / "trust").exists()
    assert "denied" in await asked(aar, model, "echo x", *flags)


@pytest.mark.parametrize("rule", ["bash: project", ":x project", "\x1b[31m project"])
async def test_what_is_no_rule_is_not_kept(aar, flags, place, model, rule):
    done = await aar("chat", *flags, stdin=f"/allow {rule}\n")
    assert "is no rule" in done.err
    assert not (place.home / "trust").exists()


async def test_a_file_that_is_damaged_is_told(aar, flags, place, model):
    (place.home / "trust").mkdir(parents=True)
    (place.home / "trust" / "approvals.json").write_text('{"allowed": {"": [1]}}')
    done = await aar("run", "go", *flags)
    assert (done.code, model.requests) == (2, [])
    assert "approvals.json: is not what Aar writes." in done.err
