"""How many files a git folder has changed. Git is asked without letting the folder run anything.

The settings in `.git` may name programs that git runs to look at files, and a folder from elsewhere brings its own.
So these are switched off, but for the filters that the user's own settings name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import trio

from aar.errors import AarError
from aar.processes.command import run_command
from aar.processes.environment import child_environment

__all__ = ["GIT_TIMEOUT", "count_dirty"]

GIT_TIMEOUT = 3.0  # seconds for everything
OUTPUT_LIMIT = 50_000  # characters; of more, the count is one of those that fit

_FILTER = r"^filter\..*\.(clean|process|required)$"
_FILTERS = ("git", "config", "-z", "--name-only", "--show-scope", "--get-regexp", _FILTER)
_STATUS = ("git", "--no-optional-locks", "status", "--porcelain", "--no-renames", "--ignore-submodules=all")
_OWN_SCOPES = ("system", "global")
_SCOPES = (*_OWN_SCOPES, "local", "worktree", "command")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # missing objects are not fetched
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}


async def count_dirty(cwd: str, *, timeout: float = GIT_TIMEOUT, base: Mapping[str, str] | None = None) -> int | None:
    """Files that are changed, staged or new, as `git status` lists them; `None` when that cannot be told.

    Takes `timeout` seconds at most and never raises: no git, no repository and a slow disk are all `None`. `base`
    stands in for this process's environment.
    """
    dirty: int | None = None
    try:
        with trio.move_on_after(timeout):
            settings = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "status.submoduleSummary": "false"}
            listed = await _output(_FILTERS, cwd, {}, base, fine=(0, 1))
            if listed is not None:
                settings |= dict.fromkeys(_foreign(listed.split("\0")), "")
                status = await _output(_STATUS, cwd, settings, base, fine=(0,))
                dirty = None if status is None else len(status.splitlines())
    except (OSError, ValueError, AarError):
        return None
    return dirty


async def _output(
    argv: Sequence[str], cwd: str, settings: Mapping[str, str], base: Mapping[str, str] | None, *, fine: Sequence[int]
) -> str | None:
    """Settings go through the environment, where their names may have any character."""
    told = {"GIT_CONFIG_COUNT": str(len(settings))}
    for at, (key, value) in enumerate(settings.items()):
        told |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    env = child_environment(base=base, extra=_ENVIRONMENT | told)
    done = await run_command(argv, cwd=cwd, env=env, timeout=None, output_limit=OUTPUT_LIMIT)
    return done.stdout if done.exit_code in fine else None


def _foreign(words: Sequence[str]) -> Iterator[str]:
    """Of scope, name, scope, name, ...: the names that are not the user's own.

    Raises `ValueError` for a list that is not whole: what is missing could be run.
    """
    for scope, name in zip(words[:-1:2], words[1::2], strict=True):  # the last word is what follows the last name
        if scope not in _SCOPES:
            raise ValueError("a part of the list is missing")
        if scope not in _OWN_SCOPES:
            yield name
