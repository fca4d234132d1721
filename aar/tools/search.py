"""grep and find_files: one walk, the session's rules for every file, patterns that cannot hang."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from typing import Any

import trio

from aar.messages.tools import SideEffect
from aar.processes.environment import child_environment
from aar.processes.group import open_process
from aar.safety.display import visible
from aar.safety.paths import PathGuard
from aar.tools.globs import Glob
from aar.tools.registry import ToolContext, ToolSpec
from aar.tools.threads import in_thread
from aar.tools.walk import MAX_FILES, FoundFile, walk

__all__ = ["MAX_SEARCHED_BYTES", "SEARCH_SECONDS", "SEARCH_TOOLS"]

MAX_SEARCHED_BYTES = 2_000_000
"""Larger files are not searched."""

SEARCH_SECONDS = 30.0
"""A pattern that takes longer is given up."""

MAX_RESULTS = 2_000
MAX_LINE_CHARS = 1_000
MAX_PATTERN_CHARS = 10_000
MAX_GLOB_CHARS = 4_096  # as long as a path may be
FEW_RESULTS = 10

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "match_lines.py")
_ANSWER_BYTES = 16 * 1024 * 1024


def _glob(pattern: str) -> Glob:
    if len(pattern) > MAX_GLOB_CHARS:
        raise ValueError(f"Invalid glob: longer than {MAX_GLOB_CHARS} characters")
    return Glob(pattern)


def _shown(name: str) -> str:
    return visible(name).replace("\n", "\\n")


# --- grep ---------------------------------------------------------------------------------------


async def grep(
    ctx: ToolContext, regex: str, include_pattern: str = "", case_sensitive: bool = False, max_results: int = 50
) -> str:
    if len(regex) > MAX_PATTERN_CHARS:
        raise ValueError(f"Invalid regex: longer than {MAX_PATTERN_CHARS} characters")
    files = await in_thread(lambda: _searchable(ctx.paths, include_pattern))
    most = min(max(1, int(max_results)), MAX_RESULTS)  # 1.0 is an integer to JSON schema
    order = {
        "pattern": regex,
        "case_sensitive": case_sensitive,
        "max_results": most,
        "max_line": MAX_LINE_CHARS,
        "max_bytes": MAX_SEARCHED_BYTES,
        "files": [(_shown(one.name), os.fsencode(one.path).decode("latin-1")) for one in files],
    }
    answer = await _match(order, ctx.cwd)
    if "error" in answer:
        raise ValueError(f"Invalid regex: {answer['error']}")
    return _report(answer["lines"], answer["total"], most)


def _searchable(paths: PathGuard, include_pattern: str) -> list[FoundFile]:
    wanted = _glob(include_pattern).matches if include_pattern else lambda name: True
    found = walk(paths, wanted, checkpoint=trio.from_thread.check_cancelled)
    fitting = (one for one in found if one.size <= MAX_SEARCHED_BYTES)
    return sorted(islice(fitting, MAX_FILES), key=lambda one: one.name)


async def _match(order: dict[str, Any], cwd: str) -> Any:
    command = [sys.executable, "-I", "-S", _SCRIPT]
    written = bytearray()
    with trio.move_on_after(SEARCH_SECONDS) as limit:
        async with open_process(command, cwd=cwd, env=child_environment(), stdin=json.dumps(order).encode()) as process:
            async for chunk in process.stdout:
                written += chunk
                if len(written) > _ANSWER_BYTES:
                    break
    if limit.cancelled_caught:
        raise TimeoutError(
            f"The search took longer than {SEARCH_SECONDS:g}s: simplify the regex or add an include_pattern"
        )
    try:
        return json.loads(written)
    except ValueError as error:
        raise ValueError("Invalid regex: matching it needs too much memory or time") from error


def _report(lines: list[str], total: int, most: int) -> str:
    if not total:
        return "No matches found."
    cut = total > most
    header = f"Found {total} match{'' if total == 1 else 'es'}{f' (showing first {most})' if cut else ''}:"
    parts = [header, *lines]
    if total <= FEW_RESULTS:
        parts += ["", "Use read_file with start_line/end_line to see the lines around a match."]
    if cut:
        parts += ["", "Use a larger max_results, a narrower regex or an include_pattern to see the others."]
    return "\n".join(parts)


# --- find_files ---------------------------------------------------------------------------------


async def find_files(ctx: ToolContext, glob_pattern: str, max_results: int = 200) -> str:
    most = max(1, int(max_results))
    names = await in_thread(lambda: _names(ctx.paths, glob_pattern))
    if not names:
        return f"No files matching '{glob_pattern}' found."
    cut = f" (showing first {most})" if len(names) > most else ""
    header = f"Found {len(names)} file{'' if len(names) == 1 else 's'}{cut}:"
    return "\n".join([header, *map(_shown, names[:most])])


def _names(paths: PathGuard, pattern: str) -> list[str]:
    found = walk(paths, _glob(pattern).matches, checkpoint=trio.from_thread.check_cancelled)
    return sorted(one.name for one in islice(found, MAX_FILES))


# --- what the model is told ---------------------------------------------------------------------

_GREP = ToolSpec(
    name="grep",
    description=(
        "Search the contents of all files below the working folder for a regular expression (Python syntax), line by "
        "line. Hidden and generated folders and files over 2 MB are skipped."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "regex": {"type": "string", "description": "The regular expression, Python re syntax"},
            "include_pattern": {
                "type": "string",
                "description": "Only files whose relative path fits this glob: '**/*.py' everywhere, '*.md' at the top",
                "default": "",
            },
            "case_sensitive": {"type": "boolean", "description": "Whether case counts", "default": False},
            "max_results": {"type": "integer", "description": "How many matches to show", "default": 50},
        },
        "required": ["regex"],
    },
    side_effects=(SideEffect.READ,),
    prompt_snippet="Search file contents with regex",
    prompt_guidelines=(
        "Use grep to search file contents (symbols, patterns); use find_files for path/filename searches.",
    ),
    handler=grep,
)

_FIND_FILES = ToolSpec(
    name="find_files",
    description=(
        "Find files below the working folder by a glob pattern such as '**/*.py' or 'src/*.ts'. "
        "Hidden and generated folders are skipped."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "glob_pattern": {"type": "string", "description": "Glob relative to the working folder; ** is any folders"},
            "max_results": {"type": "integer", "description": "How many paths to show", "default": 200},
        },
        "required": ["glob_pattern"],
    },
    side_effects=(SideEffect.READ,),
    prompt_snippet="Find files by glob pattern",
    handler=find_files,
)

SEARCH_TOOLS = {spec.name: spec for spec in (_GREP, _FIND_FILES)}
