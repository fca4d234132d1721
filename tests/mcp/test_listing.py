"""What a server lists is bounded and harmless to look at."""

from __future__ import annotations

import logging

from mcp_types import Prompt, PromptArgument, Resource, Tool, ToolAnnotations

from aar.mcp.listing import DESCRIPTION, TOOLS, prompt_of, resource_of, tools_of
from aar.messages.mcp import McpPrompt, McpResource, McpServer, McpTool

SERVER = McpServer(name="s", command="x")


def named(name: str, **more) -> Tool:
    return Tool(name=name, **{"input_schema": {"type": "object", "properties": {}}, **more})


def test_a_tool_keeps_its_words_and_its_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = named("t", description="Does it.", input_schema=schema)
    assert tools_of(SERVER, [tool]) == (McpTool(name="t", description="Does it.", input_schema=schema),)


def test_what_a_server_says_about_its_tools_counts_only_when_it_is_trusted_in_that() -> None:
    hints = (ToolAnnotations(read_only_hint=True), ToolAnnotations(read_only_hint=False), ToolAnnotations(), None)
    tools = [named(f"t{number}", annotations=hint) for number, hint in enumerate(hints)]
    trusted = SERVER.model_copy(update={"trust_annotations": True})
    assert [tool.is_read_only for tool in tools_of(SERVER, tools)] == [False] * 4
    assert [tool.is_read_only for tool in tools_of(trusted, tools)] == [True, False, False, False]


def test_a_schema_without_a_type_is_one_of_an_object() -> None:
    assert [tool.input_schema for tool in tools_of(SERVER, [named("a", input_schema={}), named("b")])] == [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}},
    ]


def test_characters_that_steer_a_terminal_are_gone_and_long_descriptions_are_cut() -> None:
    (tool,) = tools_of(SERVER, [named("t", description="a\x1b[31mb\u202ec\td\ne" + "x" * DESCRIPTION)])
    assert tool.description.startswith("a [31mb c\td\ne")
    assert len(tool.description) == DESCRIPTION
    assert tool.description.endswith("…")


def test_what_is_too_much_is_left_out_and_logged(caplog) -> None:
    caplog.set_level(logging.INFO)
    found = tools_of(SERVER, [named(f"t{number}") for number in (*range(TOOLS + 9), 0)])
    assert [tool.name for tool in found] == [f"t{number}" for number in range(TOOLS)]
    assert [record.getMessage() for record in caplog.records] == [
        "MCP server s has more than 512 tools: the others are left out",
    ]


def test_all_that_a_server_says_about_its_tools_is_bounded_together(caplog) -> None:
    caplog.set_level(logging.INFO)
    schema = {"type": "object", "description": "x" * 90_000}
    found = tools_of(SERVER, [named(f"t{number}", input_schema=schema) for number in range(20)])
    assert [tool.name for tool in found] == [f"t{number}" for number in range(11)]
    assert caplog.messages == [
        "MCP server s has more than 1,000,000 characters about its tools: the others are left out"
    ]


def test_resources_and_prompts_become_plain_data() -> None:
    found = resource_of(Resource(uri="notes://a", name="a", mime_type="text/plain"))
    assert found == McpResource(uri="notes://a", name="a", mime_type="text/plain")
    arguments = [PromptArgument(name="x", required=True), PromptArgument(name="y")]
    made = prompt_of(Prompt(name="p", description="d", arguments=arguments))
    assert made == McpPrompt(name="p", description="d", arguments=("x", "y"), required=("x",))
    assert prompt_of(Prompt(name="p")) == McpPrompt(name="p")
