"""The whole interface: keys in, screen text out."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from aar.config.themes import Themes
from aar.errors import ProviderUnavailable
from aar.journal.memory import MemoryStore
from aar.messages.events import TurnEnded, UserMessage
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.messages.themes import Theme
from aar.testing import ScriptedProvider, facts_of
from tests.transports.fullscreen.whole import open_whole


def prompts(whole) -> list[str]:
    return [fact.content for fact in facts_of(whole.handle) if isinstance(fact, UserMessage)]


@pytest.mark.covers("AURA-29", "FTUI-01")
async def test_a_prompt_is_answered_and_the_header_tells_of_it(tmp_path, autojump_clock) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("**Good** day", chunks=4).usage(10, 5).text("more").after(gate).usage(90, 20)
    async with open_whole(tmp_path, provider) as whole:
        short = whole.handle.session_id[:8]
        assert whole.lines[0].startswith(f"scripted / scripted | tokens: 0in / 0out | {short}... | idle | think:on")
        whole.send("hello")
        await whole.until("> hello", "Good day", "10in / 5out (total: 10in / 5out)", "step: 1")
        await whole.until(f"tokens: 10in / 5out | {short}... | completed | think:on")
        whole.send("go on")
        await whole.until("| running |")
        gate.set()
        await whole.until("tokens: 100in / 25out", "completed", "90in / 20out (total: 100in / 25out)")


@pytest.mark.covers("FTUI-01")
async def test_tokens_get_another_colour_near_the_budget_and_a_cost_is_shown(tmp_path, autojump_clock) -> None:
    config = AgentConfig(
        provider=ProviderConfig(name="scripted", model="claude-haiku-4-5"), token_budget=2_000_000, streaming=True
    )
    provider = ScriptedProvider(config.resolve_provider()).text("a").usage(1_000_000, 0).text("b").usage(700_000, 0)
    async with open_whole(tmp_path, provider, config) as whole:
        whole.send("hello")
        await whole.until("tokens: 1000000in / 0out ($1.00)", "completed")
        assert "header.tokens" in whole.styles_of("tokens: ")
        whole.send("again")
        await whole.until("tokens: 1700000in", "completed")
        assert "header.warning" in whole.styles_of("tokens: ")


@pytest.mark.covers("FTUI-02")
async def test_the_footer_tells_the_step_the_theme_and_the_keys(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, size=(140, 30)) as whole:
        assert whole.lines[-1].startswith(
            "step: 0 | theme: contrast | Ctrl+S send  Ctrl+X cancel  Ctrl+G logs  Ctrl+K think  Ctrl+T theme  "
            "Ctrl+L clear  Ctrl+Q exit"
        )
        assert "footer.keys" in whole.styles_of("Ctrl+S send")


@pytest.mark.covers("FTUI-04")
async def test_an_answer_is_seen_as_it_comes_and_at_its_end_as_it_is_on_record(tmp_path, autojump_clock) -> None:
    gate = trio.Event()
    provider = ScriptedProvider()
    async with open_whole(tmp_path, provider, AgentConfig(streaming=True)) as whole:
        provider.hang("A **bold", chunks=2)
        whole.send("hello")
        await whole.until("A **bold", "streaming…")
        whole.press("ctrl x")
        await whole.until("cancelled")
        provider.text("A **bold** *end*\n\n- one\n- two", chunks=9).after(gate)
        whole.send("again")
        gate.set()
        await whole.until("A bold end", "• one", "• two", "completed", gone="streaming…")
        assert "md.strong" in str(whole.styles_of("bold"))


async def test_a_connection_that_breaks_begins_the_answer_anew(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().cut("Half of", chunks=2).text("The whole")) as whole:
        whole.send("hello")
        await whole.until("The whole", "completed", gone="Half of")


@pytest.mark.covers("FTUI-05")
async def test_thoughts_stand_in_a_panel_of_their_own_which_gives_its_columns_back(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().text("First").reasoning("deep thought").text("Second").reasoning("and deeper")
    async with open_whole(tmp_path, provider) as whole:
        for prompt, answer in (("one", "First"), ("two", "Second")):
            whole.send(prompt)
            await whole.until(answer, "completed")
        await whole.until("── thinking (step 1) ──", "deep thought", "── thinking (step 2) ──", "and deeper")
        width = whole.lines[2].index("│", 5)
        assert width == 110 - 40
        whole.press("ctrl k")
        await whole.until("think:off", gone="deep thought")
        assert whole.lines[2] == "─ Aar " + "─" * 103
        whole.send("/think")
        await whole.until("think:on", "deep thought")


@pytest.mark.covers("FTUI-06", "FTUI-07")
async def test_prompts_wait_for_their_turn_in_the_order_in_which_they_were_sent(tmp_path, autojump_clock) -> None:
    gate = trio.Event()
    provider = ScriptedProvider().text("A1").after(gate).text("A2").text("A3").text("A4")
    async with open_whole(tmp_path, provider, size=(110, 60)) as whole:
        for prompt in ("first", "second", "third", "fourth"):
            whole.send(prompt)
        await whole.until("Queued (1 pending)", "Queued (2 pending)", "Queued (3 pending)", "running | queued: 3 |")
        assert "> second" not in whole.text
        gate.set()
        await whole.until("> second", "> third", "> fourth", "A4", "completed", gone="queued: ")
        assert prompts(whole) == ["first", "second", "third", "fourth"]
        order = [whole.text.index(said) for said in ("> first", "A1", "> second", "A2", "> third", "A3")]
        assert order == sorted(order)


@pytest.mark.covers("FTUI-08", "FTUI-09")
async def test_a_cancel_ends_the_turn_and_the_queue_and_all_goes_on_after_it(tmp_path, autojump_clock) -> None:
    store = MemoryStore()
    provider = ScriptedProvider().hang("Half an answer").text("Of course.")
    async with open_whole(tmp_path, provider, store=store) as whole:
        for prompt in ("first", "second", "third"):
            whole.send(prompt)
        await whole.until("Half an answer", "queued: 2")
        whole.press("ctrl x")
        await whole.until("Cleared 2 queued prompt(s)", "Cancelled", "| cancelled |", gone="queued: ")
        whole.send("still there?")
        await whole.until("Of course.", "completed")
        assert prompts(whole) == ["first", "still there?"]
        assert "Half an answer" in str(list(provider.requests[-1].messages))
        session_id = whole.handle.session_id
    async with open_whole(tmp_path, provider, store=store, session_id=session_id) as whole:
        await whole.until("> first", "Half an answer", "Cancelled", "> still there?", "Of course.")


@pytest.mark.covers("FTUI-09")
@pytest.mark.parametrize("stop", ["max_steps", "timed_out", "budget_exceeded"])
async def test_the_next_prompt_runs_however_the_last_turn_ended(tmp_path, autojump_clock, stop) -> None:
    config = AgentConfig(
        streaming=True,
        max_steps=1 if stop == "max_steps" else 50,
        timeout=5 if stop == "timed_out" else 0,
        token_budget=100 if stop == "budget_exceeded" else 0,
    )
    provider = ScriptedProvider()
    if stop == "timed_out":
        provider.hang("...")
    else:
        provider.call("list_directory", path=".").usage(100, 0)
    async with open_whole(tmp_path, provider.text("Here."), config) as whole:
        whole.send("go")
        await whole.until(f"| {stop} |")
        whole.send("on")
        await whole.until("> on", gone=f"| {stop} |") if stop != "budget_exceeded" else await whole.until("> on")


@pytest.mark.covers("FTUI-10")
async def test_the_queue_is_shown_and_cleared_by_commands(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait"), size=(112, 34)) as whole:
        whole.send("/queue")
        await whole.until("> /queue", "No queued prompts.")
        for prompt in ("first", "x" * 70, "third"):
            whole.send(prompt)
        await whole.until("queued: 2")
        whole.send("/queue")
        await whole.until(f"1. {'x' * 59}", "2. third")
        whole.send("/queue nonsense")
        await whole.until("Usage: /queue or /queue clear")
        whole.send("/queue clear")
        await whole.until("Cleared 2 queued prompt(s)", gone="queued: ")
        assert whole.text.count("Cleared 2") == 1


async def test_more_prompts_than_may_wait_are_refused_with_a_word(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait"), size=(110, 60)) as whole:
        for number in range(35):
            whole.send(f"prompt {number}")
            await trio.testing.wait_all_tasks_blocked()
        await whole.until("queued: 32", "prompts wait already")


@pytest.mark.covers("FTUI-15")
async def test_another_theme_changes_the_colours_at_once(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().text("Hello")) as whole:
        whole.send("hi")
        await whole.until("Hello", "completed")
        seen = {}
        for name in ("contrast", "decker", "default", "sleek", "contrast"):
            await whole.until(f"theme: {name}")
            drawn = whole.surface.screen.resolve_attr("assistant.title", 4)
            assert seen.setdefault(name, drawn) == drawn
            if len(seen) < 4 or name == "sleek":
                whole.press("ctrl t")
        assert len(set(seen.values())) == 4
        whole.send("/theme sleek")
        await whole.until("theme: sleek", "Theme: sleek")
        whole.send("/theme none-such")
        await whole.until("Unknown theme: none-such")


@pytest.mark.covers("FTUI-16")
async def test_clearing_begins_a_new_session_with_everything_at_zero(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().text("Hello").reasoning("hmm").usage(7, 3).text("Anew").usage(1, 1)
    async with open_whole(tmp_path, provider) as whole:
        before = whole.handle.session_id
        whole.send("hi")
        await whole.until("Hello", "tokens: 7in / 3out", "step: 1", "hmm", "completed")
        whole.press("ctrl l")
        await whole.until("tokens: 0in / 0out", "step: 0", "| idle |", gone="Hello")
        assert "hmm" not in whole.text
        assert "> hi" not in whole.text
        assert whole.handle.session_id != before
        whole.send("hi again")
        await whole.until("Anew", "tokens: 1in / 1out", "completed")
        assert prompts(whole) == ["hi again"]


async def test_clearing_cancels_what_runs(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait").text("Anew")) as whole:
        whole.send("hi")
        await whole.until("wait")
        whole.press("ctrl l")
        await whole.until("| idle |", gone="wait")
        whole.send("hi again")
        await whole.until("Anew", "completed")


@pytest.mark.covers("FTUI-18")
async def test_the_chat_follows_its_end_until_somebody_scrolls_up(tmp_path, autojump_clock) -> None:
    provider = ScriptedProvider().text("\n\n".join(f"line {n}." for n in range(60))).text("newest")
    async with open_whole(tmp_path, provider) as whole:
        whole.send("go")
        await whole.until("line 59.", "completed")
        whole.press("page up")
        await whole.until("line 45.", gone="line 59.")
        before = whole.lines[2:20]
        whole.app.tell("something comes in meanwhile")
        assert (await whole.frame())[2:20] == before
        whole.press(("mouse press", 5, 3, 5), ("mouse press", 5, 3, 5))
        await whole.frame()
        assert whole.lines[2:20] != before
        whole.press(*["page down"] * 5)
        await whole.until("something comes in meanwhile")
        whole.app.tell("and more")
        await whole.until("and more")


@pytest.mark.covers("FTUI-22")
async def test_the_theme_says_which_regions_there_are_in_which_order_and_how_large(tmp_path, autojump_clock) -> None:
    regions = [{"name": "input", "size": 2}, {"name": "body"}, {"name": "header", "size": 1}]
    theme = Theme.model_validate({"name": "upside", "fixed_layout": {"regions": regions}})
    async with open_whole(tmp_path, theme=theme, size=(100, 20)) as whole:
        assert whole.lines[0] == "  1 Type a message. Ctrl+S sends it, Enter begins a new line."
        assert whole.lines[2] == "─" * 100
        assert whole.lines[3].startswith("─ Aar ──")
        assert whole.lines[18] == "─" * 100
        assert whole.lines[19].startswith("scripted / scripted | tokens: ")
        assert "Ctrl+S send " not in whole.text


@pytest.mark.covers("FTUI-22")
async def test_a_region_that_is_not_visible_leaves_its_lines_to_the_chat(tmp_path, autojump_clock) -> None:
    theme = Themes(tmp_path).get("decker")
    regions = [region.model_copy(update={"visible": region.name == "body"}) for region in theme.fixed_layout.regions]
    bare = theme.model_copy(update={"fixed_layout": theme.fixed_layout.model_copy(update={"regions": regions})})
    async with open_whole(tmp_path, size=(100, 20)) as whole:
        whole.commands.theme = bare
        whole.app._board.use_theme(bare)
        lines = await whole.frame()
        assert lines[0].startswith("─ Aar ──")
        assert "tokens:" not in "\n".join(lines)


@pytest.mark.covers("AURA-36")
async def test_all_calls_of_an_answer_are_pending_before_the_first_one_runs(tmp_path, autojump_clock) -> None:
    calls = [("bash", {"command": f"echo {n}"}) for n in range(3)]
    config = AgentConfig(streaming=True, safety={"require_approval_for_execute": True})  # type: ignore[arg-type]
    provider = ScriptedProvider().calls(*calls, ("nothing", {})).text("All done.")
    async with open_whole(tmp_path, provider, config, size=(110, 60)) as whole:
        whole.send("go")
        await whole.until("Tool: bash (step 1)  ?", "Tool: bash (step 2)  ○ pending", "Tool: bash (step 3)  ○ pending")
        for frame in whole.surface.screen.canvases:
            text = "\n".join(line.rstrip() for line in frame.decoded_text)
            assert "running" not in text or text.count("Tool: ") == 0 or "| running |" in text
        for number in range(3):
            await whole.until("Approval required")
            await trio.sleep(1)
            whole.press("y")
            await whole.until(f"Tool: bash (step {number + 1})  ✓ complete")
        await whole.until("All done.", "Tool: nothing (step 4)  ✗ ERROR", "completed")


async def test_an_error_says_what_went_wrong_and_how_to_go_on(tmp_path, autojump_clock) -> None:
    config = AgentConfig(streaming=True, max_retries=1)
    async with open_whole(
        tmp_path, ScriptedProvider().error(ProviderUnavailable("it burns", provider="scripted")), config
    ) as whole:
        whole.send("go")
        await whole.until("─ Error ", "it burns", "Send your message again to retry.", "| error |")


async def test_a_stored_session_is_seen_from_its_beginning_with_its_totals(tmp_path, autojump_clock) -> None:
    store = MemoryStore()
    provider = ScriptedProvider().text("Hello").usage(7, 3)
    async with open_whole(tmp_path, provider, store=store) as whole:
        whole.send("hi")
        await whole.until("Hello", "completed")
        session_id = whole.handle.session_id
    async with open_whole(tmp_path, provider, store=store, session_id=session_id) as whole:
        await whole.until("> hi", "Hello", "tokens: 7in / 3out", "completed", "step: 1")
        whole.press("ctrl up")
        await whole.until("  1 hi")


@pytest.mark.covers("FTUI-03")
async def test_ctrl_q_leaves_and_gives_the_terminal_back_before_the_turn_has_ended(tmp_path, autojump_clock) -> None:
    async with open_whole(tmp_path, ScriptedProvider().hang("wait")) as whole:
        whole.send("hi")
        await whole.until("wait")
        whole.press("ctrl q")
        await whole.leaving.asked.wait()
        with whole.handle.follow(after=whole.handle.seq) as records:
            async for record in records:
                if isinstance(record.event, TurnEnded):
                    break
        assert record.event.stop == "cancelled"
        assert whole.surface.restored == 1
