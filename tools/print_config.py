"""Prints a config that starts the servers from any folder, in the form of Aar or of Zed."""

import argparse
import json
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
SERVERS = ["web", "gitlab", "signal"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a config with absolute paths, for the servers of this folder")
    parser.add_argument("servers", nargs="*", metavar="web|gitlab|signal", help="which ones (default: all)")
    parser.add_argument("--zed", action="store_true", help="in the form of Zed's settings instead of Aar's")
    flags = parser.parse_args()
    names = flags.servers or SERVERS
    if unknown := set(names) - set(SERVERS):
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    print_config({name: {"command": sys.executable, "args": [str(TOOLS / name)]} for name in names}, zed=flags.zed)


def print_config(starts: dict[str, dict[str, object]], *, zed: bool) -> None:
    config: dict[str, object] = {"context_servers": starts}
    if not zed:
        fixed = {"transport": "stdio", "prefix_tools": True}
        config = {"servers": [{"name": name, **start, **fixed} for name, start in starts.items()]}
    sys.stdout.write(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
