"""Colours of code: never at the cost of the interface."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aar.transports.fullscreen import highlight
from aar.transports.fullscreen.highlight import PLAIN, highlighted


def test_a_lexer_that_takes_too_long_leaves_the_code_without_colours(monkeypatch) -> None:
    assert len(highlighted("x = 1", "python")) > 1
    monkeypatch.setattr(highlight, "PATIENCE", -1.0)
    assert highlighted("x = 1", "python") == [(PLAIN, "x = 1")]


def test_a_lexer_that_fails_leaves_the_code_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def get_tokens(self, code: str) -> Iterator[tuple[object, str]]:
            yield "Token.Keyword", code[:1]
            raise IndexError("pop from empty list")

    monkeypatch.setattr(highlight, "_lexer", lambda language: Broken())
    assert highlighted("x = 1", "broken") == [(PLAIN, "x = 1")]
