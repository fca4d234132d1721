from __future__ import annotations

import os
from pathlib import Path

from aar.safety.opening import open_folder, replace_in


def test_a_name_as_long_as_the_file_system_allows_can_be_replaced(tmp_path: Path) -> None:
    name = "日" * 84  # 252 bytes, of 255
    with open_folder(str(tmp_path.resolve())) as folder:
        replace_in(folder, name, b"old")
        replace_in(folder, name, b"new")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"new"


def test_new_content_does_not_run_as_somebody_else(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b"old")
    file.chmod(0o4755)
    with open_folder(str(tmp_path.resolve())) as folder:
        replace_in(folder, "program", b"new")
    assert file.stat().st_mode & 0o7777 == 0o755
