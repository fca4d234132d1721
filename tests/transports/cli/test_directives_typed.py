"""Directives where people type them: expanded at a terminal and in an argument, and nowhere else."""

from __future__ import annotations

import json

import pytest

QUESTION = "Allow? [y]es / [n]o / [a]lways:"
SESSION = "Session: "


def sent(model, request: int = -1) -> str:
    """All text of the newest message that the model was sent."""
    content = model.requests[request]["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", block["type"]) for block in content)


async def test_directives_of_a_task_go_along(aar, model, flags, place):
    place.write("notes.txt", "alpha\n")
    model.says("ok")
    done = await aar("run", "--yes", "sum up @File[notes.txt] and @Bash[echo $((40 + 2))]", *flags)
    assert (done.code, done.out) == (0, "ok\n")
    said = f"[File: {place.project}/notes.txt]\nalpha\n\n[Output of `echo $((40 + 2))`]\n42\n"
    assert sent(model) == f"{said}\nsum up notes.txt and `echo $((40 + 2))`"


@pytest.mark.covers("AURA-45")
async def test_a_command_that_nobody_can_allow_keeps_the_task_back(aar, model, flags, place):
    done = await aar("run", "why @Bash[touch made]", *flags)
    assert (done.code, model.requests) == (2, [])
    assert "@Bash[touch made]: Error [denied]: this call needs an approval and nobody is there to give it" in done.err
    assert not (place.project / "made").exists()
    assert list((place.home / "sessions").glob("*.jsonl")) == []


@pytest.mark.covers("AURA-45")
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
async def test_a_person_is_asked_about_a_command_in_a_task(terminal, model, flags, place, answer, code):
    model.says("Well.")
    async with terminal("run", "why @Bash[touch made]", *flags) as screen:
        await screen.until(QUESTION)
        await screen.type(answer)
        assert await screen.end() == code
    assert (place.project / "made").exists() is (code == 0)
    assert len(model.requests) == (code == 0)


async def test_what_comes_through_a_pipe_is_not_looked_at(aar, model, flags, place):
    place.write("notes.txt", "alpha\n")
    model.says("ok")
    text = "see @File[notes.txt] and @Bash[touch made] and @Path[$HOME]"
    await aar("run", "--yes", "-", *flags, stdin=text)
    await aar("chat", "--yes", *flags, stdin=text + "\n")
    assert [sent(model, at) for at in (0, 1)] == [text, text]
    assert not (place.project / "made").exists()


async def test_what_the_model_says_is_not_looked_at(aar, model, flags, place):
    model.says("@Bash[touch made] @File[/etc/passwd]").says("ok")
    await aar("run", "--yes", "go", *flags)
    await aar("run", "--yes", "--continue", "again", *flags)
    assert not (place.project / "made").exists()
    assert model.requests[1]["messages"][-2]["content"] == "@Bash[touch made] @File[/etc/passwd]"


@pytest.mark.covers("AURA-46")
async def test_what_would_fill_the_context_is_not_sent(aar, model, flags, place):
    place.configure(context_window=1000)
    place.write("big.txt", "x" * 3300)
    model.says("ok")
    first = await aar("run", "hi", *flags)
    [line] = [line for line in first.err.splitlines() if line.startswith(SESSION)]
    file = place.home / "sessions" / f"{line.removeprefix(SESSION)}.jsonl"
    before = [json.loads(line)["type"] for line in file.read_text().splitlines() if '"type"' in line]
    done = await aar("run", "--continue", "sum up @File[big.txt]", *flags)
    assert (done.code, len(model.requests)) == (2, 1)
    assert "% of the model's context, and 80% is the most" in done.err
    after = [json.loads(line)["type"] for line in file.read_text().splitlines() if '"type"' in line]
    assert [kind for kind in after[len(before) :] if kind != "session"] == []


@pytest.mark.covers("AURA-42")
async def test_a_model_that_takes_no_images_gets_the_text_and_the_user_a_word(aar, model, flags, place):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (2000, 10)).save(place.project / "shot.png")
    provider = {"name": "generic", "model": "tiny", "base_url": model.url, "extra": {"supports_vision": False}}
    place.configure(provider=provider)
    model.says("ok")
    done = await aar("run", "what is on @Image[shot.png]?")
    assert done.code == 0
    assert "generic/tiny takes no images: it gets the text alone." in done.err
    assert "what is on shot.png?" in sent(model)
    assert "image_url" not in sent(model)


async def test_directives_in_a_chat_are_for_people_at_a_terminal(terminal, model, flags, place):
    model.says("Well.")
    async with terminal("chat", *flags) as screen:
        await screen.until("> ")
        await screen.type("why @Bash[echo said-$((1 + 1))]\n")
        await screen.until(QUESTION)
        await screen.type("y\n")
        await screen.until("Well.")
        await screen.until("> ")
        await screen.type("@File[nosuch.txt]\n")
        await screen.until("Nothing was sent")
        await screen.until("> ")
        await screen.type("/quit\n")
        assert await screen.end() == 0
    assert len(model.requests) == 1
    assert "[Output of `echo said-$((1 + 1))`]\nsaid-2\n" in sent(model)
