from __future__ import annotations

import json
import signal

import pytest
import trio

from aar.transports.program.finding import installed_remark

SESSION = "Session: "


def session_in(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.startswith(SESSION)]
    return line.removeprefix(SESSION)


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.covers("CLI-05")
async def test_a_session_that_does_not_exist_is_an_error(aar, flags, model):
    done = await aar("run", "hi", "--session", "nosuch", *flags)
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "aar: Session nosuch not found. `aar sessions` lists those that are stored.\n",
    )


async def test_continue_goes_on_with_the_newest_session_of_this_folder(aar, model, flags, place, tmp_path):
    model.says("one").says("two").says("three")
    other = tmp_path / "elsewhere"
    other.mkdir()
    first = session_in((await aar("run", "first", *flags)).err)
    await aar("run", "second", *flags, cwd=other)
    done = await aar("run", "third", "-c", *flags)
    assert session_in(done.err) == first
    assert f"Resumed session {first}\n" in done.err
    said = [m["content"] for m in model.requests[2]["messages"] if m["role"] == "user"]
    assert said == ["first", "third"]


async def test_a_session_whose_last_line_was_cut_goes_on_and_says_what_became_of_it(aar, model, flags, place):
    model.says("one").says("two")
    session = session_in((await aar("run", "first", *flags)).err)
    journal = place.home / "sessions" / f"{session}.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])
    done = await aar("run", "second", "-c", *flags)
    assert (done.code, done.out) == (0, "two\n")
    assert f"aar: The last line of {journal} was cut or damaged. It is kept as {journal.name}.torn-1.\n" in done.err


async def test_continue_without_a_session_says_that_it_starts_one(aar, model, flags):
    model.says("one")
    done = await aar("run", "first", "--continue", *flags)
    assert (done.code, "There is no session of this folder yet" in done.err) == (0, True)


async def test_a_session_in_use_names_its_holder(started, aar, model, flags):
    model.says(wait=trio.Event())
    async with started("run", "wait", *flags) as process:
        await model.asked.wait()
        for command in (("run", "hi", "--continue"), ("chat", "--continue")):
            done = await aar(*command, *flags)
            assert (done.code, done.out) == (1, "")
            assert "is in use by" in done.err
            assert str(process.pid) in done.err
        process.send_signal(signal.SIGINT)


async def test_session_and_continue_together_are_a_mistake(aar, flags, model):
    done = await aar("run", "hi", "--session", "a", "--continue", *flags)
    assert (done.code, done.err) == (2, "aar: --session and --continue name two sessions: give one of them.\n")


# --- which model ------------------------------------------------------------------------------


async def test_a_found_model_is_named(aar, model, place):
    place.variables["GENERIC_ENDPOINT"] = model.url
    model.says("hi")
    done = await aar("run", "hi", "--model", "mine")
    assert (done.code, done.out, model.requests[0]["model"]) == (0, "hi\n", "mine")
    assert done.err.startswith(f"Using mine of the server at {model.url}, because GENERIC_ENDPOINT is set.\n")


async def test_a_model_alone_does_not_say_whose_it_is(aar):
    done = await aar("run", "hi", "--model", "gpt-5")
    assert (done.code, done.out) == (1, "")
    assert "\n--model gpt-5 does not say whose it is: add --provider NAME.\n" in done.err


async def test_a_fallback_that_names_no_profile_is_a_mistake_in_the_file(aar, place):
    place.configure(provider={"name": "generic", "base_url": "http://h", "model": "m"}, fallback_providers=["b"])
    done = await aar("run", "hi")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "aar: fallback_providers: Fallback provider key 'b' not found in providers dict. Available: (none)\n"
    )


async def test_a_cold_start_says_what_is_wrong_in_one_line(aar, place):
    place.home.mkdir()
    (place.home / "config.json").write_text('{"max_steps": 3,}')
    done = await aar("run", "hi")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        f"aar: {place.home}/config.json: line 1, column 1"
    )  # 16 or 17: versions of Python differ
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        ({"name": "nobody"}, "Unknown provider: 'nobody'"),
        ({"name": "generic", "base_url": "http://[::1"}, "provider.base_url is no URL"),
        ({"name": "generic", "base_url": "http://h", "extra": {"timeout": "x"}}, "provider.extra.timeout must be"),
        ({"name": "generic", "base_url": "http://h", "extra": {"extra_headers": "x"}}, "provider.extra.extra_headers"),
    ],
)
async def test_a_provider_that_cannot_work_is_said_before_a_session_is_begun(aar, place, provider, told):
    place.configure(provider=provider)
    done = await aar("run", "hi")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"aar: {told}")
    assert not (place.home / "sessions").exists()


async def test_an_error_that_may_pass_says_how_to_run_again(aar, place):
    place.configure(max_retries=1)
    done = await aar("run", "go", "--provider", "generic", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.code == 1
    assert "You can run it again to retry, with --continue in the same session.\n" in done.err


@pytest.mark.parametrize("output", ["text", "json"])
async def test_a_run_for_which_there_is_no_key_leaves_no_session(aar, place, output):
    done = await aar("run", "go", "--provider", "anthropic", "--output", output)
    assert done.code == 1
    assert "There is no key for Anthropic: set ANTHROPIC_API_KEY" in done.err + done.out
    assert "Session:" not in done.err
    assert list((place.home / "sessions").iterdir()) == []


async def test_a_name_that_no_provider_has_may_be_meant_for_a_profile(aar, place):
    place.configure(provider="small", providers={"small": {"name": "generic"}, "big": {"name": "generic"}})
    done = await aar("run", "hi", "--provider", "bigg")
    available = "anthropic, gemini, generic, local, ollama, openai"
    assert (done.code, done.err) == (
        2,
        f"aar: Unknown provider: 'bigg'. Available: {available}. Profiles: big, small\n",
    )


async def test_a_key_with_letters_that_no_key_has_is_a_mistake(aar, model, flags):
    done = await aar("run", "hi", *flags, "--api-key", "ключ")
    assert (done.code, done.err) == (2, "aar: provider.api_key: has letters that no key has. Copy the key again.\n")


async def test_a_file_with_a_key_that_others_may_read_is_warned_of(aar, model, place):
    place.configure(provider={"name": "generic", "base_url": model.url, "api_key": "k"})
    file = place.home / "config.json"
    model.says("hi")
    warning = f"aar: {file} holds a key and others may read it: chmod 600 {file}\n"
    said = []
    for mode in (0o644, 0o600):
        file.chmod(mode)
        said.append(warning in (await aar("run", "hi")).err)
    assert said == [True, False]


# --- logging ----------------------------------------------------------------------------------


@pytest.mark.covers("CLI-22")
async def test_log_flags_win_over_the_file(aar, model, flags, place, tmp_path):
    place.configure(log_level="ERROR", log_file=str(tmp_path / "of_the_file.log"))
    model.says("hi")
    done = await aar("run", "hi", "--log-level", "INFO", "--log-file", str(tmp_path / "of_the_flag.log"), *flags)
    assert (done.code, "INFO aar.actors.turn: step=1" in done.err) == (0, True)
    assert "INFO aar.actors.turn: step=1" in (tmp_path / "of_the_flag.log").read_text()
    assert not (tmp_path / "of_the_file.log").exists()


@pytest.mark.covers("CFG-05", "CFG-06", "CFG-07")
async def test_flags_win_over_the_environment_and_that_over_the_file(aar, model, place, tmp_path):
    provider = {"name": "generic", "model": "of-the-file", "api_key": "key-of-the-file", "base_url": model.url}
    place.configure(provider=provider)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"provider": {**provider, "model": "of-the-other-file"}}))
    model.says("hi")
    await aar("run", "hi")
    await aar("run", "hi", "--config", str(other))
    place.variables["GENERIC_API_KEY"] = "key-of-the-environment"
    await aar("run", "hi", "--model", "of-the-flag")
    await aar("run", "hi", "--api-key", "key-of-the-flag")
    assert [request["model"] for request in model.requests] == [
        "of-the-file",
        "of-the-other-file",
        "of-the-flag",
        "of-the-file",
    ]
    assert [headers["authorization"] for headers in model.headers] == [
        f"bearer key-of-the-{where}" for where in ("file", "file", "environment", "flag")
    ]


def test_somebody_without_a_model_in_use_is_told_of_those_that_are_installed(tmp_path):
    assert installed_remark(tmp_path / "models") == ""
    (tmp_path / "small.gguf").write_text("x")
    assert installed_remark(tmp_path) == (
        "Installed already: small.gguf. To use one, add: --provider local --model FILE.gguf"
    )
