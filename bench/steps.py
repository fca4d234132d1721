"""What a step costs: an instant model, a hundred steps, each with one call of a tool that does nothing."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from aar.client import SessionHandle
from aar.journal.jsonl import JsonlStore
from aar.messages.events import AssistantMessage, Event, UserMessage
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.providers.scripted import ScriptedProvider
from aar.runtime import open_runtime
from aar.tools.registry import ToolRegistry
from bench import bare
from bench.server import Server, open_server
from bench.table import Row, cpu, is_quick, print_rows, rounds

LONG = 10_000  # messages of a long session


async def noop(n: int) -> str:
    return "ok"


def settings(url: str, **more: Any) -> AgentConfig:
    """For a session that asks the bench server, whole answers, no limits in the way."""
    provider = ProviderConfig(name="generic", model="m", base_url=url)
    return AgentConfig(provider=provider, max_steps=100_000, streaming=False, context_window=0, **more)


def toolbox() -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(description="Does nothing.")(noop)
    return tools


@asynccontextmanager
async def open_session(
    config: AgentConfig, *, provider: ScriptedProvider | None = None, folder: str = ""
) -> AsyncIterator[SessionHandle]:
    """A session with the tool `noop`, in memory unless a folder is given."""
    store = JsonlStore(folder) if folder else None
    async with open_runtime(config, provider=provider, tools=toolbox(), store=store) as runtime:
        yield await runtime.sessions.open("/")


def aar_steps(
    config: AgentConfig,
    steps: int,
    *,
    history: int = 0,
    on_disk: bool = False,
    provider: ScriptedProvider | None = None,
    warm: bool = False,
) -> float:
    """Milliseconds of CPU per step of one turn.

    Its first request and the opening of the connection are among them, unless the session is `warm`: has asked before.
    """

    async def main() -> float:
        with tempfile.TemporaryDirectory() as folder:
            async with open_session(config, provider=provider, folder=folder if on_disk else "") as session:
                if warm:
                    await session.run("go")
                if history:
                    await session.adopt(_facts(history))
                start = cpu()
                ended = await session.run("go")
                spent = cpu() - start
                if ended.stop != "end_turn":
                    raise RuntimeError(f"the turn ended as {ended.stop}")
                return spent / steps

    return trio.run(main)


def bare_steps(url: str, steps: int, *, history: int = 0) -> float:
    async def main() -> float:
        messages: list[dict[str, Any]] = [*_messages(history), {"role": "user", "content": "go"}]
        async with bare.new_client() as client:
            start = cpu()
            await bare.run(client, url, messages, {"noop": noop})
            return (cpu() - start) / steps

    return trio.run(main)


def _messages(count: int) -> list[dict[str, Any]]:
    text = "What is said in a message of a long conversation, neither long nor short. "
    return [{"role": ("user", "assistant")[number % 2], "content": f"{number}: {text}"} for number in range(count)]


def _facts(count: int) -> list[Event]:
    made = {"user": UserMessage, "assistant": AssistantMessage}
    return [made[message["role"]](content=message["content"]) for message in _messages(count)]


def _scripted(steps: int) -> ScriptedProvider:
    provider = ScriptedProvider()
    for number in range(steps - 1):
        provider.call("noop", n=number)
    return provider.text("Done.")


# --- rows -------------------------------------------------------------------------------------


def _added(name: str, ours: float, theirs: float, limit: float) -> Row:
    return Row(name, f"{ours:.2f} ms", f"{theirs:.2f} ms", ours - theirs, "ms", limit)


def _over_http(server: Server, repeats: int) -> list[Row]:
    steps = 100
    url = server.url(f"/tools/{steps - 1}")
    memory, disk, plain = rounds(
        repeats,
        partial(aar_steps, settings(url), steps),
        partial(aar_steps, settings(url), steps, on_disk=True),
        partial(bare_steps, url, steps),
    )
    return [
        _added("step over HTTP, added CPU", memory, plain, 1.0),
        _added("step over HTTP, journal on disk, added CPU", disk, plain, 1.0),
    ]


def _scripted_model(repeats: int) -> Row:
    steps = 100
    config = settings("http://127.0.0.1:9")
    [ours] = rounds(repeats, lambda: aar_steps(config, steps, provider=_scripted(steps)))
    return Row("step with a scripted model, CPU", f"{ours:.2f} ms", "nothing", ours, "ms", 1.0)


def _long_session(server: Server, repeats: int) -> Row:
    steps = 20
    url = server.url(f"/tools/{steps - 1}")
    ours, theirs = rounds(
        repeats, partial(aar_steps, settings(url), steps, history=LONG), partial(bare_steps, url, steps, history=LONG)
    )
    return Row(f"step with {LONG:,} messages", f"{ours:.2f} ms", f"{theirs:.2f} ms", ours / theirs, "x", 2.0)


def main() -> None:
    repeats = 5 if is_quick() else 15  # a disturbance lasts seconds, and one of these a third of one
    with open_server() as server:
        print_rows(_over_http(server, repeats))
        print_rows([_scripted_model(repeats), _long_session(server, 3 if is_quick() else 5)])


if __name__ == "__main__":
    main()
