"""Starts the server from any folder: `python3 path/to/tools/signal`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from tools.signal.start import main  # noqa: E402 - only now can it be found

main()
