"""Colours in what a tool gave: the same text, in the language that it is in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.messages.events import ToolCall
from aar.testing import ScriptedProvider
from aar.tools.registry import tool
from aar.transports.fullscreen.colouring import COLOURED, coloured
from aar.transports.fullscreen.markup import harmless
from tests.transports.fullscreen.whole import open_whole

SOURCE = "     1\tdef add(a):\n     2\t\treturn a  # more\n     3\t\n"


def call(**arguments: Any) -> ToolCall:
    return ToolCall(tool_name="read_file", tool_call_id="1", arguments=arguments)


def text_of(markup: Any) -> str:
    if isinstance(markup, list):
        return "".join(map(text_of, markup))
    return markup[1] if isinstance(markup, tuple) else markup


def styles_of(found: Any) -> dict[str, str]:
    runs = [run for paragraph in found for run in paragraph.markup if isinstance(run, tuple)]
    return {text.strip(): style for style, text in runs}


@pytest.mark.covers("AURA-38")
@pytest.mark.parametrize("head", ["", "[lines 1-3 of 9]\n", "File x has 9 lines\nUse it.\nFirst lines:\n\n"])
def test_a_file_is_coloured_by_its_name_and_its_numbers_are_none_of_its_text(head: str) -> None:
    found = coloured(call(path="src/sum.py"), head + SOURCE)
    assert found is not None
    assert "\n".join(text_of(paragraph.markup) for paragraph in found) == harmless(head + SOURCE)
    styles = styles_of(found)
    assert (styles["def"], styles["add"], styles["# more"], styles["1"]) == (
        "code.keyword",
        "code.name",
        "code.comment",
        "dim",
    )


@pytest.mark.parametrize(
    ("output", "word", "style"),
    [
        ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n", "+new", "code.string"),
        ('{"a": 1}', "1", "code.number"),
    ],
)
def test_a_patch_and_json_are_known_by_what_stands_in_them(output: str, word: str, style: str) -> None:
    assert styles_of(coloured(call(command="x"), output))[word] == style


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("sum.py", "Wrote 3 lines."),
        ("notes", SOURCE),
        ("x" * 5_000, SOURCE),
        (7, SOURCE),
        ("sum.py", SOURCE + "and more\n"),
        ("sum.py", "     1\t" + "x" * COLOURED),
        ("sum.py", ""),
    ],
)
def test_what_is_in_no_language_that_is_known_stays_as_it_is(path: Any, output: str) -> None:
    assert coloured(call(path=path), output) is None


@given(
    st.lists(st.text(alphabet="a\t\"'#({\\\x1b[31m é漢:=+-"), max_size=6),
    st.sampled_from(["a.py", "a.c", "a.md", "a.sh"]),
)
def test_whatever_is_in_a_file_no_sign_of_it_is_lost(lines: list[str], path: str) -> None:
    output = "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(lines, 1))
    found = coloured(call(path=path), output)
    if found is not None:
        assert "\n".join(text_of(paragraph.markup) for paragraph in found) == harmless(output)


@pytest.mark.covers("AURA-38")
async def test_the_pager_shows_a_file_in_colours(tmp_path, autojump_clock) -> None:
    @tool
    async def look(path: str) -> str:
        """Look at a file."""
        return SOURCE

    provider = ScriptedProvider().calls(("look", {"path": "sum.py"})).text("Read.")
    async with open_whole(tmp_path, provider, tools=(look,)) as whole:
        whole.send("read it")
        await whole.until("Read.", "completed")
        whole.press("ctrl o")
        await whole.until("look: 4 lines", "def add")
        while "code.keyword" not in whole.styles_of("return"):
            await whole.frame()
