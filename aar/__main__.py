"""`python -m aar`, and what the console script `aar` calls."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from aar.transports.cli.help import prepared_text

    try:
        text = prepared_text(sys.argv[1:])
        if text is not None:
            code = _printed(text)
        else:
            import gc
            import os
            import signal

            from aar.processes.environment import NO_PLUGINS

            os.environ.setdefault(*NO_PLUGINS)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `run_to_code`: nothing has begun yet
            gc.disable()  # modules make many objects and no garbage; `run_to_code` has it looked for again
            from aar.transports.cli.app import run_command

            code = run_command(sys.argv[1:])
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is over: one more Ctrl+C must not change the exit code
            gc.freeze()  # and Python need not look for garbage before it throws everything away
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # whoever read us has left: what Python would write while it ends goes nowhere
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 130
    sys.exit(code)


def _printed(text: str) -> int:
    if sys.stdout is None:  # closed by whoever started us
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # a disk that is full; what is left in the buffer goes nowhere
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr.write(f"aar: standard output: {error.strerror or error}\n")
        return 1
    return 0


def _leave_the_current_folder_out() -> None:
    """`python -m` puts it first on the path, where the modules of any project would pass for those that Aar imports.

    Unless Aar itself is there.
    """
    import os

    here = sys.path[0]
    is_current = not sys.flags.safe_path and os.path.isdir(here) and os.path.samefile(here, ".")
    if is_current and not os.path.exists(os.path.join(here, "aar", "__main__.py")):
        del sys.path[0]


if __name__ == "__main__":
    _leave_the_current_folder_out()
    main()
