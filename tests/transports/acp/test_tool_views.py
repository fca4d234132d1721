"""How a tool call looks to people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.transports.acp.tool_views import (
    asked_content,
    kind_of,
    locations_of,
    proposed_change,
    raw_input,
    result_content,
    title_of,
)


@pytest.mark.covers("ACP-43")
@pytest.mark.parametrize(
    ("name", "effects", "kind"),
    [
        ("read_file", ["read"], "read"),
        ("write_file", ["write"], "edit"),
        ("edit_file", ["write"], "edit"),
        ("list_directory", ["read"], "read"),
        ("bash", ["execute"], "execute"),
        ("grep", ["read"], "search"),
        ("find_files", ["read"], "search"),
        ("web_search", ["network"], "search"),
        ("fetch", ["network"], "fetch"),
        ("DeleteFile", ["write"], "delete"),
        ("remove_row", ["external"], "delete"),
        ("unlink", [], "delete"),
        ("move_file", ["write"], "move"),
        ("RENAME", [], "move"),
        ("glob", [], "search"),
        ("think", ["none"], "think"),
        ("reason_about", [], "think"),
        ("reflect", [], "think"),
        ("anything", ["none"], "other"),
        ("anything", [], "other"),
        ("anything", ["read", "execute"], "execute"),
        ("anything", ["write", "execute"], "execute"),
        ("anything", ["external"], "other"),
        ("find_and_replace", ["write"], "edit"),
        ("search_and_destroy", ["external"], "other"),
        ("think_and_run", ["execute"], "execute"),
    ],
)
def test_the_kind_is_told_by_the_name_and_then_by_the_effects(name, effects, kind):
    """Clients let searching and thinking pass unasked: what may change things is never called so."""
    assert kind_of(name, effects) == kind


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("read_file", {"path": "src/a.py"}, "Read src/a.py"),
        ("patch", {"patch": "*** Add File: src/a.py\n*** Delete File: b.py"}, "Patch src/a.py, b.py"),
        ("patch", {"patch": "nothing"}, "patch"),
        ("batch", {"calls": [{"tool": "grep"}, {"tool": "bash"}, 3]}, "Run grep, bash"),
        ("batch", {"calls": 3}, "batch"),
        ("read_file", {"path": "/work/p/a.py", "start_line": 3, "end_line": 9}, "Read a.py (3–9)"),
        ("read_file", {"path": "a.py", "end_line": 9}, "Read a.py (1–9)"),
        ("read_file", {"path": "../b.py"}, "Read /work/b.py"),
        ("read_file", {}, "read_file"),
        ("write_file", {"path": "a\nb"}, "Write a\\nb"),
        ("edit_file", {"path": "/etc/hosts"}, "Edit /etc/hosts"),
        ("list_directory", {}, "List ."),
        ("bash", {"command": "npm test"}, "`npm test`"),
        ("bash", {"command": "echo `date`"}, "`` echo `date` ``"),
        ("acp_terminal", {"command": "git", "args": ["log"], "env": {"PAGER": "a b"}}, "`'PAGER=a b' git log`"),
        ("acp_terminal", {"command": "make", "cwd": "sub"}, "`make` in `sub`"),
        ("acp_terminal", {"command": "make", "cwd": "../\n"}, "`make` in `/work/\\n`"),
        ("acp_terminal", {"command": "make", "cwd": "."}, "`make`"),
        ("bash", {"command": "a\nb \u202ec"}, "`a\\nb \\u202ec`"),
        ("acp_terminal", {"command": "ls", "args": ["-l", "a b"]}, "`ls -l 'a b'`"),
        ("grep", {"pattern": "x", "path": "src"}, "Search for `x` in src"),
        ("find_files", {"pattern": "*.py"}, "Find `*.py`"),
        ("server__tool", {"path": "a"}, "server__tool"),
        ("", {}, "Tool call"),
    ],
)
def test_a_title_says_what_is_done_to_what(name, arguments, title):
    assert title_of(name, arguments, "/work/p") == title


def test_a_long_command_is_cut_in_the_title_and_whole_below_it():
    command = "echo " + "x" * 500
    assert len(title_of("bash", {"command": command}, "/")) == 160
    [item] = asked_content("bash", {"command": command}, None, "/")
    assert item["content"]["text"] == f"```sh\n{command}\n```"
    assert asked_content("bash", {"command": "ls"}, None, "/") == []


def test_what_shapes_a_long_command_is_there_below_the_title_as_well():
    arguments = {"command": "make", "args": ["x" * 500], "env": {"CC": "evil"}, "cwd": "/etc"}
    [item] = asked_content("acp_terminal", arguments, None, "/work/p")
    assert item["content"]["text"] == f"```sh\nCC=evil make {'x' * 500}\n```\nin `/etc`"


def test_what_hides_in_a_command_is_made_visible():
    [item] = asked_content("bash", {"command": "ls\n\u202e#"}, None, "/")
    assert "\\u202e" in item["content"]["text"]


@pytest.mark.parametrize("fence", ["```", "````", "`````"])
def test_output_cannot_leave_its_fence(fence):
    [item] = result_content("bash", {}, f"{fence}\n# heading", is_error=False, cwd="/")
    text = item["content"]["text"]
    assert text.startswith(fence + "`\n")
    assert text.endswith("\n" + fence + "`")


def test_a_patch_is_shown_before_it_is_applied_with_the_files_that_it_names():
    patch = "*** Begin Patch\n*** Update File: a.py\n-old\n+new\n*** Delete File: /work/b.py\n*** End Patch"
    (shown,) = asked_content("patch", {"patch": patch}, None, "/work")
    assert shown["content"]["text"] == f"```diff\n{patch}\n```"
    assert locations_of({"patch": patch}, "/work") == [{"path": "/work/a.py"}, {"path": "/work/b.py"}]


def test_places_are_absolute_and_in_a_fixed_order():
    arguments = {"filename": "f", "path": "a/../b", "source": "/s", "target": 3, "destination": "", "line": 4}
    assert locations_of(arguments, "/w") == [{"path": "/w/b"}, {"path": "/s"}, {"path": "/w/f"}]


def test_no_frame_carries_megabytes_of_arguments():
    cut = raw_input({"path": "a", "content": "x" * 3_000_000, "more": [{"a": "y" * 3_000_000}]})
    assert len(str(cut)) < 600_000
    assert cut["content"].endswith("… (cut: 3,000,000 characters)")
    assert cut["path"] == "a"


@pytest.mark.covers("ACP-44")
def test_long_results_are_cut():
    [item] = result_content("any", {}, "x" * 5000, is_error=False, cwd="/")
    assert item["content"]["text"] == "x" * 4000 + "\n… (cut)"
    assert result_content("any", {}, "", is_error=False, cwd="/") == []


@given(
    st.sampled_from(["read_file", "write_file", "edit_file", "bash", "acp_terminal", "grep", "x"]),
    st.dictionaries(
        st.sampled_from(
            ["path", "content", "old_string", "new_string", "command", "args", "cwd", "env", "pattern", "start_line"]
        ),
        st.one_of(
            st.none(),
            st.text(),
            st.integers(),
            st.booleans(),
            st.lists(st.text()),
            st.dictionaries(st.text(), st.text()),
        ),
    ),
)
def test_no_arguments_are_too_strange_to_be_shown(name, arguments):
    assert title_of(name, arguments, "/w")
    locations_of(arguments, "/w")
    asked_content(name, arguments, proposed_change(name, arguments, "/w"), "/w")
    result_content(name, arguments, "text", is_error=False, cwd="/w")
