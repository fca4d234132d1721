"""On the full screen: what is taken one after the other as if it were typed, and what directives bring."""

from __future__ import annotations

import json

import pytest
import trio

from aar.messages.events import UserMessage
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.testing import ScriptedProvider, facts_of
from tests.transports.fullscreen.whole import open_whole

FREE = {"require_approval_for_execute": False, "allowed_paths": []}


def settings() -> AgentConfig:
    return AgentConfig(streaming=True, provider=ProviderConfig(name="scripted", model="scripted"), safety=FREE)


def prompts(whole) -> list[str]:
    return [fact.content for fact in facts_of(whole.handle) if isinstance(fact, UserMessage)]


@pytest.mark.covers("AURA-105")
async def test_a_list_is_taken_as_if_it_were_typed(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().text("First.").text("Second.")) as whole:
        (tmp_path / "project" / "list.json").write_text(json.dumps(["one", "/status", "two @Path[$HOME]"]))
        whole.send("/replay list.json")
        await whole.until("First.", "> /status", "Second.", "completed")
        assert prompts(whole) == ["one", "two @Path[$HOME]"]


@pytest.mark.covers("AURA-116")
async def test_until_ends_with_the_key_that_cancels(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().text("First.").hang("Second")) as whole:
        whole.send("/until exists:done go on")
        await whole.until("First.", "Second", "streaming…")
        whole.press("ctrl x")
        await whole.until("/until was cancelled.", "cancelled")
        assert prompts(whole) == ["go on", "go on"]


async def test_a_turn_that_is_taken_back_is_not_sent_again(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().text("First.").text("Second.").text("Third.")
    async with open_whole(tmp_path, provider) as whole:
        for prompt, answer in (("one", "First."), ("two", "Second.")):
            whole.send(prompt)
            await whole.until(answer, "completed")
        whole.send("/undo 1")
        await whole.until("Back to before: two", "2 messages dropped.")
        whole.send("three")
        await whole.until("Third.", "completed")
        assert [message["content"] for message in provider.requests[2].messages] == ["one", "First.", "three"]


@pytest.mark.covers("AURA-45")
async def test_a_command_in_a_prompt_is_asked_about_in_the_bar(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().text("Well.")
    async with open_whole(
        tmp_path, provider, settings().patched({"safety": {"require_approval_for_execute": True}})
    ) as whole:
        whole.paste("see @Bash[echo said-$((1 + 1))]")
        whole.press("ctrl s")
        await whole.until("Approval required: bash", "echo said-")
        await trio.sleep(2)  # a key right after the question came up may be meant for the prompt
        whole.press("y")
        await whole.until("Well.", "completed")
        assert "said-2" in json.dumps(provider.requests[0].messages[-1]["content"])
