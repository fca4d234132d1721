"""The model server as a real child process: started, lost, started again, and nothing left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
import trio

from aar.errors import ProviderError, ProviderUnavailable
from aar.messages.provider import StreamDelta
from aar.messages.settings import ProviderConfig
from aar.providers.local import DEFAULT_FILE, LocalProvider, llama_server
from tests.providers.local.serving import (
    SERVER,
    StandIn,
    answer_after_retries,
    answer_of,
    asking,
    local,
    served,
    wait_until_gone,
)


async def test_the_server_ends_with_what_served_it(library: StandIn, home: Path) -> None:
    async with served(local(home)) as provider:
        await answer_of(provider, asking())
    with pytest.raises(ProcessLookupError):
        os.kill(library.starts[0]["pid"], 0)


async def test_a_server_that_died_is_started_again_for_the_next_answer(
    library: StandIn, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(local(home)) as provider:
        with pytest.raises(ProviderUnavailable) as caught:
            await answer_of(provider, asking("die"))
        assert caught.value.retryable
        await wait_until_gone(library.starts[0]["pid"])
        deltas = await answer_after_retries(provider, asking())
    assert deltas[0].text == "hello"
    assert len({start["pid"] for start in library.starts}) == 2
    assert caplog.messages == ["The local model server ended with status -6."]


async def test_a_model_that_cannot_be_loaded_is_an_error_with_the_reason(
    library: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "fails")
    async with served(local(home)) as provider:
        with pytest.raises(ProviderUnavailable) as caught:
            await answer_of(provider, asking())
    assert str(caught.value) == (
        f"The model {home / 'models' / DEFAULT_FILE} could not be loaded: unknown architecture. "
        "Its last words:\nan assertion of the library"
    )
    assert (caught.value.retryable, caught.value.provider) == (False, "local")
    assert len(library.starts) == 1


async def test_a_library_that_aborts_takes_nobody_with_it_and_is_tried_again_only_when_asked(
    library: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "aborts")
    async with served(local(home)) as provider:
        for _ in range(2):
            with pytest.raises(ProviderUnavailable, match=r"ended with status -6 before it was ready\.") as caught:
                await answer_of(provider, asking())
            assert str(caught.value).endswith("Its last words:\nGGML_ASSERT failed")
    assert len(library.starts) in (2, 3)


async def test_what_cannot_be_run_is_an_error(home: Path) -> None:
    provider = LocalProvider(
        ProviderConfig(name="local"), environ={"AAR_HOME": str(home)}, program=("/nowhere/server",)
    )
    async with served(provider):
        with pytest.raises(ProviderUnavailable, match=r"could not be started: .*No such file"):
            await answer_of(provider, asking())


@pytest.mark.parametrize("line", ["hello", "[1]", '{"address": 1}', '{"address": "http://127.0.0.1:1"}'])
async def test_nonsense_from_the_server_is_an_error(home: Path, line: str) -> None:
    program = (sys.executable, "-c", f"print({line!r}, flush=True); input(); input()")
    provider = LocalProvider(ProviderConfig(name="local"), environ={"AAR_HOME": str(home)}, program=program)
    async with served(provider):
        with pytest.raises(ProviderUnavailable, match="said something unexpected: "):
            await answer_of(provider, asking())


async def collect(provider: LocalProvider, deltas: list[StreamDelta]) -> None:
    async with aclosing(provider.stream(asking())) as stream:
        async for delta in stream:
            deltas.append(delta)


async def test_loading_gives_signs_of_life_until_its_own_limit(
    home: Path, autojump_clock: trio.testing.MockClock
) -> None:
    program = (sys.executable, "-c", "input(); input()")
    config = ProviderConfig(name="local", extra={"start_timeout": 12})
    provider = LocalProvider(config, environ={"AAR_HOME": str(home)}, program=program)
    deltas: list[StreamDelta] = []
    async with served(provider):
        with pytest.raises(ProviderUnavailable, match=r"was not ready after 12 s \(provider\.extra\.start_timeout\)"):
            await collect(provider, deltas)
    assert deltas
    assert set(deltas) == {StreamDelta()}


async def test_a_provider_that_nobody_serves_says_so(home: Path, autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ProviderError, match="Nobody runs the local model server"):
        await answer_of(local(home), asking())


async def test_who_gives_up_waiting_leaves_the_server_to_others(library: StandIn, home: Path) -> None:
    async with served(local(home)) as provider:
        with trio.CancelScope() as scope:
            scope.cancel()
            await answer_of(provider, asking())
        deltas = await answer_of(provider, asking())
    assert deltas[0].text == "hello"
    assert len(library.starts) == 1


async def test_the_server_ends_with_its_input_also_while_the_library_holds_the_interpreter(
    library: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "hangs")
    process = await trio.lowlevel.open_process(list(SERVER), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    order = {"model": "m", "alias": "a", "api_key": "k", "n_ctx": 1, "threads": 1, "gpu_layers": 0, "template": "t"}
    try:
        with trio.fail_after(20):
            await process.stdin.send_all(json.dumps(order).encode() + b"\n")
            said = await process.stderr.receive_some()
            await process.stdin.aclose()
            status = await process.wait()
    finally:
        process.kill()
        await process.stderr.aclose()
    assert (said, status) == (b"hanging\n", -signal.SIGIO)


async def test_a_server_whose_input_has_ended_does_not_even_load(library: StandIn) -> None:
    order = {"model": "m", "alias": "a", "api_key": "k", "n_ctx": 1, "threads": 1, "gpu_layers": 0, "template": "t"}
    finished = await trio.run_process(SERVER, stdin=json.dumps(order).encode() + b"\n", check=False)
    assert finished.returncode in (0, -signal.SIGIO)
    assert library.starts == []


PARENT = """\
import sys, trio
from aar.messages.settings import ProviderConfig
from aar.providers.local import LocalProvider

async def main():
    provider = LocalProvider(ProviderConfig(name="local"), environ={"AAR_HOME": sys.argv[1]}, program=sys.argv[2:])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(provider.serve)
        await provider._child.ready()
        sys.stdout.buffer.write(b"ready\\n")
        sys.stdout.flush()

trio.run(main)
"""


async def test_the_server_ends_when_aar_is_killed(
    library: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(Path(llama_server.__file__).parents[3])
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"] + os.pathsep + root)
    command = [sys.executable, "-c", PARENT, str(home), *SERVER]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            said = await process.stdout.receive_some()
    finally:
        process.kill()
        await process.wait()
        await process.stdout.aclose()
    assert said == b"ready\n"
    await wait_until_gone(library.starts[0]["pid"])
