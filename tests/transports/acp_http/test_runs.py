"""Runs: begun in three ways, ended in four, and told of in order."""

from __future__ import annotations

import pytest

from aar.testing import ScriptedProvider


@pytest.mark.covers("ACPH-01")
async def test_ping(api) -> None:
    async with api() as client:
        answer = await client.get("/ping")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.covers("ACPH-03")
async def test_sync(api) -> None:
    async with api(ScriptedProvider().text("Hello.", chunks=3)) as client:
        run = await client.run("hi")


async def test_stream(api) -> None:
    async with api(ScriptedProvider().text("Hello there.", chunks=3)) as client:
        for event in await client.stream("hi"):
            print(event)
