"""What makes a small model call tools: a chat template that shows it done.

Telling a model of 135 million parameters about tools has no effect. Shown a dozen finished tasks it copies the form,
the names of the tools and of their arguments, and stops after repeating what the tool said. The template has ChatML's
frame, in which most small models were trained, and the tags for calls that llama.cpp reads back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aar.messages.tools import ToolSchema

__all__ = ["BRIEF_TEMPLATE", "EXAMPLES", "FULL_TEMPLATE", "Example", "required_only"]


@dataclass(frozen=True, slots=True)
class Example:
    """A task, the one call that does it, what the tool says, and the last word, which repeats that if empty."""

    task: str
    tool: str
    arguments: dict[str, str]
    result: str
    answer: str = ""

    def render(self) -> str:
        call = json.dumps({"name": self.tool, "arguments": self.arguments})
        return (
            _said("user", self.task)
            + _said("assistant", f"<tool_call>\n{call}\n</tool_call>")
            + _said("user", f"<tool_response>\n{self.result}\n</tool_response>")
            + _said("assistant", self.answer or self.result)
        )


def _said(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


FOLDER = "/home/ann/work"
LISTING = f"Contents of {FOLDER}:\n\nd src\nf cake.md  (120 bytes)\nf shop.txt  (18 bytes)"
LISTING_OF_SRC = f"Contents of {FOLDER}/src:\n\nf help.md  (9 bytes)\nf shop.py  (44 bytes)"
PRICE = "The price is 7 euros."
NOTHING = "(no output)"

# The order counts: the model leans towards what it saw last.
EXAMPLES = (
    Example("List the files in this folder", "list_directory", {"path": "."}, LISTING),
    Example(
        "Read shop.txt", "read_file", {"path": "shop.txt"}, "     1\tThe price is 7 euros.", "The price is 7 euros."
    ),
    Example("Run the command date", "bash", {"command": "date"}, "Mon Mar  3 10:15:00 UTC 2025"),
    Example(
        "Create notes.txt containing buy milk",
        "write_file",
        {"path": "notes.txt", "content": "buy milk"},
        f"Wrote 8 bytes to {FOLDER}/notes.txt",
    ),
    Example(
        "Find all Markdown files",
        "find_files",
        {"glob_pattern": "**/*.md"},
        "Found 2 file(s):\ncake.md\nsrc/help.md",
    ),
    Example(
        "Replace red with blue in colors.txt",
        "edit_file",
        {"path": "colors.txt", "old_string": "red", "new_string": "blue"},
        f"Edited {FOLDER}/colors.txt: replaced 1 occurrence",
    ),
    Example("Search for the word price", "grep", {"regex": "price"}, "Found 1 match:\nsrc/shop.py:3: price = 5"),
    Example("Create a folder called pictures", "bash", {"command": "mkdir pictures"}, NOTHING, "Done."),
    Example(
        "What does cake.md say?",
        "read_file",
        {"path": "cake.md"},
        "     1\tMix flour and sugar.",
        "Mix flour and sugar.",
    ),
    Example("Delete the file draft.doc", "bash", {"command": "rm draft.doc"}, NOTHING, "Done."),
    Example(
        "Change 10 to 20 in limits.ini",
        "edit_file",
        {"path": "limits.ini", "old_string": "10", "new_string": "20"},
        f"Edited {FOLDER}/limits.ini: replaced 1 occurrence",
    ),
    Example("Show the folder src", "list_directory", {"path": "src"}, LISTING_OF_SRC),
    Example("How many lines does cake.md have?", "bash", {"command": "wc -l cake.md"}, "12 cake.md"),
    Example(
        "Write the text see you soon into bye.txt",
        "write_file",
        {"path": "bye.txt", "content": "see you soon"},
        f"Wrote 12 bytes to {FOLDER}/bye.txt",
    ),
)

_INSTRUCTION = "You do each task with one tool call. Then you repeat what the tool said."

_DESCRIBED = """\
<|im_start|>system
{% if messages and messages[0].role == 'system' %}{{ messages[0].content }}

{% endif -%}
Tools, each with the JSON schema of its arguments:
{% for tool in tools %}{{ tool | tojson }}
{% endfor -%}
Call a tool as in these finished tasks. Use as many calls as the task needs, one at a time.<|im_end|>
"""

_CONVERSATION = """\
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- if not tools -%}
<|im_start|>system
{{ message.content }}<|im_end|>
{% endif -%}
{%- elif message.role == 'tool' -%}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% elif message.role == 'assistant' -%}
<|im_start|>assistant
{% if message.content %}{{ message.content }}{% endif -%}
{%- if message.tool_calls -%}
{%- for tool_call in message.tool_calls -%}
{%- if message.content or not loop.first %}
{% endif -%}
<tool_call>
{"name": "{{ tool_call.function.name }}", "arguments": {{ tool_call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
{%- endif -%}<|im_end|>
{% else -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def _template(opening: str) -> str:
    tasks = "".join(example.render() for example in EXAMPLES)
    return "{%- if tools -%}\n" + opening + tasks + "{% endif -%}\n" + _CONVERSATION


BRIEF_TEMPLATE = _template(_said("system", _INSTRUCTION))
"""For the default model: the examples are all that it understands, so a system prompt gives way to them."""

FULL_TEMPLATE = _template(_DESCRIBED)
"""For any other model whose own template has no place for tools."""


def required_only(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
    """The tools without their optional arguments; one that has no other keeps them."""
    return tuple(replace(tool, input_schema=_without_options(tool.input_schema)) for tool in tools)


def _without_options(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required")
    if not required:
        return schema
    properties = schema.get("properties", {})
    return {**schema, "properties": {name: properties[name] for name in required if name in properties}}
