"""What the model server is told and what comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from aar.messages.tools import ToolSchema
from aar.providers.local import DEFAULT_FILE
from aar.providers.local.examples import BRIEF_TEMPLATE, FULL_TEMPLATE
from tests.providers.local.serving import (
    StandIn,
    answer_of,
    asking,
    local,
    served,
)

READ = ToolSchema(
    "read_file",
    "Reads.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "start_line": {"type": "integer"}},
        "required": ["path"],
    },
)


async def test_an_answer_comes_from_a_server_of_its_own(library: StandIn, home: Path) -> None:
    async with served(local(home)) as provider:
        deltas = await answer_of(provider, asking())
        whole = await provider.complete(asking())
    assert [(delta.text, delta.done, delta.stop_reason) for delta in deltas] == [
        ("hello", False, ""),
        ("", True, "end_turn"),
    ]
    assert (whole.content, whole.stop_reason) == ("hello", "end_turn")
    assert len(library.starts) == 1


async def test_the_small_model_gets_its_examples_required_arguments_only_and_room_for_a_short_answer(
    library: StandIn, home: Path
) -> None:
    async with served(local(home)) as provider:
        await answer_of(provider, asking(tools=(READ,)))
    assert library.starts[0]["started"]["chat_template"] == BRIEF_TEMPLATE
    body = library.bodies[0]
    assert body["model"] == "SmolLM2-135M-Instruct"
    assert (body["max_tokens"], body["temperature"]) == (512, 0.0)
    assert body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }


async def test_any_other_model_that_knows_tools_keeps_its_template_and_is_asked_as_it_is(
    library: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STAND_IN", "knows-tools")
    async with served(local(home, "other")) as provider:
        await answer_of(provider, asking(tools=(READ,)))
    assert [start["started"]["chat_template"] for start in library.starts] == [""]
    body = library.bodies[0]
    assert (body["model"], body["max_tokens"]) == ("other", 4096)
    assert body["tools"][0]["function"]["parameters"] == READ.input_schema
    assert caplog.messages == []


async def test_a_model_whose_template_has_no_tools_gets_ours_and_the_user_is_told_once(
    library: StandIn, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(local(home, "other.gguf")) as provider:
        await answer_of(provider, asking())
        await answer_of(provider, asking())
    assert [start["started"]["chat_template"] for start in library.starts] == ["", FULL_TEMPLATE]
    assert caplog.messages == [
        "other.gguf has no chat template that knows tools: it is shown worked examples instead, which may not suit it"
    ]


async def test_the_server_listens_to_this_machine_only_and_leaves_a_core_free(library: StandIn, home: Path) -> None:
    async with served(local(home)) as provider:
        await answer_of(provider, asking())
    (start,) = library.starts
    chosen = start["started"]
    assert (chosen["hostnames"], chosen["port"], chosen["ui"]) == (["127.0.0.1"], 0, False)
    assert chosen["cors_origins"] == "http://127.0.0.1"
    assert (start["model"], start["alias"]) == (str(home / "models" / DEFAULT_FILE), ["SmolLM2-135M-Instruct"])
    assert start["threads"] == max(1, len(os.sched_getaffinity(0)) - 1)


async def test_settings_reach_the_server(library: StandIn, home: Path) -> None:
    async with served(local(home, threads=3, n_ctx=2048, gpu_layers=5)) as provider:
        await answer_of(provider, asking())
    (start,) = library.starts
    assert (start["threads"], start["started"]["n_ctx"], start["started"]["n_gpu_layers"]) == (3, 2048, 5)


async def test_its_neighbours_cannot_read_the_key(library: StandIn, home: Path) -> None:
    async with served(local(home)) as provider:
        await answer_of(provider, asking())
        start = library.starts[0]
        process = trio.Path(f"/proc/{start['pid']}")
        shown = await (process / "cmdline").read_bytes() + await (process / "environ").read_bytes()
    (key,) = start["started"]["api_keys"]
    assert len(key) >= 40
    assert key.encode() not in shown
