"""The API in somebody else's server, and without one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trio.testing
from hypercorn.middleware.dispatcher import TrioDispatcherMiddleware

import aar
from aar.errors import StoreUnavailable
from aar.messages.mcp import McpServer
from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.testing import MemoryStore, ScriptedProvider
from aar.tools.registry import ToolRegistry
from aar.transports.http.access import Access
from aar.transports.http.refused import Refused
from aar.transports.web.app import OTHER_LOOP, build_app
from aar.transports.web.chat import MOST_BEHIND
from tests.mcp.conftest import plain
from tests.transports.acp_http.conftest import post
from tests.transports.acp_http.conftest import served as on_a_port
from tests.transports.web.conftest import served as in_process

__all__ = ["plain"]

PAGE = Path(__file__).parents[3] / "docs" / "web.md"


def made(home: Path, provider: ScriptedProvider, **more: Any) -> Any:
    return aar.create_asgi_app(AgentConfig(), provider=provider, store=MemoryStore(), home=home, cwd=home, **more)


async def test_the_application_is_mounted_beside_others(tmp_path: Path) -> None:
    apps = {path: made(tmp_path, ScriptedProvider().text(path).forever()) for path in ("/one", "/two")}
    async with on_a_port(TrioDispatcherMiddleware(apps)) as url, httpx2.AsyncClient(base_url=url) as http:
        for path in apps:
            assert (await http.get(f"{path}/health")).json() == {"status": "ok"}
            answer = (await http.post(f"{path}/chat", json={"prompt": "go"})).json()
            assert answer["response"] == path
            assert (await http.get(f"{path}/sessions")).json() == {"sessions": [answer["session_id"]]}


def test_making_the_application_opens_nothing(tmp_path: Path) -> None:
    aar.create_asgi_app(cwd=tmp_path, home=tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


async def test_without_settings_those_of_the_user_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AAR_HOME", str(tmp_path))
    (tmp_path / "config.json").write_text('{"providers": {"mine": {"name": "generic", "model": "m"}}}')
    async with aar.WebTransport(cwd=tmp_path) as transport:
        with pytest.raises(Refused, match="Available: mine"):
            await transport.handle_chat({"prompt": "go", "provider": "yours"})


@pytest.mark.covers("WEB-13")
async def test_requests_share_the_tools_of_a_registry_those_of_mcp_servers_among_them(
    tmp_path: Path, plain: Callable[..., McpServer]
) -> None:
    provider = ScriptedProvider().call("echo", text="hello").text("Done.").forever()
    registry, config = ToolRegistry(), AgentConfig(safety=SafetyConfig(require_approval_for_execute=False))
    async with aar.open_mcp_bridge(registry, [plain(tools=["echo"])], cwd=tmp_path):
        transport = aar.WebTransport(
            config, registry=registry, provider=provider, store=MemoryStore(), home=tmp_path, cwd=tmp_path
        )
        async with transport:
            answers = [await transport.handle_chat({"prompt": "go"}) for _ in range(2)]
    assert [answer["response"] for answer in answers] == ["Done.", "Done."]
    [result] = answers[0]["tool_results"]
    assert (result["tool_name"], result["is_error"], "hello" in result["output"]) == ("echo", False, True)
    assert ["echo" in [spec.name for spec in request.tools] for request in provider.requests] == [True] * 3


async def test_it_can_be_used_without_http(tmp_path: Path) -> None:
    provider = ScriptedProvider().text("Hello.").hang("Let me")
    store = MemoryStore()
    async with aar.WebTransport(
        AgentConfig(streaming=True), provider=provider, store=store, home=tmp_path, cwd=tmp_path
    ) as transport:
        answer = await transport.handle_chat({"prompt": "hi"})
        session_id = answer["session_id"]
        assert await transport.list_sessions() == [session_id]
        assert (await transport.get_session(session_id))["state"] == "completed"  # type: ignore[index]
        assert await transport.get_session("nobody") is None
        with trio.CancelScope() as left:
            async with trio.open_nursery() as nursery:

                async def leave() -> None:
                    await provider.reached(2)
                    left.cancel()

                nursery.start_soon(leave)
                await transport.handle_chat({"prompt": "more", "session_id": session_id})
        assert provider.streaming_now == 0
        assert (await transport.get_session(session_id))["state"] == "cancelled"  # type: ignore[index]
    with pytest.raises(Refused, match="not ready"):
        await transport.handle_chat({"prompt": "hi"})


async def test_a_slow_reader_gets_all_facts_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    provider = ScriptedProvider().text("x" * 200_000, chunks=2000).text("Hello.")
    async with aar.WebTransport(
        AgentConfig(streaming=True), provider=provider, store=MemoryStore(), home=tmp_path, cwd=tmp_path
    ) as transport:
        frames = transport.handle_stream({"prompt": "go"})
        told = await anext(frames)
        await provider.reached(1)
        assert (await transport.handle_chat({"prompt": "hi"}))["response"] == "Hello."
        told += "".join([frame async for frame in frames])
    kinds = re.findall("^event: (.*)$", told, re.MULTILINE)
    assert kinds.count("stream_chunk") < 500
    assert [kind for kind in kinds if kind in ("user_message", "assistant_message", "turn_ended")] == [
        "user_message",
        "assistant_message",
        "turn_ended",
    ]
    assert kinds[-1] == "session"


async def test_whoever_reads_nothing_keeps_its_session_no_longer_than_its_turn(tmp_path: Path) -> None:
    calls = [("list_directory", {"path": "."})] * MOST_BEHIND
    provider = ScriptedProvider().calls(*calls).text("Done.").text("Hello.")
    config = AgentConfig(streaming=True)
    async with (
        aar.WebTransport(config, provider=provider, store=MemoryStore(), home=tmp_path, cwd=tmp_path) as transport,
        aclosing(transport.handle_stream({"prompt": "go"})) as frames,
    ):
        session_id = json.loads((await anext(frames)).split("data: ")[1])["data"]["session_id"]
        answer = await transport.handle_chat({"prompt": "hi", "session_id": session_id})
        assert (answer["session_id"], answer["response"]) == (session_id, "Hello.")
        told = "".join([frame async for frame in frames])
        assert told.count("event: tool_result\n") == MOST_BEHIND


async def test_half_a_character_is_told_like_all_others(tmp_path: Path) -> None:
    provider = ScriptedProvider().text("a\ud83d").text("a\ud83d")
    async with aar.WebTransport(
        AgentConfig(streaming=True), provider=provider, store=MemoryStore(), home=tmp_path, cwd=tmp_path
    ) as transport:
        told = "".join([frame async for frame in transport.handle_stream({"prompt": "go"})])
        assert '"a\\ud83d' in told
        assert (await transport.handle_chat({"prompt": "go"}))["state"] == "completed"


async def test_a_session_that_cannot_be_kept_is_not_begun(tmp_path: Path) -> None:
    class Full(MemoryStore):
        def open(self, session_id: str, *, create: bool) -> Any:
            raise StoreUnavailable("the disk is full")

    async with aar.WebTransport(
        AgentConfig(), provider=ScriptedProvider(), store=Full(), home=tmp_path, cwd=tmp_path
    ) as transport:
        with pytest.raises(Refused, match="the disk is full") as refused:
            await transport.handle_chat({"prompt": "go"})
        assert refused.value.status == 500


async def test_whatever_cannot_begin_is_told_to_the_server(tmp_path: Path) -> None:
    class Lame(aar.WebTransport):
        async def __aenter__(self) -> Any:
            raise ExceptionGroup("", [StoreUnavailable("the disk is full")])

    told: list[Any] = []
    to_app, hears = trio.open_memory_channel[Any](1)
    await to_app.send({"type": "lifespan.startup"})

    async def send(message: Any) -> None:
        told.append(message)

    await build_app(Lame(AgentConfig(), home=tmp_path, cwd=tmp_path), Access())(
        {"type": "lifespan"}, hears.receive, send
    )
    assert told == [{"type": "lifespan.startup.failed", "message": "the disk is full"}]


async def test_when_what_is_behind_it_breaks_the_server_goes_on_to_say_so(tmp_path: Path) -> None:
    broken = trio.Event()

    class Fragile(aar.WebTransport):
        async def __aenter__(self) -> Any:
            await super().__aenter__()
            self.nursery = trio.open_nursery()
            (await self.nursery.__aenter__()).start_soon(self.break_down)
            return self

        async def break_down(self) -> None:
            await broken.wait()
            raise StoreUnavailable("the disk is gone")

        async def __aexit__(self, *error: Any) -> None:
            try:
                await self.nursery.__aexit__(*error)
            finally:
                await super().__aexit__(None, None, None)

    store = MemoryStore()
    app = build_app(Fragile(AgentConfig(), store=store, home=tmp_path, cwd=tmp_path), Access())
    async with in_process(app, store) as client:
        assert (await client.get("/sessions"))[0] == 200
        broken.set()
        await trio.testing.wait_all_tasks_blocked()
        assert await client.get("/sessions") == (503, {"error": "The server is not ready"})
        assert (await client.get("/health"))[0] == 200


def test_a_server_on_another_event_loop_is_told_what_is_needed(tmp_path: Path) -> None:
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        told.append(message)

    with pytest.raises(StopIteration):
        made(tmp_path, ScriptedProvider())({"type": "lifespan"}, receive, send).send(None)
    assert told == [{"type": "lifespan.startup.failed", "message": OTHER_LOOP}]


async def test_a_real_client_that_leaves_ends_its_turn(tmp_path: Path) -> None:
    provider = ScriptedProvider().hang("Let me")
    async with on_a_port(made(tmp_path, provider)) as url:
        host, port = url.removeprefix("http://").rsplit(":", 1)
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(post("/chat", {"prompt": "go"}))
            await provider.reached(1)
        while provider.streaming_now:
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_the_requests_of_the_documentation_are_understood(tmp_path: Path) -> None:
    commands = re.findall(r"^curl .* -d .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 6
    config = AgentConfig(providers={"fast": ProviderConfig(name="generic", model="m")})
    app = aar.create_asgi_app(
        config, provider=ScriptedProvider().text("x").forever(), store=MemoryStore(), home=tmp_path, cwd=tmp_path
    )
    async with on_a_port(app) as url, httpx2.AsyncClient(base_url=url) as http:
        for command in commands:
            words = shlex.split(command)
            [path] = [word.split("/", 3)[3] for word in words if word.startswith("http://")]
            answer = await http.post(f"/{path}", content=words[words.index("-d") + 1].encode())
            assert answer.status_code == 200, command
