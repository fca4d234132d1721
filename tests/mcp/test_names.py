"""Names of tools as every model takes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.mcp.names import prefixed_name, tool_name


@given(st.text(), st.text())
def test_every_name_fits_and_a_fitting_one_stays_as_it_is(server, name) -> None:
    for made in (tool_name(name), prefixed_name(server, name)):
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", made)
    assert tool_name(tool_name(name)) == tool_name(name)


@pytest.mark.covers("MCP-05")
def test_a_prefix_stands_before_two_underscores() -> None:
    assert prefixed_name("web", "search") == "web__search"
    assert prefixed_name("My Files!", "read.file") == "My_Files___read_file"


def test_long_names_that_begin_alike_stay_apart() -> None:
    assert tool_name("a" * 70 + "x") != tool_name("a" * 70 + "y")
    assert len(tool_name("a" * 70)) == 64
