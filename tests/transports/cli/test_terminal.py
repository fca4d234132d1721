from __future__ import annotations

import json
import signal

import pytest
import trio

QUESTION = "Allow? [y]es / [n]o / [a]lways:"


@pytest.mark.covers("CLI-10")
@pytest.mark.parametrize(("answer", "made"), [("YES\n", True), ("n\n", False), ("\n", False)])
async def test_a_person_answers_the_question(terminal, model, flags, place, answer, made):
    model.calls("write_file", path="a.txt", content="x").says("Well.")
    async with terminal("run", "write", *flags) as screen:
        shown = await screen.until(QUESTION)
        await screen.type(answer)
        await screen.until("Well.")
        assert await screen.end() == 0
    assert (place.project / "a.txt").exists() is made
    assert "Approval Required" in shown
    assert "writes need approval" in shown


@pytest.mark.covers("CLI-10")
async def test_always_is_asked_once(terminal, model, flags, place):
    command = "echo more >> a.txt"
    model.calls("bash", command=command).calls("bash", command=command).says("Twice.")
    async with terminal("run", "write", *flags) as screen:
        await screen.until(QUESTION)
        await screen.type("a\n")
        await screen.until("Twice.")
        assert await screen.end() == 0
        assert screen.text.count(QUESTION) == 1
    assert (place.project / "a.txt").read_text() == "more\nmore\n"


@pytest.mark.covers("SAFE-25")
async def test_the_end_of_input_is_a_no(terminal, model, flags, place):
    model.calls("write_file", path="a.txt", content="x").says("Then not.")
    async with terminal("run", "write", *flags) as screen:
        await screen.until(QUESTION)
        await screen.type("\x04")
        await screen.until("Then not.")
        assert await screen.end() == 0
    assert not (place.project / "a.txt").exists()


async def test_what_was_typed_before_the_question_is_no_answer(terminal, model, flags, place):
    go_on = trio.Event()
    model.says("Wait.", calls=(("write_file", {"path": "a.txt", "content": "x"}),), wait=go_on).says("Well.")
    async with terminal("run", "write", *flags) as screen:
        await screen.until("Wait.")
        await screen.type("y\n")
        await screen.until("y")  # its echo: the terminal has it
        go_on.set()
        await screen.until(QUESTION)
        await screen.type("n\n")
        assert await screen.end() == 0
    assert not (place.project / "a.txt").exists()


async def test_the_question_shows_the_whole_command_and_what_is_hidden_in_it(terminal, model, flags):
    command = "echo \x1b[8m" + "a" * 300 + " \u202efdp.exe"
    model.calls("bash", command=command).says("No.")
    async with terminal("run", "go", *flags) as screen:
        shown = await screen.until(QUESTION)
        await screen.type("n\n")
        await screen.end()
    panel = "".join(shown[shown.index("Approval Required") :].replace("│", "").split())
    assert r"echo\x1b[8m" in panel
    assert "a" * 300 in panel
    assert r"\u202efdp.exe" in panel
    assert "\x1b[8m" not in screen.raw


async def test_a_long_text_stands_whole_above_the_question(terminal, model, flags):
    content = "\n".join(f"line {number}" for number in range(200))
    model.calls("write_file", path="a.txt", content=content).says("No.")
    async with terminal("run", "go", *flags) as screen:
        shown = await screen.until(QUESTION)
        await screen.type("n\n")
        await screen.end()
    marked = "\n".join(f"  │ {line}" for line in content.splitlines())
    assert f"  content:\n{marked}\n" in shown
    assert f"content: ({len(content)} chars, 200 lines — shown above)" in shown


async def test_no_argument_of_a_question_is_cut(terminal, model, flags, place):
    edits = [{"old": "a" * 100, "new": "b" * 100 + "\x9b8m"}]
    model.calls("write_file", path="a.txt", content="x", edits=edits, note="n" * 500).says("No.")
    async with terminal("run", "go", *flags) as screen:
        shown = await screen.until(QUESTION)
        await screen.type("n\n")
        await screen.end()
    above = "".join(shown[: shown.index("Approval Required")].replace("│", "").split())
    assert "note:" + "n" * 500 in above
    assert "b" * 100 + r"\x9b8m" in above
    assert "note: (500 chars, 1 lines — shown above)" in shown


async def test_the_first_question_waits_also_when_the_task_was_typed(terminal, model, flags, place):
    model.calls("write_file", path="a.txt", content="x").says("Well.")
    async with terminal("run", "-", *flags) as screen:
        await screen.type("write\n\x04")
        await screen.until(QUESTION)
        await screen.type("y\n")
        await screen.until("Well.")
        assert await screen.end() == 0
    assert (place.project / "a.txt").read_text() == "x"


async def test_standard_error_elsewhere_means_nobody_can_see_a_question(place, terminal, model, flags):
    """The program is on a terminal, but its questions would go into a file."""
    model.calls("write_file", path="a.txt", content="x").says("I may not.")
    async with terminal("run", "write", *flags, err=place.home.parent / "err.txt") as screen:
        await screen.until("I may not.")
        assert await screen.end() == 0
    assert QUESTION not in (place.home.parent / "err.txt").read_text()


@pytest.mark.parametrize("command", ["acp", "mcp"])
async def test_a_command_for_programs_says_so_to_a_person_who_types_it(terminal, flags, command):
    async with terminal(command, *flags) as screen:
        await screen.until("To talk yourself: aar chat.")
        await screen.type("\x03")
        assert await screen.end() in (0, 130)


# --- Ctrl+C -----------------------------------------------------------------------------------


async def test_ctrl_c_cancels_a_run(terminal, model, flags):
    model.says("first", wait=trio.Event())
    async with terminal("run", "go", *flags) as screen:
        await screen.until("first")
        await screen.type("\x03")
        await screen.until("Agent cancelled")
        await screen.until("Session: ")
        assert await screen.end() == 130


async def test_ctrl_c_twice_leaves_with_the_session_and_without_a_status_line(terminal, model, flags):
    model.calls("bash", command="trap '' TERM INT; echo started-$((1 + 1)); while :; do sleep 0.1; done")
    async with terminal("run", "go", "--yes", *flags) as screen:
        await screen.until("bash … ")
        await screen.until("started-2")
        await screen.type("\x03\x03")
        assert await screen.end() == 130
    assert screen.text.splitlines()[-1].startswith("Session: ")


async def test_ctrl_c_at_a_question_withdraws_it(terminal, model, flags, place):
    model.calls("write_file", path="a.txt", content="x").says("Well.")
    async with terminal("run", "write", "--output", "json", *flags) as screen:
        await screen.until(QUESTION)
        await screen.type("\x03")
        assert await screen.end() == 130
    document = json.loads(screen.text.splitlines()[-1])
    assert (document["stop"], document["state"]) == ("cancelled", "cancelled")
    assert not (place.project / "a.txt").exists()


@pytest.mark.covers("CLI-04")
async def test_ctrl_c_in_a_chat_cancels_the_turn_and_at_the_prompt_leaves(terminal, model, flags):
    model.says("first", wait=trio.Event())
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("go\n")
        await screen.until("first")
        await screen.type("\x03")
        await screen.until("Agent cancelled")
        await screen.until("> ")
        await screen.type("\x03")
        await screen.until("Goodbye.")
        await screen.until("Session saved: ")
        assert await screen.end() == 0


async def test_ctrl_c_ends_a_command_that_does_not_want_to_end(terminal, model, flags, place):
    model.calls("bash", command="trap '' TERM INT; echo started-$((1 + 1)); while :; do sleep 0.1; done")
    async with terminal("chat", "--yes", *flags) as screen:
        await screen.until("> ")
        await screen.type("go\n")
        await screen.until("started-2")
        await screen.type("\x03")
        await screen.until("Agent cancelled")
        await screen.until("> ")
        await screen.type("\x04")
        assert await screen.end() == 0
    assert not list((place.home / "sessions").glob("*.lock"))


async def test_a_terminal_that_goes_away_ends_the_chat(terminal, model, flags, place):
    model.says("first", wait=trio.Event())
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("go\n")
        await screen.until("first")
        screen.process.send_signal(signal.SIGHUP)
        assert await screen.end() == 129


# --- signs of life ----------------------------------------------------------------------------


async def test_a_line_moves_while_the_model_is_silent_and_is_gone_after(terminal, model, flags):
    go_on = trio.Event()
    model.says(wait=go_on).says("Here.")
    model.says("Here.")
    async with terminal("run", "go", *flags) as screen:
        await screen.until("generic/tiny … ")
        go_on.set()
        assert await screen.end() == 0
    line = screen.raw.rindex("generic/tiny … ")
    assert "\r\x1b[K" in screen.raw[line:]  # cleared before anything else is written


async def test_a_line_moves_in_the_middle_of_an_answer_and_the_answer_goes_on_where_it_was(terminal, model, flags):
    go_on = trio.Event()
    model.says("One ", "two.", wait=go_on)
    async with terminal("run", "go", *flags) as screen:
        await screen.until("One ")
        await screen.until("generic/tiny … ")
        go_on.set()
        assert await screen.end() == 0
    assert "\r\x1b[K\x1b[A\x1b[4Ctwo." in screen.raw


async def test_the_line_shows_what_a_running_tool_says(terminal, model, flags):
    model.calls("bash", command="echo step-$((1 + 1)); read wait < /dev/zero").says("x")
    async with terminal("run", "go", "--yes", *flags) as screen:
        await screen.until("bash … ")
        await screen.until("step-2")
        await screen.type("\x03")
        assert await screen.end() == 130


async def test_the_line_shows_one_line_whatever_a_tool_writes_over(terminal, model, flags):
    model.calls("bash", command="printf 'at 10\\rat 20\\r'; read wait < /dev/zero").says("x")
    async with terminal("run", "go", "--yes", *flags) as screen:
        await screen.until("s  at 20\r")
        await screen.type("\x03")
        assert await screen.end() == 130


async def test_no_color_means_no_colours_and_no_boxes(terminal, model, flags, place):
    place.variables["NO_COLOR"] = "1"
    place.write("a.txt", "alpha")
    model.calls("read_file", path="a.txt").says("**bold**")
    async with terminal("run", "go", *flags) as screen:
        assert await screen.end() == 0
    assert "\x1b[3" not in screen.raw
    assert "╭" not in screen.raw
    assert "**bold**" in screen.raw


async def test_a_terminal_gets_panels_and_text_cannot_move_its_cursor(terminal, model, flags, place):
    place.write("a.txt", "\x1b[2Jalpha\x1b]0;owned\x07\rbeta")
    model.calls("read_file", path="a.txt").says("ok \x1b[31mred")
    async with terminal("run", "go", *flags) as screen:
        assert await screen.end() == 0
    assert "╭─ Result: read_file " in screen.text
    assert "\x1b[2J" not in screen.raw
    assert "owned" not in screen.raw
    assert "\x1b[31mred" not in screen.raw
