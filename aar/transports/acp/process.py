"""The process of `aar acp`: its streams, its signals, and the rest of Aar, which loads behind the first answer."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from aar.errors import AarError, ClientGone
from aar.groups import leaves
from aar.transports.acp.calls import Call, Reply
from aar.transports.acp.frames import INTERNAL, NO_SUCH_METHOD, RpcError
from aar.transports.acp.handshake import ClientCapabilities, Greeting, capabilities_of, initialize_result
from aar.transports.acp.rpc import Connection
from aar.transports.program.exits import DONE, run_to_code
from aar.transports.program.sentences import sentence
from aar.transports.program.signals import watch_signals
from aar.transports.stdio.streams import Outlet, read_some, take_stdio

if TYPE_CHECKING:
    from aar.transports.acp.agent import Agent
    from aar.transports.program.flags import SettingFlags

__all__ = ["METHODS", "Front", "serve_process"]

METHODS = frozenset(
    {
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/list",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/set_mode",
        "session/set_config_option",
    }
)

logger = logging.getLogger(__name__)


def serve_process(flags: SettingFlags, mcp: Path | None, greeting: Greeting) -> int:
    """Serve until the client leaves or a signal ends it. Answers with the exit code."""
    return run_to_code(partial(_serve, flags, mcp, greeting))


async def _serve(flags: SettingFlags, mcp: Path | None, greeting: Greeting) -> int:
    stdio = take_stdio()
    outlet = Outlet(stdio.write)
    try:
        async with trio.open_nursery() as watching:
            connection = Connection(partial(read_some, stdio.read), outlet)
            await watching.start(watch_signals, lambda _: connection.hang_up())
            async with trio.open_nursery() as nursery:
                front = Front(flags, mcp, connection, greeting.client)
                nursery.start_soon(front.keep_house)
                await connection.run(front, greeting.received)
                nursery.cancel_scope.cancel()
            watching.cancel_scope.cancel()  # only now: a signal must not cut short what ends
    except* ClientGone:
        logger.info("the client does not read any more")
    return DONE


class Front:
    """What the client talks to. Says at once what needs no sessions, and lets everything else wait for them."""

    def __init__(
        self, flags: SettingFlags, mcp: Path | None, connection: Connection, client: ClientCapabilities | None = None
    ) -> None:
        self._flags = flags
        self._mcp = mcp
        self._connection = connection
        self._client = client or ClientCapabilities()
        self._is_wanted = trio.Event()
        if client is not None:
            self._is_wanted.set()
        self._agent: Agent | None = None
        self._failure = ""
        self._is_settled = trio.Event()

    def lane_of(self, call: Call) -> str | None:
        session_id = call.params.get("sessionId")
        return session_id if isinstance(session_id, str) else None

    def answer_at_once(self, call: Call) -> Reply | None:
        if call.method == "initialize":
            result = initialize_result(call.params)
            self._client = capabilities_of(call.params)
            self._is_wanted.set()
            return Reply(result)
        if call.method in ("authenticate", "logout"):
            return Reply({})
        if call.method == "session/cancel":  # not behind what its session does now: it may be that which is to end
            if (session_id := self.lane_of(call)) is not None:
                self._connection.cancel("session/prompt", session_id)
            return Reply(None)
        if call.method in METHODS and call.wants_answer:
            self._is_wanted.set()
            if call.method == "session/prompt":
                call.when_cancelled = Reply({"stopReason": "cancelled"})
            return None
        if call.wants_answer:
            raise RpcError(NO_SUCH_METHOD, f"There is no method {call.method!r}.")
        return Reply(None)

    async def serve(self, call: Call) -> Reply:
        if not self._is_settled.is_set():  # to ask an event that is set costs a trip through the scheduler
            await self._is_settled.wait()
        if self._agent is None:
            raise RpcError(INTERNAL, self._failure)
        return await self._agent.serve(call)

    async def leave(self) -> None:
        self._connection.cancel("session/prompt")
        if self._agent is not None:
            await self._agent.leave()

    async def keep_house(self) -> None:
        """Load the rest of Aar and keep its sessions running. Settings that make no sense are told to whoever asks."""
        await self._is_wanted.wait()
        try:
            await self._open()
        except* AarError as errors:
            if self._agent is not None:
                raise
            self._failure = "\n".join(sentence(error) for error in leaves(errors))
            logger.error("%s", self._failure)
        finally:
            self._is_settled.set()

    async def _open(self) -> None:
        await trio.to_thread.run_sync(_import_the_rest, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
        from aar.transports.acp.agent import Agent
        from aar.transports.acp.house import open_house

        async with open_house(self._flags, self._mcp) as house, trio.open_nursery() as nursery:
            self._agent = Agent(house, self._connection, self._client, nursery)
            self._is_settled.set()
            await trio.sleep_forever()


def _import_the_rest() -> None:
    """In a thread: the client may say more meanwhile."""
    import aar.transports.acp.agent
    import aar.transports.acp.house  # noqa: F401
