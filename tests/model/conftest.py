"""Tests with the real small model: collected only where `aar local install` and the extra `local` were used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec

import pytest
import trio

from aar.messages.provider import History, ProviderRequest
from aar.messages.settings import ProviderConfig
from aar.providers.local import DEFAULT_FILE, LocalProvider, models_folder

is_there = (models_folder() / DEFAULT_FILE).is_file() and find_spec("xllamacpp") is not None
collect_ignore_glob = [] if is_there else ["test_*.py"]


@dataclass(frozen=True)
class Served:
    """Where a llama.cpp server listens, without `/v1`, the key that it wants, and the scope that it lives in."""

    root: str
    api_key: str
    scope: trio.CancelScope
    token: trio.lowlevel.TrioToken


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """One server for all tests, in a thread: the model is loaded once, and what prompts have in common read once."""
    found: Future[Served] = Future()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(trio.run, _serve, found)
        running.add_done_callback(lambda done: found.done() or found.set_exception(done.exception()))
        served = found.result()
        yield served
        served.token.run_sync_soon(served.scope.cancel)
        running.result()


async def _serve(found: Future[Served]) -> None:
    hi = History([{"role": "user", "content": "Hi."}])
    async with trio.open_nursery() as nursery:
        local = LocalProvider(ProviderConfig(name="local", model=""))
        nursery.start_soon(local.serve)
        with trio.fail_after(300):
            await local.complete(ProviderRequest(hi, max_tokens=1))  # until it has loaded the model
        root = local.endpoint.removesuffix("/v1/chat/completions")
        await local.aclose()  # its connections; the server goes on
        found.set_result(Served(root, local.api_key, nursery.cancel_scope, trio.lowlevel.current_trio_token()))
