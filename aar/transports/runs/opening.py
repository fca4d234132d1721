"""From the flags of a server to what its runs need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aar.agent import ApprovalResult
from aar.config import secret_values
from aar.logs import configure_logging
from aar.runtime import check_provider, session_store
from aar.transports.program.exits import DONE, FAILED, complain
from aar.transports.program.finding import with_model
from aar.transports.program.flags import SettingFlags
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen
from aar.transports.program.servers import named_servers
from aar.transports.program.settings import here, loaded_settings
from aar.transports.runs.host import Host, Setup

__all__ = ["code_of", "host_for", "setup_of"]


async def setup_of(flags: SettingFlags, mcp: Path | None, screen: Screen, token: str) -> Setup:
    """Sessions work in this folder. `token` is kept out of the logs. Raises what keeps a model from being used."""
    cwd, home = here(), home_folder()
    config = await with_model(loaded_settings(flags).watched(), screen)
    configure_logging(config.log_level, config.log_file, secrets=[*secret_values(config), token])
    check_provider(config)
    return Setup(config, session_store(config, home=home, cwd=cwd), cwd, home, named_servers(mcp, home))


def host_for(setup: Setup, *, says_yes: bool) -> Host:
    """Nobody is there to be asked: every question is answered with no, or with yes."""
    return Host(lambda: setup, approval_callback=_yes if says_yes else None, extensions=True)


def _yes(*_: Any) -> ApprovalResult:
    return ApprovalResult.APPROVED


def code_of(*, is_broken: bool) -> int:
    """The exit code of a server that was told to end, or that has lost its host; that is told here."""
    if is_broken:
        complain("A part of Aar stopped working, so the server has ended. What was said until then is kept.")
    return FAILED if is_broken else DONE
