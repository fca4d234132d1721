"""Which tools a model gets: filters that only take away."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aar.messages.settings import ToolConfig
from aar.messages.tools import SideEffect
from aar.tools.filtering import filtered, left_out
from aar.tools.registry import ToolRegistry, ToolSpec

NAMES = ("bash", "grep", "read_file", "write_file", "mcp_search", "mcp_send")
PATTERNS = st.lists(st.sampled_from([*NAMES, "*", "mcp_*", "!bash", "!mcp_*", "!*_file", "r?ad_file"]), max_size=4)


def kept(filters: dict[str, list[str]], opt_in: tuple[str, ...] = ()) -> list[str]:
    registry = ToolRegistry([ToolSpec(name) for name in NAMES])
    return filtered(registry, ToolConfig(filters=filters, opt_in=list(opt_in))).names()


@pytest.mark.covers("AURA-71")
@pytest.mark.parametrize(
    ("filters", "opt_in", "expected"),
    [
        ({}, (), NAMES),
        ({"settings": ["*_file", "grep"]}, (), ("grep", "read_file", "write_file")),
        ({"settings": ["!mcp_*"]}, (), ("bash", "grep", "read_file", "write_file")),
        ({"agent": ["*", "!bash"], "mode": ["bash", "grep"]}, (), ("grep",)),
        ({"agent": ["grep"], "mode": ["bash"]}, (), ()),
        ({"agent": ["mcp_*"]}, ("mcp_send",), ("mcp_search",)),
        ({"agent": ["mcp_*", "mcp_send"]}, ("mcp_send",), ("mcp_search", "mcp_send")),
        ({}, ("bash",), NAMES[1:]),
        ({"agent": ["Bash"]}, (), ()),
    ],
)
def test_each_filter_only_takes_away_and_some_tools_must_be_named_in_full(filters, opt_in, expected):
    assert tuple(kept(filters, opt_in)) == expected


def test_why_a_tool_is_left_out_is_known():
    config = ToolConfig(filters={"agent reader": ["grep", "read_*"], "mode plan": ["!read_*"]}, opt_in=["grep"])
    assert {name: left_out(name, config) for name in NAMES[:3]} == {
        "bash": "agent reader: not among grep, read_*",
        "grep": None,
        "read_file": "mode plan: left out by read_*",
    }
    assert left_out("grep", ToolConfig(opt_in=["grep"])) == "opt_in: no filter names it in full"


@given(st.dictionaries(st.sampled_from(["settings", "agent", "mode"]), PATTERNS), PATTERNS)
def test_no_further_filter_brings_a_tool_back(filters, further):
    assert set(kept({**filters, "task": further})) <= set(kept(filters))


@pytest.mark.covers("AURA-69")
def test_a_definition_changes_words_and_order_and_nothing_of_what_a_tool_may_do():
    bash = ToolSpec("bash", "Runs.", side_effects=(SideEffect.EXECUTE,), requires_approval=True)
    registry = ToolRegistry([bash, ToolSpec("grep", "Searches."), ToolSpec("read_file")])
    told = {
        "bash": {"description": "Shell.", "usage": "Rarely.", "examples": ["ls", "pwd"], "parallel": False},
        "grep": {"usage": "Often."},
        "read_file": {"disabled": True},
        "nothing": {"disabled": True},
    }
    [first, second] = filtered(registry, ToolConfig(definitions=told)).list_tools()
    expected = replace(bash, description="Shell.\nRarely.\nExample: ls\nExample: pwd", execution="sequential")
    assert (first, second.description, second.execution) == (expected, "Searches.\nOften.", None)
    assert left_out("read_file", ToolConfig(definitions=told)) == "definitions: disabled"


@pytest.mark.covers("AURA-69")
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"descriptoin": "x"}, "bash.descriptoin is unknown; known: description, usage"),
        ({"parallel": "no"}, "bash.parallel must be of type bool"),
        ({"examples": "ls"}, "bash.examples must be of type list"),
        ({"examples": [1]}, "bash.examples must be of type list"),
    ],
)
def test_a_definition_with_a_mistake_is_refused(entry, told):
    with pytest.raises(ValidationError, match=told):
        ToolConfig(definitions={"bash": entry})
