from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aar.tools import match_lines

PIECES = st.sampled_from(
    [
        *"abKk .*+?^$|(){}ſé",
        *("[ab]", "{2}", "{0}", "(?i)", "\\\\", r"\N{LATIN SMALL LETTER A}", r"\x61", r"\141", r"\u0061"),
        *(r"\b", r"\.", r"\w", r"\s", r"\d", r"\Z"),
    ]
)
TEXTS = st.text("abkKsSſK. é\\\n\r{}", max_size=40)


def order_for(path: Path, pattern: str, **more: Any) -> dict[str, Any]:
    files = [[path.name, str(path)]]
    defaults = {"case_sensitive": False, "max_results": 100, "max_line": 1000, "max_bytes": 1000, "files": files}
    return {"pattern": pattern, **defaults, **more}


@given(st.lists(PIECES, min_size=1, max_size=6).map("".join), TEXTS, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_skipping_files_early_never_loses_a_match(
    tmp_path: Path, pattern: str, text: str, case_sensitive: bool
) -> None:
    try:
        compiled = re.compile(pattern, 0 if case_sensitive else re.IGNORECASE)
    except (re.error, OverflowError):
        return
    path = tmp_path / "file.txt"
    path.write_bytes(text.encode())
    lines = text.replace("\r\n", "\n").split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    expected = [f"file.txt:{at}: {line.rstrip()}" for at, line in enumerate(lines, 1) if compiled.search(line)]
    answer = match_lines.search(compiled, order_for(path, pattern, case_sensitive=case_sensitive))
    assert answer == {"total": len(expected), "lines": expected}


@pytest.mark.parametrize(
    ("pattern", "needle"),
    [
        ("needle", b"needle"),
        (r"def \w+_name", b"_name"),
        ("colou?r", b"colo"),
        ("ab+c", b"ab"),
        (r"^import .*path$", b"import "),
        (r"foo\.bar\(", b""),
        (r"a\.b", b"a.b"),
        ("x{2}yz", b"yz"),
        ("(one|two)", b""),
        (r"\x41bc", b"bc"),
        ("äbc", b""),
    ],
)
def test_the_text_that_every_match_needs(pattern: str, needle: bytes) -> None:
    assert match_lines.needed_text(pattern) == needle


def test_only_the_file_that_was_found_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("needle\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.txt").symlink_to("real.txt")
    (tmp_path / "way").symlink_to(tmp_path)
    for name in ("link.txt", "way/real.txt", "folder", "gone.txt"):
        answer = match_lines.search(re.compile("needle"), order_for(tmp_path / name, "needle"))
        assert answer == {"total": 0, "lines": []}
