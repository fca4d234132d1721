"""Markdown as paragraphs for urwid, in pieces: what is done is not looked at again while more comes in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from aar.display import plain
from aar.transports.fullscreen.highlight import Runs, highlighted

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["TEXT_LIMIT", "GrowingMarkdown", "Paragraph", "harmless", "plain_paragraphs"]

TEXT_LIMIT = 4_000
"""Characters of one paragraph at most: what is laid out as a whole must be short."""

WINDOW = 8_000  # characters that are parsed at once
INDENT = 2


class Paragraph(NamedTuple):
    """`markup` is urwid's; `indent` in columns, in which `label` stands; `fill` is the style of its whole lines."""

    markup: Any
    indent: int = 0
    fill: str | None = None
    label: str = ""


def harmless(text: str) -> str:
    """Without anything that moves the cursor, tabs as spaces."""
    return plain(text).expandtabs(4)


def plain_paragraphs(text: str, style: str | None = None, *, indent: int = 0) -> list[Paragraph]:
    """Text as it is, in pieces that end with lines where that is possible."""
    return [Paragraph((style, piece) if style else piece, indent) for piece in _pieces(text)]


def _pieces(text: str) -> Iterator[str]:
    while len(text) > TEXT_LIMIT:
        end = text.rfind("\n", 1, TEXT_LIMIT)
        piece = text[: end if end > 0 else TEXT_LIMIT]
        yield piece
        text = text[len(piece) + (end > 0) :]
    yield text


class GrowingMarkdown:
    """Markdown that comes in. `finished` grows; `open` is what further text may still change."""

    def __init__(self) -> None:
        self._text = ""
        self._new: list[str] = []
        self.finished: list[Paragraph] = []
        self.open: list[Paragraph] = []
        self.is_whole = False  # no more will come
        self._at = 0  # what is before is in `finished`
        self._fence = ""  # the line that opened the code in which `_at` is

    def feed(self, text: str) -> None:
        self._new.append(text)

    @property
    def text(self) -> str:
        if self._new:
            self._text += "".join(self._new)
            self._new.clear()
        return self._text

    def advance(self) -> bool:
        """Take in a bounded piece of what has come. Tells whether there is more of it to do."""
        self.open = []
        text = self.text
        window = text[self._at : self._at + WINDOW]
        is_full = self._at + WINDOW < len(text)
        if is_full:
            window = window[: window.rfind("\n") + 1] or window
        prefix = f"{self._fence}\n" if self._fence else ""
        tokens = _parser().parse(prefix + window)
        last = max((at for at, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0), default=0)
        done = self._length_before(window, tokens, last, len(prefix) > 0)
        if is_full and not done:
            done, last = self._split(window, tokens, last), len(tokens)
        elif done or last == 0:
            self._fence = "" if done else self._fence
        self.finished += _paragraphs(tokens[:last])
        self.open = [] if is_full else _paragraphs(tokens[last:], is_open=not self.is_whole)
        self._at += done
        return is_full

    def _length_before(self, window: str, tokens: Sequence[Token], last: int, is_prefixed: bool) -> int:
        if last == 0 or not tokens[last].map:
            return 0
        lines = tokens[last].map[0] - is_prefixed  # type: ignore[index]
        at = 0
        for _ in range(lines):
            at = window.find("\n", at) + 1
        return at

    def _split(self, window: str, tokens: Sequence[Token], last: int) -> int:
        """One block that is longer than all that is looked at: cut it here. Code goes on as code."""
        opened = tokens[last] if last < len(tokens) else None
        is_open_code = opened is not None and opened.type == "fence" and not window.rstrip().endswith(opened.markup)
        self._fence = f"{opened.markup}{opened.info}" if is_open_code and opened is not None else ""
        return len(window)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


# --- from tokens to paragraphs ----------------------------------------------------------------


def _paragraphs(tokens: Sequence[Token], *, is_open: bool = False) -> list[Paragraph]:
    return _Writer(is_open=is_open).write(tokens)


class _Writer:
    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open  # more may come: not worth the time that colours take
        self._out: list[Paragraph] = []
        self._lists: list[int | None] = []  # the next number of each list we are in; `None` for bullets
        self._quotes = 0
        self._marker = ""
        self._style: str | None = None
        self._rows: list[list[str]] = []

    def write(self, tokens: Sequence[Token]) -> list[Paragraph]:
        for token in tokens:
            self._token(token)
        return self._out

    def _token(self, token: Token) -> None:
        match token.type:
            case "inline":
                self._inline(token)
            case "fence" | "code_block":
                self._code(token.content, token.info.strip().partition(" ")[0])
            case "html_block":
                self._add(harmless(token.content.rstrip("\n")))
            case "hr":
                self._add(("md.quote", "─" * 20))
            case "heading_open":
                self._style = "md.heading"
            case "heading_close":
                self._style = None
                self._gap()
            case "bullet_list_open":
                self._lists.append(None)
            case "ordered_list_open":
                self._lists.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                if not self._lists:
                    self._gap()
            case "list_item_open":
                self._begin_item()
            case "blockquote_open" | "blockquote_close":
                self._quotes += token.nesting
            case "paragraph_close" if not self._lists:
                self._gap()
            case "table_close":
                self._table()
            case "tr_open":
                self._rows.append([])

    def _begin_item(self) -> None:
        number = self._lists[-1]
        self._marker = "• " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1

    def _inline(self, token: Token) -> None:
        if self._rows and token.level >= 3 and token.map is not None and self._in_table(token):
            self._rows[-1].append("".join(text for _, text in _runs(token.children or [], None)))
            return
        runs = _runs(token.children or [], self._style or ("md.quote" if self._quotes else None))
        for piece in _short(runs):
            self._add(piece)

    def _in_table(self, token: Token) -> bool:
        return bool(self._rows) and self._rows[-1] is not None

    def _code(self, content: str, language: str) -> None:
        code = harmless(content.rstrip("\n"))
        runs: Runs = [("md.code", code)]
        if language and not self._is_open:
            runs = highlighted(code, language)
        for piece in _whole_lines(runs):
            self._out.append(Paragraph(piece, self._indent() + 1, "md.block"))
        self._gap()

    def _table(self) -> None:
        rows, self._rows = self._rows, []
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=False)]
        for at, row in enumerate(rows):
            cells = " │ ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
            self._add([("md.strong", cells)] if at == 0 else cells)
            if at == 0:
                self._add(("md.quote", "─┼─".join("─" * width for width in widths)))
        self._gap()

    def _add(self, markup: Any) -> None:
        marker, self._marker = self._marker, ""
        indent = self._indent()
        if marker:
            indent = max(0, indent - len(marker))
            markup = [("md.heading", marker), markup]
        if self._quotes:
            markup = [("md.quote", "│ " * self._quotes), markup]
        self._out.append(Paragraph(markup, indent))

    def _indent(self) -> int:
        return sum(INDENT if number is None else INDENT + 1 for number in self._lists)

    def _gap(self) -> None:
        if not self._lists:
            self._out.append(Paragraph(""))


def _runs(tokens: Sequence[Token], style: str | None) -> Runs:
    """Styled texts of one line of Markdown. The innermost style counts."""
    runs: Runs = []
    styles = [style]
    for token in tokens:
        match token.type:
            case "text" | "html_inline":
                runs.append((styles[-1], harmless(token.content)))
            case "code_inline":
                runs.append(("md.code", harmless(token.content)))
            case "softbreak":
                runs.append((styles[-1], " "))
            case "hardbreak":
                runs.append((styles[-1], "\n"))
            case "image":
                runs.append(("md.link", f"[{harmless(token.content)}]"))
            case "strong_open" | "em_open" | "s_open" | "link_open":
                styles.append(_STYLES[token.type])
                if token.type == "link_open":
                    styles.append("md.link")
            case "strong_close" | "em_close" | "s_close":
                styles.pop()
            case "link_close":
                styles.pop()
                styles.pop()
    return runs


_STYLES = {"strong_open": "md.strong", "em_open": "md.emphasis", "s_open": "md.strike", "link_open": "md.link"}


def _short(runs: Runs) -> Iterator[Any]:
    """The runs in paragraphs that are not too long."""
    piece: list[Any] = []
    length = 0
    for style, text in runs:
        for at, part in enumerate(_pieces(text)):
            if piece and (at or length + len(part) > TEXT_LIMIT):
                yield piece
                piece, length = [], 0
            piece.append((style, part) if style else part)
            length += len(part)
    if piece:
        yield piece


def _whole_lines(runs: Runs) -> Iterator[Any]:
    """The same, cut between lines as long as these are not too long themselves."""
    lines: list[Runs] = [[]]
    for style, text in runs:
        first, *others = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    piece: Runs = []
    length = 0
    for line in lines:
        size = sum(len(text) for _, text in line) + 1
        if piece and length + size > TEXT_LIMIT:
            yield from _short(piece)
            piece, length = [], 0
        piece += [("md.code", "\n"), *line] if piece else line
        length += size
    yield from _short(piece)
