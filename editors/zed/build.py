"""Builds the archives of the launcher for Zed's five platforms, and the manifest that names them.

`python editors/zed/build.py --url https://host/path --output dist/zed` prints the SHA-256 of each archive. The same
sources give the same bytes, so a checksum can be checked by building again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = ["darwin-aarch64", "darwin-x86_64", "linux-aarch64", "linux-x86_64", "windows-x86_64"]
PLACEHOLDER = "https://example.invalid"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the archives and the manifest of the Zed extension")
    parser.add_argument("--url", default=PLACEHOLDER, help="where the archives will be found")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "zed", help="default: dist/zed")
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    sums = {}
    for target in TARGETS:
        name, content = archive(target)
        (flags.output / name).write_bytes(content)
        sums[name] = hashlib.sha256(content).hexdigest()
        sys.stdout.write(f"{sums[name]}  {name}\n")
    (flags.output / "extension.toml").write_text(manifest(flags.url.rstrip("/"), sums), encoding="utf-8")
    (flags.output / "icon.svg").write_bytes((HERE / "icon.svg").read_bytes())
    (flags.output / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())


def version() -> str:
    """The version of Aar, read without importing it."""
    text = (ROOT / "aar" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    assert found is not None
    return found[1]


def archive(target: str) -> tuple[str, bytes]:
    """Name and bytes of the archive for a platform: the launcher and the licence."""
    is_windows = target.startswith("windows")
    launcher = HERE / "launcher" / ("aar-acp.cmd" if is_windows else "aar-acp")
    text = launcher.read_bytes()
    files = {launcher.name: text.replace(b"\n", b"\r\n") if is_windows else text, "LICENSE": licence()}
    name = f"aar-zed-{version()}-{target}"
    return (f"{name}.zip", zipped(files)) if is_windows else (f"{name}.tar.gz", tarred(files, launcher.name))


def licence() -> bytes:
    return (ROOT / "LICENSE").read_bytes()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name, EPOCH), content)
    return out.getvalue()


def tarred(files: dict[str, bytes], program: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if name == program else 0o644
            file.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def manifest(url: str, sums: dict[str, str]) -> str:
    """The manifest with real addresses, and a checksum below each."""
    lines = []
    for line in (HERE / "extension.toml").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(rf'archive = "{re.escape(PLACEHOLDER)}/([^"]+)"', line)
        lines += [line] if found is None else [f'archive = "{url}/{found[1]}"', f'sha256 = "{sums[found[1]]}"']
    return "\n".join(lines[1:]) + "\n"


if __name__ == "__main__":
    main()
