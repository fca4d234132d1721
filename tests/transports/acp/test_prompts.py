"""Turns: what is told while they run, and how they end."""

from __future__ import annotations

import pytest
import trio

CONTEXT = [
    {"type": "text", "text": "Look:"},
    {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
    {"type": "resource", "resource": {"uri": "file:///b.py", "mimeType": "text/x-python", "text": "b = 1"}},
    {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAAA"}},
    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
    {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
]


@pytest.mark.covers("ACP-08", "ACP-09")
async def test_text_comes_in_pieces_of_one_message_and_all_of_it_before_the_answer(editor, place, model):
    hold = trio.Event()
    model.says("Hello", ", world", "!", wait=hold)
    async with editor() as client:
        session = await client.new(place.project)
        prompt = await client.begin_prompt(session, "hi")
        first = await client.update("agent_message_chunk")
        assert first["content"] == {"type": "text", "text": "Hello"}
        hold.set()
        assert await client.answer_to(prompt) == {"stopReason": "end_turn"}
        assert client.frames[-1]["id"] == prompt
        chunks = [one for one in client.updates(session) if one["sessionUpdate"] == "agent_message_chunk"]
        assert client.text(session) == "Hello, world!"
        assert len({chunk["messageId"] for chunk in chunks}) == 1
        assert "user_message_chunk" not in client.kinds(session)
        model.says("Second.")
        await client.prompt(session, "again")
        assert len({one["messageId"] for one in client.updates(session) if "messageId" in one}) == 2


async def test_thoughts_come_as_thoughts_and_only_once(editor, place, model):
    model.says("Yes.", thoughts="Is it so?")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "is it?")
        assert client.text(session, kind="agent_thought_chunk") == "Is it so?"
        assert client.text(session) == "Yes."


async def test_an_answer_in_one_piece_is_told_as_well(editor, place, model):
    place.configure(streaming=False)
    model.calls("list_directory", "Let me look.").says("Nothing here.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "what is here?")
        shown = [kind for kind in client.kinds(session) if kind in ("agent_message_chunk", "tool_call")]
        assert shown == ["agent_message_chunk", "tool_call", "agent_message_chunk"]
        assert client.text(session) == "Let me look.Nothing here."


@pytest.mark.covers("ACP-11", "ACP-12")
async def test_of_prompts_at_the_same_time_exactly_one_runs(editor, place, model):
    hold = trio.Event()
    model.says("One", " after all.", wait=hold)
    async with editor() as client:
        session = await client.new(place.project)
        first, second, third = [await client.begin_prompt(session, "go") for _ in range(3)]
        await client.until(lambda frame: frame.get("id") == third)
        errors = [frame for frame in client.frames if "error" in frame]
        assert [frame["id"] for frame in errors] == [second, third]
        assert [frame["error"]["code"] for frame in errors] == [-32600, -32600]
        assert errors[0]["error"]["message"].startswith(f"Prompt already in flight for session {session};")
        hold.set()
        assert await client.answer_to(first) == {"stopReason": "end_turn"}
        assert len(model.requests) == 1
        assert client.text(session) == "One after all."


async def test_sessions_work_side_by_side(editor, place, model):
    hold = trio.Event()
    model.says("Slow", " one.", wait=hold).says("Quick one.")
    async with editor() as client:
        slow, quick = await client.new(place.project), await client.new(place.project)
        prompt = await client.begin_prompt(slow, "go")
        await client.update("agent_message_chunk")
        assert await client.prompt(quick, "go") == "end_turn"
        hold.set()
        assert await client.answer_to(prompt) == {"stopReason": "end_turn"}
        assert (client.text(slow), client.text(quick)) == ("Slow one.", "Quick one.")


@pytest.mark.covers("ACP-32", "ACP-33")
async def test_every_kind_of_block_reaches_the_model_in_its_place(editor, place, model):
    model.says("Seen.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.ask("session/prompt", sessionId=session, prompt=CONTEXT)
        assert model.requests[0]["messages"][-1]["content"] == (
            "Look:\n[resource: file:///a.py]\n[file:///b.py]\nb = 1\n[resource: file:///c.bin]\n[image]\n[audio]"
        )


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        [],
        "hi",
        [{"type": "text", "text": " "}],
        [{"type": "text"}],
        [{"type": "film"}],
        ["hi"],
        [{"type": "resource", "resource": 1}],
    ],
    ids=str,
)
async def test_what_is_no_prompt_is_refused(editor, place, prompt):
    async with editor() as client:
        session = await client.new(place.project)
        assert (await client.refusal("session/prompt", sessionId=session, prompt=prompt)).code == -32602


@pytest.mark.covers("ACP-45")
@pytest.mark.parametrize(
    ("finish", "settings", "reason"),
    [
        ("stop", {}, "end_turn"),
        ("length", {"guardrails": {"max_tokens_recoveries": 0}}, "max_tokens"),
        ("stop", {"token_budget": 5}, "max_tokens"),
    ],
)
async def test_the_way_a_turn_ends_is_told(editor, place, model, finish, settings, reason):
    place.configure(**settings)
    model.says("Some text.", finish=finish)
    async with editor() as client:
        assert await client.prompt(await client.new(place.project), "go") == reason


@pytest.mark.covers("ACP-45")
async def test_a_refusal_is_an_end_with_a_reason(editor, place, model):
    model.says("blocked by the content filter", status=400)
    async with editor() as client:
        session = await client.new(place.project)
        assert await client.prompt(session, "go") == "refusal"
        assert client.text(session)


@pytest.mark.covers("ACP-45")
async def test_a_turn_that_reaches_its_step_limit_says_so(editor, place, model):
    model.calls("list_directory")
    async with editor("--max-steps", "1") as client:
        session = await client.new(place.project)
        assert await client.prompt(session, "go") == "max_turn_requests"
        assert "Reached max steps (1)" in client.text(session)


@pytest.mark.covers("ACP-45", "ACP-46")
async def test_a_failure_is_a_message_and_an_error_and_the_session_goes_on(editor, place, model):
    model.says("no such key", status=401).says("Fine now.")
    async with editor() as client:
        session = await client.new(place.project)
        refused = await client.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        assert refused.code == -32603
        assert refused.message == client.text(session)
        assert refused.message
        assert await client.prompt(session, "again") == "end_turn"


@pytest.mark.covers("ACP-45")
async def test_a_turn_that_takes_too_long_is_an_error(editor, place, model):
    place.configure(timeout=0.3)
    model.says("Let me", " think.", wait=trio.Event())
    async with editor() as client:
        session = await client.new(place.project)
        refused = await client.refusal("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        assert refused.message == "Agent timed out after 0.3s"
        assert client.text(session).endswith("Agent timed out after 0.3s")


@pytest.mark.covers("ACP-36")
async def test_usage_is_what_is_in_the_window_and_what_it_has_cost(editor, place, model):
    place.configure(context_window=1000)
    (place.home / "pricing.json").write_text('{"tiny": {"input_per_million": 1000, "output_per_million": 2000}}')
    model.says("Hi.", usage=(100, 20)).says("Hi.", usage=(130, 10))
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "one")
        await client.prompt(session, "two")
        told = [one for one in client.updates(session) if one["sessionUpdate"] == "usage_update"]
        assert [(one["used"], one["size"], one["cost"]) for one in told] == [
            (120, 1000, {"amount": 0.14, "currency": "USD"}),
            (140, 1000, {"amount": 0.29, "currency": "USD"}),
        ]


@pytest.mark.covers("ACP-37")
async def test_the_title_is_the_start_of_the_first_answer(editor, place, model):
    model.says("A very long answer " * 10).says("Another.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "one")
        await client.prompt(session, "two")
        told = [one for one in client.updates(session) if one["sessionUpdate"] == "session_info_update"]
        assert [one["title"] for one in told] == [("A very long answer " * 10)[:60].strip()] * 2
        assert all(one["updatedAt"].endswith("Z") for one in told)


@pytest.mark.covers("ACP-39")
async def test_slash_commands_are_answered_without_the_model(editor, place, model):
    place.configure(providers={"fast": {"name": "generic", "model": "mini", "base_url": model.url}})
    async with editor() as client:
        session = await client.new(place.project)

        async def said(command: str) -> str:
            at = len(client.frames)
            assert await client.prompt(session, command) == "end_turn"
            return client.text(session, after=at)

        assert await said("/model") == "**Active:** generic/tiny\n\n- **fast** — generic/mini"
        assert await said("/model fast") == "Switched to **generic/mini**"
        assert "- **fast** — generic/mini *(active)*" in await said("/model")
        status = await said("/status")
        assert f"**Session:** {session}" in status
        assert "**Provider:** generic\n- **Model:** mini\n- **Steps this session:** 0\n- **Messages:** 0" in status
        tools = (await said("/tools")).splitlines()
        assert tools[0] == "**Available tools:**"
        names = [line.split("**")[1] for line in tools[2:]]
        assert names == sorted(names)
        assert {"bash", "read_file", "grep"} <= set(names)
        policy = await said("/policy")
        assert "**Approve writes:** yes\n- **Approve execute:** yes\n- **Read-only:** no\n" in policy
        assert "**Sandbox:** local" in policy
        assert "**Allowed paths:** `<cwd>/**`" in policy
        assert model.requests == []


async def test_a_command_that_aar_does_not_know_is_for_the_model(editor, place, model):
    model.says("I know no such command.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "/frobnicate now")
        assert model.requests[0]["messages"][-1]["content"] == "/frobnicate now"


async def test_after_clear_the_model_knows_nothing_of_what_was_said(editor, place, model):
    model.says("One.").says("Two.")
    async with editor() as client:
        session = await client.new(place.project)
        await client.prompt(session, "my name is Ada")
        await client.prompt(session, "/clear")
        await client.prompt(session, "who am I?")
        assert "Ada" not in str(model.requests[-1]["messages"])
        at = len(client.frames)
        await client.ask("session/load", sessionId=session, cwd=str(place.project), mcpServers=[])
        assert client.text(session, after=at, kind="user_message_chunk") == "who am I?"


async def test_without_any_model_a_session_opens_and_says_how_to_get_one(editor, place):
    async with editor(model_flags=False) as client:
        session = await client.new(place.project)
        told = await client.update("agent_message_chunk")
        assert "no model" in told["content"]["text"]
        assert (await client.ask("session/list"))["sessions"][0]["sessionId"] == session
