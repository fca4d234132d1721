"""`python -m bench`: one table of what Aar costs, each row against a baseline that is measured in the same run.

    python -m bench [--quick] [--only NAME] [--json FILE]

NAME is one of the files: startup, steps, streaming, providers, sessions, cancel, journal, acp. The exit code is 0, also
when a limit is not kept, unless something could not be measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from bench.table import Row, headline, rendered

PARTS = ("startup", "steps", "streaming", "providers", "sessions", "cancel", "journal", "acp")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: under two minutes")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here, too")
    wanted = parser.parse_args()
    head = headline()
    start = time.monotonic()
    rows: list[Row] = []
    failed: list[str] = []
    for part in wanted.only or PARTS:
        print(f"{part} ...", file=sys.stderr, flush=True)
        found = _measured(part, quick=wanted.quick)
        rows += found
        if not found:
            failed.append(part)
    print(f"{head}, {time.monotonic() - start:.0f} s\n")
    print(rendered(rows))
    if wanted.json:
        wanted.json.write_text(json.dumps({"head": head, "rows": [asdict(row) for row in rows]}, indent=2))
    if failed:
        print(f"\nCould not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measured(part: str, *, quick: bool) -> list[Row]:
    """The rows of one part, from a process of its own: no part warms or fills the memory of another one."""
    command = [sys.executable, "-m", f"bench.{part}", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    rows = [Row(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    return rows if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main())
