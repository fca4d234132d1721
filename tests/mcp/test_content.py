"""What a server says, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from aar.mcp.content import joined, result_text


@pytest.mark.covers("MCP-08")
def test_each_kind_of_block_has_its_text_and_no_base64() -> None:
    blocks = [
        TextContent(text="plain"),
        ImageContent(data="aGk=", mime_type="image/png"),
        AudioContent(data="aGk=", mime_type="audio/wav"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="inside")),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob="aGk=")),
        ResourceLink(uri="file:///c", name="c"),
        7,
    ]
    assert result_text(blocks, None, 10_000).split("\n") == [
        "plain",
        "[image: image/png]",
        "[audio: audio/wav]",
        "inside",
        "[blob resource: file:///b]",
        '{"name":"c","uri":"file:///c","type":"resource_link"}',
        "7",
    ]


@pytest.mark.covers("MCP-08")
def test_a_structured_result_counts_when_it_is_alone() -> None:
    assert result_text([], {"sum": 3, "ü": 1}, 100) == '{"sum": 3, "ü": 1}'
    assert result_text([TextContent(text="three")], {"sum": 3}, 100) == "three"
    assert result_text([TextContent(text="")], {"sum": 3}, 100) == ""


@given(st.lists(st.text()), st.integers(0, 50))
def test_text_is_cut_one_character_after_the_limit_at_the_latest(texts, limit) -> None:
    assert joined(texts, limit) == "\n".join(texts)[: limit + 1]


def test_what_is_beyond_the_limit_is_not_even_looked_at() -> None:
    def endless():
        while True:
            yield "x" * 100

    assert len(joined(endless(), 1000)) == 1001
