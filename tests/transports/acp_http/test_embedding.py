"""The application in somebody else's server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from hypercorn.middleware.dispatcher import TrioDispatcherMiddleware

import aar
from aar.messages.settings import AgentConfig
from aar.testing import MemoryStore, ScriptedProvider
from tests.transports.acp_http.conftest import asked, served


@pytest.mark.covers("ACPH-19")
async def test_the_application_is_mounted_beside_others(tmp_path: Path) -> None:
    apps = {
        path: aar.create_acp_asgi_app(
            AgentConfig(), agent_name=name, provider=ScriptedProvider().text(name), store=MemoryStore(), home=tmp_path
        )
        for path, name in (("/one", "first"), ("/two", "second"))
    }
    async with served(TrioDispatcherMiddleware(apps)) as url, httpx2.AsyncClient(base_url=url) as http:
        for path, name in (("/one", "first"), ("/two", "second")):
            assert (await http.get(f"{path}/ping")).json() == {"status": "ok"}
            assert [agent["name"] for agent in (await http.get(f"{path}/agents")).json()["agents"]] == [name]
            run = (await http.post(f"{path}/runs", json=asked("go"))).json()
            assert (run["agent_name"], run["output"][0]["parts"][0]["content"]) == (name, name)
            assert (await http.get(f"{path}/runs/{run['run_id']}")).status_code == 200
        assert (await http.get(f"/one/runs/{run['run_id']}")).status_code == 404


@pytest.mark.covers("ACPH-19")
def test_making_the_application_opens_nothing(tmp_path: Path) -> None:
    aar.create_acp_asgi_app(cwd=tmp_path, home=tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_the_servers_packages_are_not_imported_with_aar() -> None:
    code = "import aar, sys; aar.Agent; print([name for name in ('quart', 'hypercorn') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_without_settings_those_of_the_user_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AAR_HOME", str(tmp_path))
    (tmp_path / "config.json").write_text('{"provider": {"name": "generic", "model": "mine"}, "max_steps": 9}')
    async with served(aar.create_acp_asgi_app(cwd=tmp_path)) as url, httpx2.AsyncClient(base_url=url) as http:
        [agent] = (await http.get("/agents")).json()["agents"]
        assert agent["metadata"] == {"provider": "generic", "model": "mine", "max_steps": 9}


async def test_runs_are_kept_where_the_settings_say(tmp_path: Path) -> None:
    app = aar.create_acp_asgi_app(AgentConfig(), provider=ScriptedProvider().text("x"), cwd=tmp_path, home=tmp_path)
    async with served(app) as url, httpx2.AsyncClient(base_url=url) as http:
        run = (await http.post("/runs", json=asked("go"))).json()
    stored = await aar.SessionStore(tmp_path / "sessions").load(run["session_id"])
    assert stored.records[-1].event.type == "turn_ended"


async def test_when_the_server_ends_its_runs_have_ended_and_are_kept(tmp_path: Path) -> None:
    provider, store = ScriptedProvider().hang("Let me"), MemoryStore()
    app = aar.create_acp_asgi_app(AgentConfig(), provider=provider, store=store, cwd=tmp_path, home=tmp_path)
    async with served(app) as url, httpx2.AsyncClient(base_url=url) as http:
        run = (await http.post("/runs", json=asked("go", mode="async"))).json()
        await provider.reached(1)
    assert provider.streaming_now == 0
    assert (await store.load(run["session_id"])).header.state == "cancelled"


async def test_the_same_application_may_be_served_again(tmp_path: Path) -> None:
    provider = ScriptedProvider().text("x").forever()
    app = aar.create_acp_asgi_app(AgentConfig(), provider=provider, store=MemoryStore(), cwd=tmp_path, home=tmp_path)
    for _ in range(2):
        async with served(app) as url, httpx2.AsyncClient(base_url=url) as http:
            assert (await http.post("/runs", json=asked("go"))).json()["status"] == "completed"


async def test_before_its_server_has_begun_it_is_not_ready(tmp_path: Path) -> None:
    app = aar.create_acp_asgi_app(AgentConfig(), store=MemoryStore(), cwd=tmp_path, home=tmp_path)
    client = app.test_client()
    for answer in (await client.get("/agents"), await client.post("/runs", json=asked("go"))):
        assert (answer.status_code, await answer.json) == (503, {"detail": "The server is not ready"})
    assert (await client.get("/ping")).status_code == 200
