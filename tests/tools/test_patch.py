"""`patch`: several files at once, found by what their lines say; all of it or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import ToolError
from aar.messages.events import ToolResult
from aar.messages.settings import AgentConfig, SafetyConfig, ToolConfig
from aar.safety.arguments import paths_of
from aar.testing import ScriptedProvider
from aar.tools.patch import PATCH
from aar.tools.patch_places import patched
from aar.tools.patch_text import Hunk, parse_patch
from aar.tools.registry import ToolContext, invoke

Apply = Callable[..., Awaitable[str]]

CODE = """\
class Dog:
    def name(self):
        return "dog"

    def legs(self):
        return 4


class Bird:
    def name(self):
        return "bird"

    def legs(self):
        return 2
"""


def update(name: str, body: str) -> str:
    return f"*** Begin Patch\n*** Update File: {name}\n{body}*** End Patch"


@pytest.fixture
def apply(context: ToolContext) -> Apply:
    async def run(patch: str, ctx: ToolContext | None = None) -> str:
        return await invoke(PATCH, {"patch": patch}, ctx or context)

    return run


def hunk(*lines: str, anchors: tuple[str, ...] = (), is_last: bool = False) -> Hunk:
    return Hunk(lines, anchors, is_last)


# --- where lines belong -----------------------------------------------------------------------


@pytest.mark.covers("AURA-82")
@pytest.mark.parametrize(
    ("hunks", "old", "new"),
    [
        pytest.param([hunk('-        return "dog"', '+        return "wolf"')], '"dog"', '"wolf"', id="one line"),
        pytest.param(
            [hunk("         return 4", "+        # four")], "return 4\n", "return 4\n        # four\n", id="add"
        ),
        pytest.param([hunk("-        return 2", is_last=True)], "        return 2\n", "", id="the last line"),
        pytest.param(
            [hunk("-    def legs(self):", "+    def wings(self):", anchors=("class Bird:",))],
            "def legs(self):\n        return 2",
            "def wings(self):\n        return 2",
            id="below an anchor",
        ),
        pytest.param(
            [hunk("-        return 2", "+        return 3", anchors=("class Bird", "def legs"))],
            "return 2",
            "return 3",
            id="below anchors that are the beginning of a line",
        ),
        pytest.param(
            [hunk("+    kind = 1", anchors=("class Dog:",))],
            "class Dog:\n",
            "class Dog:\n    kind = 1\n",
            id="no context",
        ),
        pytest.param(
            [hunk('-        return "bird"   ', '+        return "owl"')], '"bird"', '"owl"', id="blanks at the end"
        ),
        pytest.param(
            [hunk("     return 4", "+    # four")], "return 4\n", "return 4\n        # four\n", id="less indentation"
        ),
        pytest.param(
            [hunk("             return 4", "+            # four")],
            "return 4\n",
            "return 4\n        # four\n",
            id="more indentation",
        ),
        pytest.param([hunk("-return “dog”", "+return 'wolf'")], '"dog"', "'wolf'", id="typeset quotes"),
        pytest.param(
            [
                hunk('-        return "bird"', '+        return "b"'),
                hunk('-        return "dog"', '+        return "d"'),
            ],
            CODE,
            CODE.replace('"dog"', '"d"').replace('"bird"', '"b"'),
            id="two places in any order",
        ),
    ],
)
def test_lines_are_found_by_what_they_say(hunks: list[Hunk], old: str, new: str) -> None:
    assert CODE.count(old) == 1
    assert patched(CODE, hunks) == CODE.replace(old, new)


@pytest.mark.covers("AURA-82")
@pytest.mark.parametrize(
    ("hunks", "told"),
    [
        pytest.param(
            [hunk("     def legs(self):", "-        return 5")],
            "the lines 'def legs(self):' and what follows are not in the file. "
            "Nearest: lines 5 to 6, where line 6 is not 'return 5'\n"
            "     5\t    def legs(self):\n     6\t        return 4",
            id="the nearest place is named",
        ),
        pytest.param(
            [hunk("-    def nameof(self):")],
            "the lines 'def nameof(self):' are not in the file. "
            "Nearest: line 2, where line 2 is not 'def nameof(self):'\n     2\t    def name(self):",
            id="also when no line is the same",
        ),
        pytest.param(
            [hunk("-completely different")],
            "the lines 'completely different' are not in the file. Nothing in it is like them.",
            id="nothing is near",
        ),
        pytest.param(
            [hunk(" class Dog:", "-  def name(self):")],
            "the lines 'class Dog:' and what follows are not in the file. "
            "Nearest: lines 1 to 2, with other indentation\n     1\tclass Dog:\n     2\t    def name(self):",
            id="indented otherwise, and not as a whole",
        ),
        pytest.param(
            [hunk("-    def legs(self):")],
            "the lines 'def legs(self):' occur more than once (at line 5, 13): "
            "add lines around them, or put '@@' and a line that stands above the right ones before them",
            id="several places",
        ),
        pytest.param(
            [hunk("-x", anchors=("class Cat:",))],
            "there is no line 'class Cat:' for '@@'. "
            "Nearest: line 1, where line 1 is not 'class Cat:'\n     1\tclass Dog:",
            id="no such anchor",
        ),
        pytest.param([hunk("+x")], "lines are added, and none around them say where", id="nowhere"),
        pytest.param(
            [hunk("-class Dog:", "     def name(self):"), hunk("-class Dog:")],
            "two hunks change the same lines",
            id="twice the same",
        ),
        pytest.param(
            [hunk(" class Dog:", "+    kind = 1"), hunk("-class Dog:", "+class Wolf:")],
            "two hunks change the same lines",
            id="one keeps what the other takes away",
        ),
        pytest.param(
            [hunk("-?"), hunk("-class Bird:"), hunk("-!")],
            "hunk 1: the lines '?' are not in the file. Nothing in it is like them.\n"
            "hunk 3: the lines '!' are not in the file. Nothing in it is like them.",
            id="all that is wrong",
        ),
    ],
)
def test_what_does_not_fit_is_told(hunks: list[Hunk], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        patched(CODE, hunks)


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a\r\nb\r\n", [" a", "+x"], "a\r\nx\r\nb\r\n"),
        ("a\r\nb\nc\r\n", [" b", "+x"], "a\r\nb\nx\r\nc\r\n"),
        ("a\nb", ["-b", "+c"], "a\nc"),
        ("a\nb", [" b", "+c"], "a\nb\nc"),
        ("a\nb", ["-b"], "a"),
        ("a\r", ["+b", " a"], "b\na\r"),
        ("a", ["-a"], ""),
        ("", ["+a"], "a\n"),
        ("\ufeffa\nb\n", [" a", "-b"], "\ufeffa\n"),
    ],
)
def test_line_ends_stay_as_they_are(before: str, lines: list[str], after: str) -> None:
    assert patched(before, [hunk(*lines)]) == after


@given(st.lists(st.text("abc \t", max_size=4), min_size=1, unique=True), st.data())
def test_a_whole_file_as_context_always_fits(lines: list[str], data: st.DataObject) -> None:
    marks = [data.draw(st.sampled_from(" -")) for _ in lines]
    body = [f"{mark}{line}" for mark, line in zip(marks, lines, strict=True)]
    expected = [line for mark, line in zip(marks, lines, strict=True) if mark == " "] + ["new"]
    assert patched("".join(f"{line}\n" for line in lines), [hunk(*body, "+new")]) == "\n".join(expected) + "\n"


# --- the text of a patch ----------------------------------------------------------------------


def test_a_patch_is_read_section_by_section() -> None:
    text = dedent("""
        *** Begin Patch
        *** Update File: a b.py
        @@ class A:
        @@ def f():
         x

        -y
        @@ -1,2 +3,4 @@ def g():
        +z
         w

        *** End of File
        *** Add File: new.txt
        +one
        ++two

        *** Delete File: old.txt
        *** End Patch
    """)
    changed, added, deleted = parse_patch(text.replace("\n", "\r\n"))
    assert changed.path == "a b.py"
    assert changed.hunks == (
        hunk(" x", " ", "-y", anchors=("class A:", "def f():")),
        hunk("+z", " w", is_last=True),
    )
    assert (added.action, added.path, added.added) == ("Add", "new.txt", "one\n+two\n")
    assert (deleted.action, deleted.path) == ("Delete", "old.txt")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", "names no file"),
        ("x\n*** Delete File: a\n", "is expected, not 'x'"),
        ("*** Delete File:\n", "names no file"),
        ("*** Delete File: a\n-x\n", "nothing follows"),
        ("*** Add File: a\nx\n", "begin with '\\+'"),
        ("*** Update File: a\n", "says nothing"),
        ("*** Update File: a\n@@ f\n", "nothing follows on '@@ f'"),
        ("*** Update File: a\n x\n", "neither"),
        ("*** Update File: a\n*** Move to: b\n+x\n", "not as '\\*\\*\\* Move to: b'"),
    ],
)
async def test_what_is_no_patch_is_told(apply: Apply, body: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        await apply(f"*** Begin Patch\n{body}*** End Patch")


async def test_a_file_outside_of_the_patch_is_not_judged_by_chance(apply: Apply) -> None:
    for patch in ("x", "*** Delete File: a\n*** Begin Patch\n*** End Patch"):
        with pytest.raises(ToolError, match="begins with the line"):
            await apply(patch)


# --- files ------------------------------------------------------------------------------------

THREE = """\
*** Begin Patch
*** Delete File: old.txt
*** Update File: src/a.py
@@
 one
-two
+2
*** Add File: deep/down/new.txt
+hello
*** End Patch"""


@pytest.fixture
def project(work: Path) -> Path:
    (work / "src").mkdir()
    (work / "src/a.py").write_bytes(b"one\r\ntwo\r\n")
    (work / "src/a.py").chmod(0o750)
    (work / "old.txt").write_text("old\n")
    return work


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.covers("AURA-82")
async def test_files_are_added_updated_and_deleted(apply: Apply, project: Path) -> None:
    assert await apply(THREE) == (
        f"Deleted {project}/old.txt\nUpdated {project}/src/a.py: 1 place\nAdded {project}/deep/down/new.txt"
    )
    assert files_of(project) == {"src/a.py": b"one\r\n2\r\n", "deep/down/new.txt": b"hello\n"}
    assert (project / "src/a.py").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("*** Update File: src/b.py\n-x\n", "src/b.py: File not found"),
        ("*** Add File: more.txt\n+x\n", "more.txt: is there already"),
        ("*** Delete File: gone.txt\n", "gone.txt: File not found"),
        ("*** Delete File: src\n", "src: File not found"),
        ("*** Delete File: link.txt\n", "link.txt: is a link"),
        ("*** Update File: more.txt\n-x\n", "more.txt: the lines 'x' are not in the file"),
        ("*** Update File: fixed.txt\n-x\n+y\n", "fixed.txt is write-protected"),
        ("*** Update File: binary\n-x\n", "binary: is not UTF-8 text"),
        ("*** Update File: ./old.txt\n-old\n+new\n", "several sections for"),
    ],
)
async def test_nothing_is_written_unless_all_fits(apply: Apply, project: Path, section: str, told: str) -> None:
    (project / "more.txt").write_text("more\n")
    (project / "fixed.txt").write_text("x\n")
    (project / "fixed.txt").chmod(0o444)
    (project / "binary").write_bytes(b"\xff\xfe")
    (project / "link.txt").symlink_to("more.txt")
    before = files_of(project)
    with pytest.raises((ValueError, ToolError), match=told):
        await apply(THREE.replace("*** End Patch", section + "*** End Patch"))
    assert files_of(project) == before


async def test_what_was_written_is_put_back_when_the_rest_cannot_be(apply: Apply, project: Path) -> None:
    before = files_of(project)
    impossible = "*** Add File: old.txt/below\n+x\n*** End Patch"
    with pytest.raises(ValueError, match="was not applied, no file was changed"):
        await apply(THREE.replace("*** End Patch", impossible))
    assert files_of(project) == before
    assert (project / "src/a.py").stat().st_mode & 0o777 == 0o750


async def test_a_link_is_kept_and_what_it_leads_to_is_changed(apply: Apply, project: Path) -> None:
    (project / "link.txt").symlink_to("old.txt")
    await apply(update("link.txt", "-old\n+new\n"))
    assert os.readlink(project / "link.txt") == "old.txt"
    assert (project / "old.txt").read_text() == "new\n"


# --- rules ------------------------------------------------------------------------------------


def test_rules_know_every_file_that_a_patch_names() -> None:
    assert paths_of({"patch": THREE}) == ["old.txt", "src/a.py", "deep/down/new.txt"]
    assert paths_of({"patch": "*** Delete File: file:///etc/x\r\n*** Add File: ~/y"})[:2] == [
        "/etc/x",
        os.path.expanduser("~/y"),
    ]
    assert paths_of({"content": THREE, "patch": [THREE]}) == []


WITH_PATCH = ToolConfig(enabled_builtins=["patch"])


@pytest.mark.parametrize("header", ["*** Add File: ", "*** Update File: ", "*** Delete File: "])
@pytest.mark.parametrize("path", [".env", "../outside.txt", "src/../.env", ".git/hooks/pre-commit"])
async def test_one_forbidden_file_forbids_the_whole_call(live, tmp_path: Path, header: str, path: str) -> None:
    text = THREE.replace("*** End Patch", f"{header}{path}\n+x\n*** End Patch")
    (tmp_path / "project").mkdir()
    async with live(ScriptedProvider().call("patch", patch=text).text("no"), AgentConfig(tools=WITH_PATCH)) as session:
        async with session.attend():
            await session.prompt("go")
        (result,) = [one.event for one in session.records() if isinstance(one.event, ToolResult)]
    assert result.output.startswith("Error [blocked]: blocked by safety policy: ")
    assert files_of(tmp_path / "project") == {}


async def test_rules_for_single_calls_hold_for_every_file(live, tmp_path: Path) -> None:
    safety = SafetyConfig(require_approval_for_writes=False, deny=["patch:*/old.txt"])
    config = AgentConfig(tools=WITH_PATCH, safety=safety)
    provider = ScriptedProvider().call("patch", patch=THREE).call("patch", patch=THREE.replace("old.txt", "o.txt"))
    async with live(provider.text("no"), config) as session:
        await session.prompt("go")
        first, second = [one.event.output for one in session.records() if isinstance(one.event, ToolResult)]
    assert first == "Error [blocked]: blocked by safety policy: the rule 'patch:*/old.txt'"
    assert "o.txt: File not found" in second
