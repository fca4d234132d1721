"""Commands that try to stay, each of which first writes the id of the process that is meant to stay."""

from __future__ import annotations

import pytest

STAY = "echo $$; exec sleep 1000"
DEAF = "trap : TERM; echo $$; while :; do sleep 1000; done"

STUBBORN = {
    "a plain child": f"sh -c '{STAY}' & wait",
    "deaf to TERM": DEAF,
    "its own session": f"setsid sh -c '{STAY}' & wait",
    "forked twice": f"( ( setsid sh -c '{STAY}' & ) & ); sleep 1000",
    "forked twice and deaf": f"( ( setsid sh -c '{DEAF}' & ) & ); sleep 1000",
    "without environment": f"env -i setsid -f /bin/sh -c '{STAY}'; sleep 1000",
    "leader gone": f"setsid -f sh -c '{STAY}'; read go",
    "stopped": "sh -c 'echo $$; kill -STOP $$; sleep 1000' & wait",
    "always forking": "setsid -f sh -c 'trap \"\" TERM; echo $$; while :; do sh -c :; done'; sleep 1000",
    "nested sessions": f"setsid -f setsid -w setsid -w sh -c '{STAY}'; sleep 1000",
    "kills its parent": f"read pid < <(setsid -f sh -c '{STAY}'); echo $pid; kill -KILL $PPID; sleep 1000",
    "stops its parent": f"setsid -f sh -c '{STAY}'; kill -STOP $PPID; sleep 1000",
}


@pytest.fixture(params=list(STUBBORN.values()), ids=list(STUBBORN))
def stubborn(request: pytest.FixtureRequest) -> str:
    """A shell command that writes one process id and does everything for that process to survive."""
    command: str = request.param
    return command
