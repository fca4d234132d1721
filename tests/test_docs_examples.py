"""What the pages of the documentation say is compared with the program: settings, tools, errors, exit codes, links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from aar import errors
from aar.config import API_KEY_VARIABLES, merge_config
from aar.journal.reading import parse_journal
from aar.journal.state import Session, state_after
from aar.journal.store import Stored
from aar.messages.events import Event, TurnStop
from aar.messages.settings import (
    BUILTIN_TOOLS,
    DENIED_COMMANDS,
    DENIED_PATHS,
    MORE_TOOLS,
    AgentConfig,
    ProviderConfig,
    ToolConfig,
)
from aar.messages.tools import ErrorCategory
from aar.safety.own_files import NOTABLE, PROTECTED
from aar.tools import builtin_tools
from aar.transports.program import exits
from aar.transports.program.exits import code_of_stop

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("*.md")])
FENCED = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
LONG_DEFAULTS = {"provider", "safety.denied_paths", "safety.sandbox.wsl.rootfs_url"}


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def fenced(info: str) -> list[tuple[str, str]]:
    """Page and text of every block with this mark."""
    pages = ((page, page.read_text(encoding="utf-8")) for page in PAGES)
    return [
        (f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}", block["text"])
        for page, text in pages
        for block in FENCED.finditer(text)
        if block["info"].strip() == info
    ]


def rows(page: str, columns: int) -> Iterator[list[str]]:
    """The cells of every row in the tables of a page with so many columns, without their heads."""
    lines = FENCED.sub("", text_of(page)).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == columns:
                yield cells


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "text"), [pytest.param(*block, id=block[0]) for block in fenced("json config")])
def test_an_example_of_a_configuration_loads_without_a_warning(where: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    loaded = merge_config(file=file, environ={})
    assert loaded.warnings == (), where


def defaults_of(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Every setting below a model by its path, with its default; groups are opened."""
    found: dict[str, Any] = {}
    for name, default in model().model_dump(mode="json").items():
        inner = type(getattr(model(), name))
        if issubclass(inner, BaseModel) and inner is not ProviderConfig:
            found.update(defaults_of(inner, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = default
    return found


def test_every_setting_is_documented_with_its_default() -> None:
    expected = {**defaults_of(AgentConfig), **defaults_of(ProviderConfig, "provider.")}
    told = {words(cells[0])[0]: cells for cells in rows("configuration.md", 4) if words(cells[0])}
    assert sorted(told) == sorted(expected)
    for name, cells in told.items():
        if name not in LONG_DEFAULTS:
            assert json.loads(words(cells[2])[0]) == expected[name], name


def test_every_variable_with_a_key_is_documented() -> None:
    told = {word for cells in rows("configuration.md", 2) for word in words(cells[0])}
    assert {*API_KEY_VARIABLES.values(), "AAR_HOME", "GENERIC_ENDPOINT"} <= told


# --- safety -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("denied_paths", DENIED_PATHS),
        ("denied_commands", DENIED_COMMANDS),
        ("protected", PROTECTED),
        ("notable", NOTABLE),
    ],
)
def test_a_list_of_patterns_is_the_one_that_holds(mark: str, expected: tuple[str, ...]) -> None:
    ((_, text),) = fenced(f"text {mark}")
    assert tuple(text.splitlines()) == expected


# --- tools ------------------------------------------------------------------------------------


def test_every_tool_is_documented_with_its_effect_and_arguments() -> None:
    told = {words(cells[0])[0]: cells for cells in rows("tools.md", 4) if words(cells[0])}
    tools = builtin_tools(ToolConfig(enabled_builtins=[*BUILTIN_TOOLS, *MORE_TOOLS]))
    assert list(told) == [tool.name for tool in tools]
    for tool in tools:
        _, effect, asks, takes = told[tool.name]
        assert [effect] == [str(each) for each in tool.side_effects]
        assert asks == ("no" if effect in ("read", "none") else "yes")
        assert words(takes) == list(tool.input_schema["properties"])
        assert f"## {tool.name}\n" in text_of("tools.md")


def test_every_kind_of_failed_tool_is_documented() -> None:
    told = re.findall(r"^\| `Error \[(\w+)\]`", text_of("tools.md"), re.MULTILINE)
    assert told == list(get_args(ErrorCategory))


# --- sessions ---------------------------------------------------------------------------------


def test_the_session_file_that_is_explained_can_be_read() -> None:
    ((_, text),) = fenced("jsonl session")
    parsed = parse_journal(text.encode(), "817b2ad15e628fcf", "the example")
    session = Session.of(Stored(parsed.header, parsed.records))
    assert (parsed.torn, parsed.is_checked, session.state) == (b"", True, "completed")
    assert (session.total_tokens, round(session.total_cost, 5)) == (1099, 0.00231)
    assert session.to_messages()[-1] == {"role": "assistant", "content": "It says hi."}


def test_every_line_of_the_session_file_is_explained() -> None:
    ((_, text),) = fenced("jsonl session")
    told = [int(number) for cells in rows("sessions.md", 2) for number in re.findall(r"\d+", cells[0])]
    assert told == list(range(1, len(text.splitlines()) + 1))


def test_every_event_is_documented_with_its_fields() -> None:
    told = {words(cells[0])[0]: words(cells[2]) for cells in rows("sessions.md", 3) if words(cells[0])}
    base = set(Event.model_fields)
    classes = [kind for kind in Event.__subclasses__() if kind.__module__ == Event.__module__]
    assert told == {kind().type: [name for name in kind.model_fields if name not in base] for kind in classes}


def test_every_end_of_a_turn_is_documented_with_its_exit_code() -> None:
    told = {words(cells[0])[0]: cells for cells in rows("sessions.md", 4)}
    assert set(told) == set(get_args(TurnStop))
    for stop, (_, state, code, _) in told.items():
        assert state == state_after(stop)
        assert code == ("" if stop == "interrupted" else str(code_of_stop(stop)))


# --- errors and exit codes --------------------------------------------------------------------


def test_every_error_class_is_documented() -> None:
    section = text_of("troubleshooting.md").partition("## Errors in programs")[2]
    told = re.findall(
        r"`([A-Z]\w+)`", "\n".join(line.split("|")[1] for line in section.splitlines() if line[:1] == "|")
    )
    assert sorted(told) == sorted(errors.__all__)


def test_every_exit_code_is_documented() -> None:
    section = text_of("troubleshooting.md").partition("## Exit codes")[2].partition("\n## ")[0]
    told = [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    constants = {exits.DONE, exits.FAILED, exits.USAGE, exits.HUNG_UP, exits.CANCELLED, exits.TERMINATED}
    assert told == sorted(constants | {code_of_stop(stop) for stop in get_args(TurnStop)})


# --- links ------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors that headings get: small letters, dashes for spaces, without other marks."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link["target"].partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link["target"])
    assert broken == []


def test_the_index_names_every_page() -> None:
    told = set(re.findall(r"\]\(([\w-]+\.md)\)", text_of("README.md")))
    assert told >= {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"}
