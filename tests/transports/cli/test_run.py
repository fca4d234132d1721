from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pytest
import trio

SESSION = "Session: "


def session_in(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.startswith(SESSION)]
    return line.removeprefix(SESSION)


def events_in(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.covers("CLI-06")
async def test_run_prints_the_answer_on_stdout_and_the_rest_on_stderr(aar, model, flags, place):
    model.says("Hello ", "there.")
    done = await aar("run", "say", "hello", *flags)
    assert (done.code, done.out) == (0, "Hello there.\n")
    session_id = session_in(done.err)
    assert done.err == f"(10in / 5out)\n{SESSION}{session_id}\n"
    assert (place.home / "sessions" / f"{session_id}.jsonl").exists()
    assert model.requests[0]["messages"][-1] == {"role": "user", "content": "say hello"}


async def test_an_answer_that_is_not_streamed_is_printed_once(aar, model, flags, place):
    place.configure(streaming=False)
    model.says("All at once.")
    done = await aar("run", "hi", *flags)
    assert (done.code, done.out) == (0, "All at once.\n")
    assert [request["stream"] for request in model.requests] == [False]


async def test_streaming_is_on_unless_the_file_says_no(aar, model, flags):
    model.says("x")
    await aar("run", "hi", *flags)
    assert model.requests[0]["stream"] is True


async def test_the_task_can_come_from_standard_input(aar, model, flags):
    model.says("ok")
    done = await aar("run", "-", *flags, stdin="two\nlines\n")
    assert (done.code, model.requests[0]["messages"][-1]["content"]) == (0, "two\nlines\n")


async def test_words_after_two_dashes_are_a_task_whatever_they_look_like(aar, model, flags):
    model.says("ok")
    await aar("run", *flags, "--", "--help", "-y")
    assert model.requests[0]["messages"][-1]["content"] == "--help -y"


async def test_files_that_the_task_names_go_along(aar, model, flags, place):
    place.write("notes.txt", "remember the milk")
    place.write("shot.png", "no real picture")
    model.says("ok")
    done = await aar("run", "look at @notes.txt and @shot.png", *flags)
    parts = model.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text"]
    assert "remember the milk" in parts[0]["text"]
    assert "  Attached: image\n" in done.err


@pytest.mark.covers("MM-09")
async def test_each_image_and_sound_is_named_and_that_the_model_hears_none(aar, model, flags, place):
    place.write("shot.png", "no real picture")
    place.write("tone.wav", "no real sound")
    model.says("ok")
    done = await aar("run", "look at @shot.png, hear @tone.wav", *flags)
    told = [line for line in done.err.splitlines() if "ttached" in line or "udio" in line]
    assert told[:3] == [
        "  Attached: image",
        "  Attached: audio",
        "Audio is not supported by generic and will be dropped.",
    ]


async def test_a_task_from_a_pipe_names_only_files_that_tools_may_read(aar, model, flags, place, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("not of this project")
    place.write("notes.txt", "remember the milk")
    place.configure(safety={"allowed_paths": ["<cwd>/**"]})
    model.says("ok")
    typed = await aar("run", f"look at @{outside}", *flags)
    piped = await aar("run", "-", *flags, stdin=f"look at @{outside} @notes.txt")
    asked = [json.dumps(request["messages"]) for request in model.requests]
    assert ["not of this project" in text for text in asked] == [True, False]
    assert "remember the milk" in asked[1]
    assert ["Not attached" in done.err for done in (typed, piped)] == [False, True]


async def test_a_question_whose_file_cannot_go_along_is_not_sent(aar, model, flags, place):
    place.configure(hooks={})
    place.write("keys.pem", "secret")
    model.says("ok")
    for name, reason in (
        (f"{place.home}/config.json", "Not allowed to read config.json"),
        ("keys.pem", "Not allowed to read keys.pem"),
        ("gone.txt", f"File not found: {place.project}/gone.txt"),
    ):
        done = await aar("run", f"look at @{name}", *flags)
        assert (done.code, done.out) == (2, "")
        assert f"aar: {reason}" in done.err
        assert "Nothing was sent: " in done.err
    assert not model.requests
    assert not list((place.home).glob("sessions/*.jsonl"))


async def test_files_of_a_session_that_goes_on_are_named_from_its_folder(aar, model, flags, place, tmp_path):
    place.write("notes.txt", "remember the milk")
    model.says("ok")
    session = (await aar("run", "hi", *flags)).err.split()[-1]
    done = [await aar("run", f"@{name}", "-s", session, *flags, cwd=tmp_path) for name in ("notes.txt", "gone.txt")]
    assert [one.code for one in done] == [0, 2]
    assert f"File not found: {place.project}/gone.txt" in done[1].err
    assert "remember the milk" in json.dumps(model.requests[1]["messages"])
    assert len(model.requests) == 2


async def test_words_of_a_diff_that_name_no_file_stay_in_it(aar, model, flags):
    model.says("ok")
    done = await aar("run", "-", *flags, stdin=" @pytest.fixture\n+def it(): ...\n")
    assert (done.code, "ttached" in done.err) == (0, False)
    assert model.requests[0]["messages"][-1]["content"].strip() == "@pytest.fixture\n+def it(): ..."


# --- exit codes -------------------------------------------------------------------------------


def _end_turn(model, place):
    model.says("done")


def _provider_error(model, place):
    model.says("wrong key", status=401)


def _max_steps(model, place):
    place.configure(max_steps=1)
    model.calls("list_directory", path=".")


def _timed_out(model, place):
    place.configure(timeout=0.3)
    model.says(wait=trio.Event())


def _budget(model, place):
    place.configure(token_budget=3)
    model.says("too much")


def _filtered(model, place):
    model.says("", finish="content_filter")


def _bad_file(model, place):
    place.configure(max_steps="many")


@pytest.mark.covers("CLI-07")
@pytest.mark.parametrize(
    ("scene", "code", "told"),
    [
        (_end_turn, 0, "Session: "),
        (_provider_error, 1, "Error"),
        (_filtered, 1, "The provider stopped its answer"),
        (_bad_file, 2, "max_steps"),
        (_max_steps, 3, "Reached max steps (1)"),
        (_timed_out, 4, "Agent timed out after 0.3s"),
        (_budget, 5, "Token budget exceeded (15/3)"),
    ],
)
async def test_the_exit_code_says_how_the_run_ended(aar, model, flags, place, scene, code, told):
    scene(model, place)
    done = await aar("run", "go", *flags)
    assert (done.code, told in done.err, "Traceback" in done.err) == (code, True, False), done


@pytest.mark.parametrize(("scene", "goes_on"), [(_max_steps, True), (_timed_out, True), (_budget, False)])
async def test_a_run_that_was_cut_short_says_how_to_go_on(aar, model, flags, place, scene, goes_on):
    scene(model, place)
    *_, before, last = (await aar("run", "go", *flags)).err.splitlines()
    session_id = last.removeprefix(SESSION)
    assert (before == f'To go on: aar run --session {session_id} "go on"') is goes_on


@pytest.mark.covers("CLI-07")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_cancels_the_turn_and_the_exit_code_names_it(started, model, flags, place, number, code):
    model.says(wait=trio.Event())
    async with started("run", "wait", "--output", "stream-json", *flags) as process:
        await model.asked.wait()
        process.send_signal(number)
        events = events_in(b"".join([data async for data in process.stdout]).decode())
    assert process.returncode == code
    assert [(event["type"], event.get("stop")) for event in events[-2:]] == [
        ("error", None),
        ("turn_ended", "cancelled"),
    ]
    assert not list((place.home / "sessions").glob("*.lock"))


async def test_a_command_that_runs_ends_with_the_program(started, model, flags):
    model.calls("bash", command="echo $$; sleep 1000")
    async with started("run", "go", "--yes", "--output", "stream-json", *flags) as process:
        text = b""
        while b'"type":"tool_output"' not in text:
            text += await process.stdout.receive_some()
        [output] = [event for event in events_in(text.decode()) if event["type"] == "tool_output"]
        process.send_signal(signal.SIGTERM)
        while await process.stdout.receive_some():
            pass
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(output["text"]), 0)


# --- outputs for programs ---------------------------------------------------------------------


async def test_json_is_one_document_about_this_run(aar, model, flags, place):
    place.write("a.txt", "alpha")
    model.calls("read_file", path="a.txt").says("It says alpha.")
    done = await aar("run", "read", "--output", "json", *flags)
    document = json.loads(done.out)
    [result] = document.pop("tool_results")
    assert (result.pop("duration_ms") >= 0, result["tool_name"], result["is_error"]) == (True, "read_file", False)
    assert "alpha" in result["output"]
    session_id = document.pop("session_id")
    assert (place.home / "sessions" / f"{session_id}.jsonl").exists()
    assert document == {
        "response": "It says alpha.",
        "state": "completed",
        "step_count": 2,
        "stop": "end_turn",
        "usage": {"input_tokens": 20, "output_tokens": 10},
        "cost": 0.0,
        "error": None,
    }
    assert done.err == ""


async def test_json_is_printed_also_when_the_run_fails(aar, model, flags):
    model.says("wrong key", status=401)
    done = await aar("run", "go", "--output", "json", *flags)
    document = json.loads(done.out)
    assert (done.code, document["stop"], document["state"], document["response"]) == (1, "error", "error", "")
    assert set(document["error"]) == {"message", "recoverable"}


async def test_json_tells_of_this_run_only(aar, model, flags):
    model.calls("list_directory", path=".").says("first").says("second").says("wrong key", status=401)
    first = json.loads((await aar("run", "one", "--output", "json", *flags)).out)
    again = await aar("run", "two", "--output", "json", "--session", first["session_id"], *flags)
    second = json.loads(again.out)
    assert [len(document["tool_results"]) for document in (first, second)] == [1, 0]
    assert (second["session_id"], second["response"], second["usage"]["input_tokens"]) == (
        first["session_id"],
        "second",
        10,
    )
    failed = await aar("run", "three", "--output", "json", "--session", first["session_id"], *flags)
    assert [json.loads(failed.out)[name] for name in ("stop", "response", "cost")] == ["error", "", 0.0]


async def test_stream_json_is_the_turn_in_journal_order(aar, model, flags, place):
    model.calls("list_directory", "Looking.", path=".").says("Done.")
    done = await aar("run", "look", "--output", "stream-json", *flags)
    events = events_in(done.out)
    facts = [event for event in events if "seq" in event]
    assert [event["type"] for event in facts] == [
        "session",
        "turn_started",
        "user_message",
        "provider_meta",
        "tool_call",
        "assistant_message",
        "tool_started",
        "tool_result",
        "provider_meta",
        "assistant_message",
        "turn_ended",
    ]
    assert [event["seq"] for event in facts] == list(range(1, 12))
    hints = [event for event in events if "seq" not in event]
    assert {event["type"] for event in hints} == {"stream_chunk"}
    assert "".join(event["text"] for event in hints) == "Looking.Done."
    assert (facts[0]["action"], events[-1]["type"]) == ("started", "turn_ended")
    assert len({event["turn_id"] for event in events[1:]}) == 1
    assert done.err == ""


async def test_stream_json_without_streaming_has_no_hints(aar, model, flags, place):
    place.configure(streaming=False)
    model.says("Done.")
    first = await aar("run", "look", "--output", "stream-json", *flags)
    events = events_in(first.out)
    assert all("seq" in event for event in events)
    again = await aar("run", "go", "--output", "stream-json", "--continue", *flags)
    assert (events_in(again.out)[0]["action"], events_in(again.out)[-1]["type"]) == ("resumed", "turn_ended")


async def test_a_line_of_stream_json_is_there_as_soon_as_it_happened(started, model, flags):
    go_on = trio.Event()
    model.says("first", " second", wait=go_on)
    async with started("run", "go", "--output", "stream-json", *flags) as process:
        text = b""
        while b'"text":"first"' not in text:
            text += await process.stdout.receive_some()
        go_on.set()
        while await process.stdout.receive_some():
            pass
    assert process.returncode == 0


async def test_a_reader_that_leaves_ends_the_run_cleanly(started, model, flags, place):
    go_on = trio.Event()
    model.says("first", "second", wait=go_on, hold=trio.Event())
    async with started("run", "go", *flags) as process:
        await process.stdout.receive_some()
        await process.stdout.aclose()
        go_on.set()
        err = b"".join([data async for data in process.stderr]).decode()
    assert (process.returncode, "Traceback" in err, "Error" in err) == (130, False, False)
    [journal] = (place.home / "sessions").glob("*.jsonl")
    ends = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["stop"] for line in ends if line.get("type") == "turn_ended"] == ["cancelled"]


@pytest.mark.parametrize("words", [["tools"], ["--help"], ["run", "hi"], ["run", "hi", "--output", "json"]])
async def test_a_full_disk_is_one_line_and_a_failure(started, model, flags, words):
    model.says("hello")
    if words[0] == "run":
        words = [*words, *flags]
    full = os.open("/dev/full", os.O_WRONLY)
    async with started(*words, stdout=full) as process:
        os.close(full)
        err = b"".join([data async for data in process.stderr]).decode()
    told = [line for line in err.splitlines() if line]
    assert (process.returncode, len(told)) == (1, 1)
    assert told[0].startswith("aar: standard output: No space left on device")


async def test_json_has_no_character_that_a_terminal_obeys(aar, model, flags):
    text = "é\x9b2J\x1b[2J\x7f\u202e😀\U000e0041 end"
    model.says(text)
    one = (await aar("run", "hi", "--output", "json", *flags)).out
    stream = (await aar("run", "hi", "--output", "stream-json", *flags)).out
    stored = (await aar("sessions", "export", json.loads(one)["session_id"], "--format", "json")).out
    assert text in [event.get("content") for event in json.loads(stored)["events"]]
    for out in (one, stream, stored):
        assert [char for char in "\x9b\x1b\x7f\u202e\U000e0041" if char in out] == []
        assert "é" in out
    for out in (one, stream):
        lines = [json.loads(line) for line in out.splitlines()]
        assert text in [line.get("response", line.get("content")) for line in lines]


async def test_a_full_pipe_does_not_keep_a_cancel_from_being_heard(started, model, flags):
    model.says(*["x" * 60_000] * 8)
    async with started("run", "go", *flags) as process:  # nobody reads its output
        await model.asked.wait()
        while process.returncode is None:
            process.send_signal(signal.SIGINT)  # as people do
            with trio.move_on_after(0.3):
                await process.wait()
    assert process.returncode == 130


# --- approvals without a terminal ---------------------------------------------------------------


@pytest.mark.covers("SAFE-25")
async def test_without_a_terminal_a_question_is_denied_and_the_run_goes_on(aar, model, flags, place):
    model.calls("write_file", path="a.txt", content="x").says("I may not.")
    done = await aar("run", "write", *flags)
    assert (done.code, done.out) == (0, "I may not.\n")
    assert "Error [denied]" in done.err
    assert "Some calls were denied because nobody could be asked: run this in a terminal, or with --yes.\n" in done.err
    assert not (place.project / "a.txt").exists()


@pytest.mark.parametrize("words", [["--help"], ["version"], ["tools"], ["sessions"]])
async def test_a_closed_standard_output_is_no_error(place, words):
    done = await trio.run_process(
        ["sh", "-c", 'exec "$0" -m aar "$@" >&-', os.sys.executable, *words],
        cwd=place.project,
        env=place.environment,
        capture_stderr=True,
    )
    assert done.stderr == b""


@pytest.mark.covers("SAFE-25")
async def test_with_closed_streams_a_question_is_denied_and_the_run_goes_on(place, model, flags):
    model.calls("bash", command="touch a.txt").says("I may not.")
    command = 'exec "$0" -m aar run go "$@" <&-'
    with trio.fail_after(30):
        done = await trio.run_process(
            ["sh", "-c", command, os.sys.executable, *flags],
            cwd=place.project,
            env=place.environment,
            capture_stdout=True,
            capture_stderr=True,
        )
    assert (done.stdout, list(place.project.iterdir())) == (b"I may not.\n", [])


def test_a_task_from_a_standard_input_that_is_closed_is_empty(here, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # as Python begins then
    done = here("run", "-")
    assert (done.code, done.err) == (2, "aar: The task is empty.\n")


@pytest.mark.parametrize("flag", ["--yes", "--no-require-approval"])
async def test_yes_answers_every_question_beforehand(aar, model, flags, place, flag):
    model.calls("bash", command="echo made > a.txt").calls("write_file", path="b.txt", content="x").says("Made.")
    done = await aar("run", "make", flag, *flags)
    assert (done.code, done.out) == (0, "Made.\n")
    assert sorted(file.name for file in place.project.iterdir()) == ["a.txt", "b.txt"]


async def test_yes_does_not_lift_what_is_denied(aar, model, flags, place):
    model.calls("read_file", path="secrets.json").calls("bash", command="cat /etc/shadow; shutdown now").says("No.")
    place.write("secrets.json", "x")
    done = await aar("run", "go", "--yes", "--output", "json", *flags)
    results = json.loads(done.out)["tool_results"]
    assert [result["output"].partition("]")[0] for result in results] == ["Error [blocked", "Error [blocked"]
