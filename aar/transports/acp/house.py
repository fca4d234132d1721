"""Everything behind the protocol: settings, model, runtime. Loaded once the client has its first answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aar.client import Sessions
from aar.config import Loaded, secret_values
from aar.errors import ConfigError
from aar.logs import configure_logging
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig
from aar.runtime import open_runtime, session_store
from aar.transports.acp.casting import Casting
from aar.transports.program.exits import Told
from aar.transports.program.finding import with_model
from aar.transports.program.flags import SettingFlags
from aar.transports.program.home import home_folder
from aar.transports.program.servers import named_servers
from aar.transports.program.settings import here, loaded_settings

if TYPE_CHECKING:
    from aar.roles import Roles

__all__ = ["House", "open_house"]

logger = logging.getLogger(__name__)


class House(NamedTuple):
    """The sessions of this process and the settings that new ones get. `remark` is for whoever opens one.

    `servers` are the MCP servers of the user, for every session; `says_yes`: all questions are answered beforehand.
    """

    sessions: Sessions
    config: AgentConfig
    servers: tuple[McpServer, ...] = ()
    remark: str = ""
    says_yes: bool = False
    casting: Casting = Casting(Path(), None)


class _Remarks:
    """What finding a model has to say: for the log, since nobody sees a terminal."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def tell(self, text: str) -> None:
        self.said.append(text.strip())
        logger.info("%s", text.strip())


@asynccontextmanager
async def open_house(flags: SettingFlags, mcp: Path | None) -> AsyncIterator[House]:
    """A runtime for the settings in force. Raises `ConfigError`."""
    loaded = loaded_settings(flags).watched()
    remarks = _Remarks()
    remark = ""
    try:
        config = await with_model(loaded, remarks)
    except Told:  # there is none; a session says so, and `/model` can name one
        config, remark = loaded.config, remarks.said[-1] if remarks.said else ""
    configure_logging(config.log_level, config.log_file, secrets=secret_values(config))
    agent, mode = config.agent, config.mode
    roles_of = partial(_roles, loaded, config, flags)
    if loaded.plain is not None:
        config = roles_of(_folder(str(home_folder()))).plain
    _warn_of_timeouts(config)
    home = home_folder()
    servers = named_servers(mcp, home)
    store = session_store(config, home=home, cwd=_folder(str(home)))
    async with open_runtime(config, store=store, home=home, extensions=True, share=True) as runtime:
        casting = Casting(home, roles_of, agent=agent, mode=mode)
        yield House(runtime.sessions, config, servers, remark, flags.says_yes, casting)


def _roles(loaded: Loaded, config: AgentConfig, flags: SettingFlags, cwd: str) -> Roles:
    from aar.transports.program.casting import roles_of  # most users have no agents

    return roles_of(loaded, config, flags, cwd)


def _folder(otherwise: str) -> str:
    """Where a relative `session_dir` begins; the folders of sessions come from the client."""
    try:
        return here()
    except ConfigError:
        return otherwise


def _warn_of_timeouts(config: AgentConfig) -> None:
    waiting, turn = config.safety.acp_approval_timeout, config.timeout
    if turn and waiting > turn:
        logger.warning(
            "safety.acp_approval_timeout (%g s) is longer than a turn may take (timeout, %g s)", waiting, turn
        )
