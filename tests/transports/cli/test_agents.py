"""Agents and modes at the command line."""

from __future__ import annotations

import pytest

READER = """---
description: Reads and never writes.
tools: {only: [read_file, grep]}
max_steps: 7
---
You read {{ workspace }} for {{ vars.who or "nobody" }}.
"""
PLAN = "---\ndescription: Only plans.\ntools: {without: [grep]}\n---\nMake a plan."


@pytest.fixture
def roles(place):
    def write(name: str, text: str) -> None:
        file = place.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("agents/reader.md", READER)
    write("modes/plan.md", PLAN)
    return write


def tools_of(request) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", ())]


def prompt_of(request) -> str:
    [system] = [message["content"] for message in request["messages"] if message["role"] == "system"]
    return system


async def test_run_works_as_an_agent_in_a_mode(aar, model, flags, place, roles):
    model.says("done")
    done = await aar("run", "hi", "--agent", "Reader", "--mode", "plan", "--set", "who=me", *flags)
    assert (done.code, done.out) == (0, "done\n")
    assert tools_of(model.requests[0]) == ["read_file"]
    assert prompt_of(model.requests[0]).endswith(f"\nYou read {place.project} for me.\n---\nMake a plan.")


async def test_the_config_file_may_name_the_agent_that_is_used_without_a_flag(aar, model, flags, place, roles):
    place.configure(agent="reader")
    model.says("done")
    await aar("run", "hi", "--set", "who=me", *flags)
    assert tools_of(model.requests[0]) == ["grep", "read_file"]
    await aar("run", "hi", "--agent", "none", *flags)
    assert len(tools_of(model.requests[1])) > 2


async def test_a_session_that_is_resumed_goes_on_as_the_same_agent(aar, model, flags, roles):
    model.says("done")
    await aar("run", "one", "--agent", "reader", "--mode", "plan", "--set", "who=me", *flags)
    await aar("run", "two", "--continue", "--set", "who=you", *flags)
    assert [tools_of(request) for request in model.requests] == [["read_file"], ["read_file"]]
    assert "for you." in prompt_of(model.requests[1])


@pytest.mark.parametrize(
    ("words", "has", "lacks"),
    [
        ([], {"read_file"}, {"grep", "find_files", "bash"}),
        (["--mode", "none"], {"read_file", "grep"}, {"find_files", "bash"}),
        (["--agent", "other"], {"read_file", "find_files"}, {"grep", "bash"}),
        (["--agent", "none"], {"read_file", "bash"}, {"grep"}),
        (["--agent", "none", "--mode", "none"], {"read_file", "grep", "bash"}, set()),
    ],
)
async def test_a_flag_changes_what_a_resumed_session_was_and_leaves_the_rest(
    aar, model, flags, roles, place, words, has, lacks
):
    place.configure(agent="other")
    roles("agents/other.md", "---\ntools: {only: [read_file, grep, find_files]}\n---\n")
    model.says("done")
    await aar("run", "one", "--agent", "reader", "--mode", "plan", "--set", "who=me", *flags)
    await aar("run", "two", "--continue", *words, "--set", "who=you", *flags)
    found = set(tools_of(model.requests[1]))
    assert (has - found, lacks & found) == (set(), set())


async def test_a_resumed_session_whose_agent_is_gone_goes_on_without(aar, model, flags, roles, place):
    model.says("done")
    await aar("run", "one", "--agent", "reader", "--set", "who=me", *flags)
    (place.home / "agents" / "reader.md").unlink()
    done = await aar("run", "two", "--continue", *flags)
    assert done.code == 0
    assert "There is no agent 'reader'." in done.err
    assert len(tools_of(model.requests[1])) > 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--agent", "readr"], "aar: There is no agent 'readr'. Did you mean \"reader\"?\n"),
        (["--mode", "x"], "aar: There is no mode 'x'. There are: plan.\n"),
        (["--override", "max_stepz=3"], 'aar: There is no setting "max_stepz". Did you mean "max_steps"?\n'),
        (["--override", "max_steps=0"], "aar: flag: max_steps: Input should be greater than or equal to 1"),
        (["--override", "max_steps"], "aar: --override max_steps: say a setting and its value"),
        (["--set", "a b=c", "--agent", "reader"], "aar: --set a b=c: say a name and its text"),
        (["--homes", "/nowhere", "--agent", "reader"], "aar: /nowhere: there is no such folder."),
    ],
)
async def test_a_mistake_is_told_before_anything_is_asked(aar, model, flags, roles, words, told):
    done = await aar("run", "hi", *words, *flags)
    assert (done.code, model.requests) == (2, [])
    assert done.err.startswith(told)


async def test_a_template_without_its_name_is_told_with_file_and_line(aar, model, flags, roles, place):
    roles("agents/reader.md", "---\nmax_steps: 3\n---\none\n{{ vars.who }}")
    done = await aar("run", "hi", "--agent", "reader", *flags)
    assert (done.code, model.requests) == (2, [])
    assert done.err.startswith(f"aar: {place.home}/agents/reader.md:5: ")


async def test_config_says_where_each_value_comes_from(aar, roles, place):
    done = await aar("config", "--agent", "reader", "--set", "who=me", "--override", "timeout=9", "--max-steps", "3")
    shown = dict(line.split(" = ", 1) for line in done.out.splitlines())
    file = place.home / "agents" / "reader.md"
    assert shown["agent"] == '"reader"  (flag)'
    assert shown["max_steps"] == f"7  (file {file}:4)"
    assert shown["timeout"] == "9.0  (--override)"
    assert shown["tools.filters.agent"] == f'["read_file", "grep"]  (file {file}:3)'
    assert shown["max_retries"] == "3  (default)"


async def test_each_flag_has_a_variable_that_the_flag_itself_goes_over(aar, place, roles):
    place.variables |= {
        "AAR_FLAG_AGENT": "reader",
        "AAR_FLAG_SET": "who=me",
        "AAR_FLAG_OVERRIDE": "timeout=9 max_retries=2",
        "AAR_FLAG_YES": "true",
        "AAR_FLAG_LOG_LEVEL": "error",
    }
    shown = dict(line.split(" = ", 1) for line in (await aar("config", "--log-level", "info")).out.splitlines())
    expected = {
        "agent": '"reader"  (flag)',
        "timeout": "9.0  (--override)",
        "max_retries": "2  (--override)",
        "safety.require_approval_for_writes": "false  (flag)",
        "log_level": '"info"  (flag)',
    }
    assert {name: shown[name] for name in expected} == expected
    listed = (await aar("config", "--print-env")).out.splitlines()
    assert {"AAR_FLAG_AGENT=reader", "AAR_FLAG_OVERRIDE='timeout=9 max_retries=2'", "# AAR_FLAG_MODEL="} < set(listed)
    assert (await aar("version")).code == 0
    place.variables = {"AAR_FLAG_MAX_STEPS": "many"}
    done = await aar("config")
    assert (done.code, done.err.startswith("aar: Invalid value for AAR_FLAG_MAX_STEPS: ")) == (2, True)


@pytest.mark.covers("AURA-71")
async def test_tools_says_why_one_is_left_out(aar, roles):
    done = await aar("tools", "--agent", "reader", "--mode", "plan", "--set", "who=me")
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert lines["read_file"].startswith("  read_file  (read)")
    assert lines["bash"] == "  bash  (left out)  agent: not among read_file, grep"
    assert lines["grep"] == "  grep  (left out)  mode: left out by grep"


# --- aar agents, aar modes ----------------------------------------------------------------------


async def test_agents_lists_those_of_all_homes(aar, roles, place, tmp_path):
    roles("agents/base.md", "---\nhidden: true\n---\n")
    place.write(".aar/agents/theirs.md", "---\ndescription: Of the project.\n---\n")
    more = tmp_path / "more" / "agents"
    more.mkdir(parents=True)
    (more / "extra.md").write_text("---\ndescription: From elsewhere.\n---\n")
    done = await aar("agents", "--homes", str(more.parent), "--agent", "READER")
    assert done.out == (
        "  extra   From elsewhere.\n"
        "* reader  Reads and never writes.\n"
        f"  theirs  [not trusted: {place.project}/.aar/agents/theirs.md] Of the project.\n"
    )


async def test_modes_are_listed_though_an_agent_is_wrong(aar, roles):
    roles("agents/bad.md", "---\nnope: 1\n---\n")
    assert (await aar("modes")).out == "  plan  Only plans.\n"
    assert (await aar("agents")).code == 2


async def test_without_agents_the_list_says_how_to_make_one(aar, place):
    assert (await aar("agents")).out == f"No agents yet: each is a file NAME.md in {place.home}/agents.\n"


async def test_show_tells_values_places_and_the_text(aar, roles, place):
    done = await aar("agents", "show", "reader", "--set", "who=me")
    file = place.home / "agents" / "reader.md"
    assert done.out == (
        "agent reader\n"
        f"max_steps = 7  ({file}:4)\n"
        f'tools.filters.agent = ["read_file", "grep"]  ({file}:3)\n'
        "\n"
        f"--- agent ({file}:6) ---\n"
        f"You read {place.project} for me.\n"
    )
    assert "--- mode" in (await aar("modes", "show", "plan")).out


async def test_an_agent_of_a_project_may_allow_more_once_it_is_trusted_and_until_it_changes(aar, place, model, flags):
    file = place.write(".aar/agents/bold.md", "---\nsafety: {allowed_paths: []}\n---\nBold.\u200b\x1b]0;And all\x07")
    ask = ("config", "--agent", "bold")
    before = await aar(*ask)
    assert 'safety.allowed_paths = ["<cwd>/**"]' in before.out
    assert before.err.startswith("aar: The agent bold may not change safety.allowed_paths: its project is not trusted.")
    done = await aar("agents", "trust", "bold", stdin="y\n")
    assert (done.code, "Nobody is here to ask" in done.err) == (1, True)
    done = await aar("agents", "trust", "bold", "--yes")
    assert (done.code, done.out) == (0, "Trusted until the file changes: bold\n")
    assert "Bold.\\u200b\\x1b]0;And all\\x07\n" in done.err  # nobody can trust what is not to be seen
    assert f"safety.allowed_paths = []  (file {file}:2)" in (await aar(*ask)).out
    file.write_text(file.read_text() + "Changed.")
    assert 'safety.allowed_paths = ["<cwd>/**"]' in (await aar(*ask)).out


# --- while chatting -----------------------------------------------------------------------------


async def test_agents_and_modes_change_while_chatting(aar, model, flags, roles):
    model.says("one").says("two").says("three")
    lines = ["first", "/agent READER", "second", "/mode plan", "/agent", "third", "/agent none", "/agent nobody"]
    done = await aar("chat", "--set", "who=me", *flags, stdin="\n".join(lines) + "\n")
    assert [len(tools_of(request)) > 2 for request in model.requests] == [True, False, False]
    assert [tools_of(request) for request in model.requests[1:]] == [["grep", "read_file"], ["read_file"]]
    assert [message["content"] for message in model.requests[2]["messages"][1:]] == [
        "first",
        "one",
        "second",
        "two",
        "third",
    ]
    for told in (
        "Switched to the agent reader (generic/tiny).",
        "Switched to the mode plan (generic/tiny).",
        "* reader Reads and never writes.",
        "No agent is in force.",
        "There is no agent 'nobody'. There are: reader.",
    ):
        assert told in " ".join(done.err.split())


async def test_next_goes_through_the_modes_and_after_the_last_one_comes_none(aar, flags, roles):
    roles("modes/build.md", "Build it.")
    done = await aar("chat", *flags, stdin="/mode next\n" * 4)
    said = [line.partition(" (")[0] for line in done.out.splitlines() + done.err.splitlines() if "mode" in line]
    switched = "Switched to the mode"
    assert said == [f"{switched} build", f"{switched} plan", "No mode is in force.", f"{switched} build"]


async def test_a_session_that_is_begun_anew_keeps_its_agent_and_mode(aar, model, flags, roles):
    model.says("one").says("two")
    lines = ["/agent reader", "/mode plan", "first", "/clear", "second"]
    done = await aar("chat", "--set", "who=me", *flags, stdin="\n".join(lines) + "\n")
    assert done.err.count("Session saved: ") == 2
    assert [tools_of(request) for request in model.requests] == [["read_file"], ["read_file"]]
    assert [message["content"] for message in model.requests[1]["messages"][1:]] == ["second"]


async def test_a_file_that_is_edited_while_chatting_holds_from_the_next_message(terminal, model, flags, roles):
    model.says("One.").says("Two.").says("Three.")
    async with terminal("chat", "--agent", "reader", "--set", "who=me", *flags) as screen:
        await screen.until("> ")
        await screen.type("first\r")
        await screen.until("One.")
        roles("agents/reader.md", "You write.")
        await screen.type("second\r")
        await screen.until("Two.")
        roles("agents/reader.md", "---\nnope: 1\n---\n")
        await screen.type("third\r")
        await screen.until("unknown key")
        await screen.until("The agent and the mode stay as they were.")
        await screen.until("Three.")
        await screen.type("/quit\r")
        assert await screen.end() == 0
    assert [prompt_of(request).endswith("You write.") for request in model.requests] == [False, True, True]


# --- commands that are files --------------------------------------------------------------------


async def test_a_file_of_commands_is_a_prompt_with_what_is_typed_behind_its_name(aar, model, flags, roles, place):
    roles("commands/Review.md", "---\ndescription: Looks at files.\n---\nReview {{ words | join(' and ') }} @a.txt.")
    roles("commands/status.md", "Never sent.")
    place.write(".aar/commands/theirs.md", "Say {{ hello }}.")
    place.write("a.txt", "alpha")
    model.says("ok")
    lines = ["/review 'x y' z", "/theirs now", "/status", "/help", "/nothing"]
    done = await aar("chat", *flags, stdin="\n".join(lines) + "\n")
    said = [request["messages"][-1]["content"] for request in model.requests]
    assert "Review x y and z ." in str(said[0])
    assert "alpha" in str(said[0])
    assert said[1:] == ["Say {{ hello }}.\n\nnow"]
    shown = " ".join(done.err.split())
    assert "/review Looks at files." in shown
    assert "/theirs" in shown
    assert "Unknown command: /nothing" in shown


async def test_a_command_whose_file_is_wrong_is_told(aar, model, flags, roles, place):
    roles("commands/bad.md", "---\nnope: 1\n---\nx")
    done = await aar("chat", *flags, stdin="/bad\n/help\n")
    assert model.requests == []
    assert done.err.count(f"{place.home}/commands/bad.md:2: unknown key") == 2
