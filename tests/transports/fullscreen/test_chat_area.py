"""The chat area: Markdown in pieces, blocks that are drawn line by line, and a window on them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urwid.testing import check_box_sizing, click, render_runs, render_text

from aar.transports.fullscreen.blocks import PLAIN_FROM, Answer, Block, Growing, Lines
from aar.transports.fullscreen.highlight import highlighted
from aar.transports.fullscreen.markup import TEXT_LIMIT, GrowingMarkdown, plain_paragraphs
from aar.transports.fullscreen.viewport import Viewport

DOCUMENT = """\
# Title

Some **bold**, *slanted* and `code`,
with a [link](http://x) and ~~nothing~~.

- one
- two
  with more
  1. deep
  2. deeper

> quoted

```python
def f():
\treturn 1
```

| a | long |
|---|------|
| 1 | 2 |

<b>as it is</b>
"""

DRAWN = [
    "─ Assistant ────────────────────────────",
    "│ Title",
    "│",
    "│ Some bold, slanted and code, with a",
    "│ link and nothing.",
    "│",
    "│ • one",
    "│ • two with more",
    "│   1. deep",
    "│   2. deeper",
    "│",
    "│ │ quoted",
    "│",
    "│  def f():",
    "│      return 1",
    "│",
    "│ a │ long",
    "│ ──┼─────",
    "│ 1 │ 2",
    "│",
    "│ <b>as it is</b>",
    "",
]


def drawn(*blocks: Block, size: tuple[int, int] = (40, 22)) -> list[str]:
    port = Viewport()
    port.blocks += blocks
    lines = render_text(port, size, strip=True)
    while port.has_more:
        port.changed()
        lines = render_text(port, size, strip=True)
    return lines


def answer(*pieces: str) -> Answer:
    block = Answer((0, 1))
    for piece in pieces:
        block.feed(piece)
    return block


# --- Markdown ---------------------------------------------------------------------------------


@pytest.mark.covers("FTUI-04")
def test_markdown_is_drawn() -> None:
    assert drawn(answer(DOCUMENT)) == DRAWN


@pytest.mark.covers("FTUI-04")
def test_markdown_that_comes_in_pieces_looks_the_same_in_the_end() -> None:
    block = Answer((0, 1))
    for letter in DOCUMENT:
        block.feed(letter)
        drawn(block)
    assert drawn(block) == DRAWN
    assert block.text == DOCUMENT


@pytest.mark.covers("FTUI-04")
def test_the_text_on_record_takes_the_place_of_what_came_in() -> None:
    block = answer("Half ", "an ans")
    drawn(block)
    block.finish("Another *one*")
    assert drawn(block, size=(40, 3)) == ["─ Assistant ────────────────────────────", "│ Another one", ""]


def test_styles_are_named() -> None:
    port = Viewport()
    port.blocks.append(answer("a **b** `c`"))
    runs = render_runs(port, (20, 3))[1]
    assert runs[:5] == [("assistant.border", "│"), (None, " a "), ("md.strong", "b"), (None, " "), ("md.code", "c")]


@given(st.text(alphabet="ab *`_#->|\n\t1.[]()~\x1b\x9b", max_size=200), st.integers(1, 20))
@settings(max_examples=60)
def test_any_text_can_be_drawn_in_any_pieces_and_moves_no_cursor(text: str, length: int) -> None:
    block = answer(*(text[at : at + length] for at in range(0, len(text), length)))
    whole = "\n".join(drawn(block, size=(30, 40)))
    assert not any(sign in whole for sign in "\x1b\x9b\t\r")
    assert block.text == text


def test_code_that_is_longer_than_what_is_parsed_at_once_stays_code() -> None:
    lines = [f"line_{n} = *{n}*" for n in range(2000)]
    markdown = GrowingMarkdown()
    markdown.feed("Before\n\n```\n" + "\n".join(lines) + "\n```\n\nAfter *all*\n")
    while markdown.advance():
        pass
    paragraphs = [*markdown.finished, *markdown.open]
    code = ["".join(text for _, text in paragraph.markup) for paragraph in paragraphs if paragraph.fill == "md.block"]
    assert "\n".join(code).split("\n") == lines
    after = next(paragraph.markup for paragraph in paragraphs if "After" in str(paragraph))
    assert after == ["After ", ("md.emphasis", "all")]
    assert all(len(piece) <= TEXT_LIMIT for piece in code)


def test_code_has_colours_once_it_is_whole() -> None:
    code = "@cache\ndef f(x: int) -> str:\n    return 'a' + str(1)  # why\n" * 80
    port = Viewport()
    block = answer(f"```python\n{code}")
    port.blocks.append(block)

    def styles() -> set[str]:
        found = {str(style) for row in render_runs(port, (60, 300)) for style, _ in row}
        return {
            layer for style in found for layer in ("keyword", "string", "comment", "number", "name") if layer in style
        }

    assert styles() == set()
    block.finish(block.text)
    port.changed()
    assert styles() == {"keyword", "string", "comment", "number", "name"}
    lines = [line[2:] for line in render_text(port, (60, 243), strip=True)[1:241]]
    assert "\n".join(line.removeprefix(" ") for line in lines) == code.rstrip("\n")


@given(st.text(max_size=300), st.sampled_from(["python", "js", "rust", "html", "diff", "sh", "no-such", "json", "md"]))
def test_colours_change_no_letter(code: str, language: str) -> None:
    assert "".join(text for _, text in highlighted(code, language)) == code


def test_a_long_answer_that_comes_at_once_is_shown_at_once() -> None:
    block = Answer((0, 1))
    block.finish("words and *more*\n" * (PLAIN_FROM // 10))
    port = Viewport()
    port.blocks.append(block)
    assert render_text(port, (40, 4), strip=True)[-3:] == ["│ words and *more*", "│", ""]
    assert not port.has_more


@given(st.text(alphabet="ab\n", max_size=50), st.integers(0, 3))
@settings(max_examples=30)
def test_pieces_of_a_text_are_the_whole_text(text: str, times: int) -> None:
    whole = text * (times * 200)
    pieces = [paragraph.markup for paragraph in plain_paragraphs(whole)]
    assert all(len(piece) <= TEXT_LIMIT for piece in pieces)
    assert "".join(pieces).replace("\n", "") == whole.replace("\n", "")


# --- blocks and the window on them ------------------------------------------------------------


def many(count: int) -> Viewport:
    port = Viewport()
    port.blocks += [Lines(f"line {n}", gap=0, padding=(0, 0)) for n in range(count)]
    return port


def seen(port: Viewport, size: tuple[int, int] = (20, 4)) -> list[str]:
    return [line.removeprefix("line ") for line in render_text(port, size, strip=True)]


@pytest.mark.covers("FTUI-18")
def test_the_window_is_at_the_end_until_it_is_moved_and_again_when_it_comes_back() -> None:
    port = many(10)
    assert seen(port) == ["6", "7", "8", "9"]
    port.move(-2)
    assert seen(port) == ["4", "5", "6", "7"]
    port.blocks.append(Lines("line 10", gap=0, padding=(0, 0)))
    port.changed()
    assert seen(port) == ["4", "5", "6", "7"]
    port.move(1)
    assert (seen(port), port.is_following) == (["5", "6", "7", "8"], False)
    port.move(5)
    assert (seen(port), port.is_following) == (["7", "8", "9", "10"], True)
    port.page(-1)
    assert seen(port) == ["4", "5", "6", "7"]
    port.page(-9)
    assert seen(port) == ["0", "1", "2", "3"]
    port.to_end()
    assert seen(port) == ["7", "8", "9", "10"]


@pytest.mark.covers("FTUI-18")
def test_what_grows_below_and_above_moves_nothing() -> None:
    port = many(3)
    growing, before = Growing(gap=0, padding=(0, 0)), Growing(gap=0, padding=(0, 0))
    before.feed("x")
    growing.feed("\n".join(f"line {n}" for n in range(3, 12)))
    port.blocks = [before, *port.blocks, growing]
    seen(port)
    port.move(-4)
    assert seen(port) == ["4", "5", "6", "7"]
    growing.feed("\nmore and more\n\n\n")
    before.feed("\n\n\n")
    port.changed()
    assert seen(port) == ["4", "5", "6", "7"]


def test_what_is_shorter_than_the_window_cannot_be_moved() -> None:
    port = many(2)
    port.move(-5)
    assert seen(port) == ["0", "1", "", ""]
    assert port.is_following


def test_old_blocks_can_be_dropped_without_moving_what_is_seen() -> None:
    port = many(10)
    port.selected = port.blocks[0]
    seen(port)
    port.move(-2)
    port.drop_first(3)
    assert (seen(port), port.selected) == (["4", "5", "6", "7"], None)
    port.drop_first(4)
    assert seen(port) == ["7", "8", "9", ""] or seen(port)[-1] == "9"


def test_a_click_tells_the_block_and_its_lines_are_marked() -> None:
    clicks = []
    port = Viewport(clicked=lambda block, button: clicks.append((block, button)))
    first, second = Lines("a\nb", gap=1), Lines("c", gap=1)
    port.blocks += [first, second]
    render_text(port, (10, 6))
    for row in range(6):
        click(port, (10, 6), 0, row, button=3 if row == 3 else 1)
    assert clicks == [(first, 1), (first, 1), (first, 1), (second, 3), (second, 1), (None, 1)]
    port.select(second)
    assert [row[0][0] for row in render_runs(port, (10, 6))] == [None, None, None, "selected", "selected", None]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(0, 1)), min_size=1, max_size=6),
    st.integers(8, 40),
    st.integers(1, 20),
    st.lists(st.integers(-15, 15), max_size=6),
)
@settings(max_examples=60)
def test_every_window_is_a_part_of_the_whole(parts, columns: int, rows: int, moves: list[int]) -> None:
    blocks = [
        Lines("word " * words, kind="error" if titled else "", title="T" if titled else "", padding=(vertical, 1))
        for words, titled, vertical in parts
    ]
    total = sum(block.rows(columns) for block in blocks)
    whole = Viewport()
    whole.blocks = blocks
    lines = render_text(whole, (columns, total))
    port = Viewport()
    port.blocks = blocks
    for move in (0, *moves):
        port.move(move)
        found = render_text(port, (columns, rows))
        shown = found[: min(rows, total)]
        assert any(lines[at : at + len(shown)] == shown for at in range(total - len(shown) + 1))
        assert "".join(found[total:]).strip() == ""


def test_any_size_can_be_drawn() -> None:
    port = Viewport()
    port.blocks += [answer(DOCUMENT), Lines("x", kind="error", title="Error", padding=(1, 2))]
    check_box_sizing(port)


# --- much of it -------------------------------------------------------------------------------


def cpu_of(work) -> float:
    """Milliseconds of CPU, the least of three."""

    def once() -> float:
        began = time.process_time()
        work()
        return (time.process_time() - began) * 1000

    return min(once() for _ in range(3))


def test_a_frame_costs_the_same_however_much_there_is() -> None:
    port = Viewport()
    long = Answer((0, 1))
    for n in range(5_000):
        long.feed(f"word{n} and *more*{'. ' if n % 9 else chr(10) * 2}")
    port.blocks += [Lines("\n".join(f"output {n}" for n in range(10_000))), *many(1000).blocks, long]
    drawn_all = drawn(*port.blocks)
    assert "word4999" in "".join(drawn_all)

    def frame() -> None:
        long.feed("and one ")
        port.changed()
        port.render((100, 40))

    assert cpu_of(frame) < 60  # about 5; a tenth of what laying all of it out would take


def test_the_last_column_of_a_table_is_folded_within_itself() -> None:
    from aar.transports.fullscreen.replies import reply_blocks
    from aar.transports.terminal.slash import Reply, Table

    table = Table("Themes", ("name", "about"), (("one", "short"), ("漢字", "some words that do not fit")))
    blocks = reply_blocks(Reply(problem="wrong \x1b[31m", table=table, text="and text"))
    assert drawn(*blocks, size=(26, 11)) == [
        " wrong",
        "",
        "─ Themes ─────────────────",
        "│ name  about",
        "│ one   short",
        "│ 漢字  some words that",
        "│       do not fit",
        "",
        " and text",
        "",
        "",
    ]
    assert blocks[1].text == "name  about\none   short\n漢字  some words that do not fit"
