from __future__ import annotations

import json
import stat
import sys

import pytest
import trio

from aar import __version__
from aar.messages.settings import BUILTIN_TOOLS
from aar.testing import ScriptedProvider
from aar.transports.cli.help import prepared_text


def ids_in(out: str) -> list[str]:
    assert all(line.startswith("  ") for line in out.splitlines())
    return [line.split()[0] for line in out.splitlines()]


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.covers("CLI-14")
def test_sessions_lists_the_ids_of_the_configured_folder_newest_first(here, told, place, tmp_path):
    assert here("sessions").out == "No saved sessions.\n"
    place.configure(session_dir=str(tmp_path / "kept"))
    ids = [told(ScriptedProvider().text(text), "hi", directory=tmp_path / "kept") for text in ("One.", "Two.")]
    done = here("sessions")
    assert ids_in(done.out) == ids[::-1]
    assert [line.split()[-1] for line in done.out.splitlines()] == ["Two.", "One."]
    assert here("sessions", "list").out == done.out


def test_a_time_that_is_none_does_not_keep_the_others_from_being_listed(here, place):
    folder = place.home / "sessions"
    folder.mkdir(parents=True)
    for name, changed in (("good", "1.0"), ("bad", "1e999"), ("old", "-1e18")):
        metadata = f'{{"cwd": "{place.project}", "updated_at": {changed}}}'
        header = f'{{"_meta": true, "schema_version": 1, "session_id": "{name}", "metadata": {metadata}}}'
        (folder / f"{name}.jsonl").write_text(header + "\n")
    done = here("sessions")
    assert done.code == 0
    assert sorted(line.split()[0] for line in done.out.splitlines() if line.startswith("  ")) == ["bad", "good", "old"]


def test_a_relative_session_dir_starts_at_the_folder(here, told, place):
    place.configure(session_dir=".agent/sessions")
    session_id = told(ScriptedProvider().text("One."), "hi", directory=place.project / ".agent/sessions")
    assert ids_in(here("sessions").out) == [session_id]


def test_a_session_can_be_shown_exported_and_deleted(here, told, place):
    place.write("a.txt", "alpha")
    script = ScriptedProvider().call("read_file", path="a.txt").text("It says \x1b[2Jalpha.")
    session_id = told(script, "read a.txt")

    shown = here("sessions", "show", session_id)
    assert shown.out.startswith(f"Session: {session_id}\nFolder:  {place.project}\nState:   completed, 2 steps, ")
    parts = [part.split("\n\n")[0] for part in shown.out.split("\n## ")[1:]]
    assert parts == ["User", "Tool: read_file", "Result: read_file", "Assistant"]
    assert "It says alpha." in shown.out

    assert here("sessions", "export", session_id).out == shown.out
    document = json.loads(here("sessions", "export", session_id, "--format", "json").out)
    assert (document["session_id"], document["state"]) == (session_id, "completed")
    assert [event["seq"] for event in document["events"]] == list(range(1, len(document["events"]) + 1))

    file = place.project / "out.json"
    written = here("sessions", "export", session_id, "--format", "json", "--to", "out.json")
    assert (written.out, written.err, json.loads(file.read_text())) == ("", "Written: out.json\n", document)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = here("sessions", "export", session_id, "--to", "out.json")
    assert (again.code, again.err) == (1, "aar: --to: out.json: File exists. Name another file.\n")

    assert here("sessions", "delete", session_id).out == f"Deleted {session_id}\n"
    gone = here("sessions", "delete", session_id)
    assert (gone.code, gone.err) == (
        1,
        f"aar: Session {session_id} not found. `aar sessions` lists those that are stored.\n",
    )
    assert here("sessions").out == "No saved sessions.\n"


async def test_a_session_in_use_can_be_shown_but_not_deleted(started, aar, model, flags):
    model.says("first", wait=trio.Event())
    async with started("run", "wait", *flags) as process:
        await model.asked.wait()
        [session_id] = ids_in((await aar("sessions")).out)
        assert (await aar("sessions", "show", session_id)).code == 0
        refused = await aar("sessions", "delete", session_id)
        assert (refused.code, str(process.pid) in refused.err) == (1, True)
        process.terminate()


@pytest.mark.parametrize("command", ["show", "export"])
def test_a_session_that_does_not_exist_cannot_be_shown(here, command):
    done = here("sessions", command, "nosuch")
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "aar: Session nosuch not found. `aar sessions` lists those that are stored.\n",
    )


def test_the_beginning_of_an_id_will_do_when_it_is_the_only_one(here, place):
    for name in ("abcd1111", "abcd2222"):
        stored(place, name, title=name[::-1])
    assert here("sessions", "show", "abcd1").out.startswith("Session: abcd1111\n")
    both = here("sessions", "show", "abcd")
    assert both.code == 1
    assert both.err.startswith("aar: 2 sessions begin with abcd: give more of the id. abcd")
    assert here("sessions", "show", "abc").err.startswith("aar: Session abc not found.")  # too short to be meant
    done = here("sessions", "delete", "abcd1", "nosuch", "abcd2")
    assert (done.code, done.out) == (1, "Deleted abcd1111\nDeleted abcd2222\n")
    assert done.err.count("not found") == 1


def test_a_session_without_a_title_is_listed_as_what_it_is(here, place):
    stored(place, "begun")
    stored(place, "said", title=" Two\n words ")
    (place.home / "sessions" / "torn.jsonl").write_text("\x00" * 20)
    rows = {line.split()[0]: line for line in here("sessions").out.splitlines()}
    assert rows["begun"].endswith(f"  idle                 0  {place.project}  (no answer yet)")
    assert rows["said"].endswith("  Two words")
    assert rows["torn"].endswith("  (damaged: `aar sessions show` says more)")


async def test_a_terminal_gets_short_ids_and_lines_that_fit(terminal, place):
    stored(place, "0123456789abcdef", title="a " * 60)
    stored(place, "a-name-of-mine", title="Mine.", state="error", cwd=str(place.home / "x" / "y"))
    async with terminal("sessions") as screen:
        assert await screen.end() == 0
    head, *rows = screen.text.splitlines()
    assert head.split() == ["ID", "LAST", "USED", "STEPS", "FOLDER", "TITLE"]
    assert sorted(row.split()[0] for row in rows) == ["01234567", "a-name-of-mine"]
    assert max(len(row) for row in rows) < 100
    assert any("~/x/y" in row and row.endswith("[error] Mine.") for row in rows)


def stored(place, name, *, state="idle", cwd=None, **metadata):
    folder = place.home / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    header = {"_meta": True, "schema_version": 1, "session_id": name, "state": state}
    header["metadata"] = {"cwd": cwd or str(place.project), **metadata}
    (folder / f"{name}.jsonl").write_text(json.dumps(header) + "\n")


def test_an_id_that_is_none_is_refused(here):
    done = here("sessions", "show", "../config")
    assert (done.code, done.err.startswith("aar: Invalid session_id: '../config'")) == (2, True)


# --- tools, prompt, config, version -----------------------------------------------------------


@pytest.mark.covers("CLI-15")
def test_tools_lists_names_effects_and_descriptions(here, place):
    lines = here("tools").out.splitlines()
    assert [line.split("  ")[1] for line in lines] == list(BUILTIN_TOOLS)
    assert lines[0].startswith("  read_file  (read)  ")
    assert lines[4].startswith("  bash  (execute)  ")
    place.configure(tools={"enabled_builtins": []})
    assert here("tools").out == "No tools are enabled.\n"


@pytest.mark.covers("AURA-65")
async def test_the_tools_that_are_listed_are_those_that_the_model_gets_in_each_step(aar, place, model, flags):
    place.configure(tools={"enabled_builtins": ["grep", "todo", "bash", "read_file"], "filters": {"file": ["!bash"]}})
    place.write("a.txt", "alpha")
    model.calls("read_file", path="a.txt").says("ok")
    listed = [line.split("  ")[1] for line in (await aar("tools")).out.splitlines() if "(left out)" not in line]
    await aar("run", "hi", *flags)
    given = [[one["function"]["name"] for one in request["tools"]] for request in model.requests]
    assert [sorted(names) for names in (listed, *given)] == [["grep", "read_file", "todo"]] * 3


@pytest.mark.covers("CLI-16", "PRM-11", "PRM-12")
async def test_prompt_has_three_forms(aar, place, model, flags):
    place.home.mkdir()
    (place.home / "rules.md").write_text("Be brief.\n")
    raw = (await aar("prompt", "--raw")).out
    model.says("ok")
    await aar("run", "hi", *flags)
    assert raw == model.requests[0]["messages"][0]["content"] + "\n"
    assert "- bash: " in raw
    assert raw.endswith("\n---\nBe brief.\n")

    text = raw.removesuffix("\n")
    size = f"{len(text)} chars · {len(text.splitlines())} lines"
    assert (await aar("prompt")).out == f"System Prompt\n{text}\n{size}\n"

    lines = (await aar("prompt", "--layers")).out.splitlines()
    assert lines[0] == "System prompt layers (assembled in order):"
    assert [line.split("  ")[1] for line in lines[1:-1]] == ["1. aar-system", "2. tools", "3. global", "4. project"]
    assert lines[3] == f"  3. global  {place.home}/rules.md  (9 chars)"
    assert lines[4] == f"  4. project  {place.project}/.agent/rules.md  (not found — skipped)"
    assert lines[-1] == f"3 layer(s) loaded · {len(text)} total chars"


async def test_prompt_is_a_panel_on_a_terminal(terminal):
    async with terminal("prompt") as screen:
        assert await screen.end() == 0
    assert "╭─ System Prompt ─" in screen.text
    assert " lines ─╯" in screen.text


async def test_the_raw_prompt_cannot_move_the_cursor_of_a_terminal(aar, terminal, place):
    place.write(".agent/rules.md", "calm\x1b[2J\x9b5mtext")
    async with terminal("prompt", "--raw") as screen:
        assert await screen.end() == 0
    assert screen.raw.endswith("\r\n---\r\ncalm5mtext\r\n")
    assert "\x1b[2J" in (await aar("prompt", "--raw")).out


def test_the_layers_say_why_a_rule_was_skipped(here, place):
    (place.project / ".agent").mkdir()
    (place.project / ".agent" / "rules.md").symlink_to("/etc/passwd")
    assert ".agent/rules.md  (a link that leads elsewhere — skipped)\n" in here("prompt", "--layers").out


def test_config_shows_every_setting_its_origin_and_no_key(here, place):
    provider = {
        "name": "generic",
        "model": "m",
        "base_url": "http://u:passw0rd@h",
        "extra": {"extra_headers": {"X": "hidden"}},
    }
    place.configure(provider=provider, max_steps=7, providers={"a.b": {"name": "generic", "api_key": "hidden"}})
    place.variables["GENERIC_API_KEY"] = "hidden"
    out = here("config", "--read-only", "--api-key", "hidden").out
    lines = out.splitlines()
    assert f"max_steps = 7  (file {place.home}/config.json)" in lines
    assert "safety.read_only = true  (flag)" in lines
    assert 'provider.api_key = "********"  (flag)' in lines
    assert "timeout = 0.0  (default)" in lines
    assert 'providers.a.b.api_key = "********"' in out
    assert lines == sorted(lines)
    assert ("hidden" in out, "passw0rd" in out) == (False, False)
    assert 'provider.api_key = "********"  (environment)' in here("config").out


def test_config_says_when_a_model_is_still_to_be_found(here, place):
    remark = "No provider was chosen, so `aar run` and `aar chat` look for a model: `aar local` shows which one.\n"
    assert here("config").err == remark
    place.configure(provider={"name": "generic", "base_url": "http://h"})
    assert here("config").err == ""


def test_there_is_one_version(here):
    said = [here("version").out, prepared_text(["version"]), prepared_text(["--version"])]
    assert said == [f"aar {__version__}\n"] * 3


@pytest.mark.covers("SAFE-24")
def test_safety_flags_become_settings(here, place):
    place.configure(safety={"denied_paths": ["/a"]})

    def settings(*flags: str) -> dict[str, str]:
        lines = here("config", *flags).out.splitlines()
        return {line.split(" = ")[0]: line.split(" = ")[1].rpartition("  (")[0] for line in lines}

    first = settings("--read-only", "--no-require-approval", "--no-restrict-to-cwd", "--denied-paths", "/b, /c")
    assert (first["safety.read_only"], first["safety.allowed_paths"]) == ("true", "[]")
    assert (first["safety.require_approval_for_writes"], first["safety.require_approval_for_execute"]) == ("false",) * 2
    assert first["safety.denied_paths"] == '["/a", "/b", "/c"]'
    second = settings("--no-read-only", "--require-approval", "--restrict-to-cwd")
    assert (second["safety.read_only"], second["safety.allowed_paths"]) == ("false", '["<cwd>/**"]')
    assert second["safety.require_approval_for_writes"] == "true"
    third = settings("--restrict-to-cwd", "--allowed-paths", "/d/**", "--yes")
    assert (third["safety.allowed_paths"], third["safety.require_approval_for_writes"]) == ('["/d/**"]', "false")


# --- init -------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-17")
def test_init_writes_the_files_and_leaves_those_that_are_there(here, place):
    place.home.mkdir()
    (place.home / "rules.md").write_text("mine")
    first = here("init")
    made = {
        str(file.relative_to(place.home))
        for file in place.home.rglob("*")
        if file.is_file() and file.name != "rules.md"
    }
    assert {"config.json", "mcp_servers.json", "mcp_servers.example.json", "pricing.template.json"} <= made
    assert {"themes/example.json", "themes/theme.schema.template", "extensions/hello.py"} <= made
    lines = first.out.splitlines()
    created = {line.removeprefix("Created: ") for line in lines if line.startswith("Created: ")}
    assert created == {str(place.home / name) for name in made}
    kept = f"Warning: {place.home}/rules.md already exists — skipping (use --force to overwrite)"
    assert kept in lines
    assert [line[2] for line in lines if line[:2] == "  " and line[3] == "."] == list("12345678")
    assert (place.home / "rules.md").read_text() == "mine"

    again = here("init")
    assert ("Created" in again.out, "Next steps" in again.out, "aar init --force" in again.out) == (False, False, True)
    forced = here("init", "--force")
    assert ("Warning" in forced.out, (place.home / "rules.md").read_text() == "mine") == (False, False)


def test_init_that_cannot_write_says_where(here, place):
    place.home.write_text("a file")
    done = here("init")
    assert (done.code, done.err) == (
        2,
        f"aar: {place.home} is no folder: move it away, or set AAR_HOME to another one.\n",
    )
    place.home.unlink()
    place.home.mkdir()
    (place.home / "themes").write_text("a file")
    done = here("init")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"aar: {place.home}/themes: cannot be written (File exists). Allow this user to ")


@pytest.mark.parametrize("words", ["run hi", "chat", "sessions", "tools", "prompt", "config", "local"])
def test_a_file_in_place_of_the_user_folder_is_a_mistake_in_the_settings(here, place, words):
    place.home.write_text("a file")
    done = here(*words.split())
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"aar: {place.home} is no folder: move it away, or set AAR_HOME to another one.\n",
    )


def test_a_user_without_a_home_is_told_what_to_set(here, place, monkeypatch):
    def nobody() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("aar.config.files.Path.home", nobody)
    place.variables["AAR_HOME"] = ""
    done = here("sessions")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "set HOME, or AAR_HOME" in done.err


# --- the local model --------------------------------------------------------------------------


def test_local_status_says_that_nothing_is_installed(here, place):
    place.variables["GENERIC_ENDPOINT"] = "http://127.0.0.1:9/v1"
    done = here("local")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "No model is installed: `aar local install` fetches a small one.",
    )
    (place.home / "models").mkdir(parents=True)
    (place.home / "models" / "own.gguf").write_bytes(b"x" * 2_000_000)
    assert here("local", "status").out.splitlines()[:3] == [
        "  own.gguf  2 MB",
        "Use one with: aar run --provider local --model FILE.gguf",
        "When neither a flag nor the config file names a provider:",
    ]


def test_local_status_says_which_model_the_config_file_names(here, place, tmp_path):
    file = tmp_path / "other.json"
    file.write_text('{"provider": {"name": "ollama", "model": "qwen3"}}')
    assert here("local", "status", "--config", str(file)).out.splitlines() == [
        "No model is installed: `aar local install` fetches a small one.",
        "A run without flags uses ollama/qwen3: the config file names it.",
    ]
    place.home.mkdir()
    file.rename(place.home / "config.json")
    assert "A run without flags uses ollama/qwen3" in here("local").out


@pytest.mark.covers("CLI-21")
async def test_a_provider_whose_package_is_missing_says_what_to_install(place):
    """As on a machine without the package: the import of it fails."""
    command = "import sys; sys.modules['xllamacpp'] = None; sys.argv[0] = 'aar'; from aar.__main__ import main; main()"
    weights = place.project / "m.gguf"
    weights.write_bytes(b"GGUF")
    done = await trio.run_process(
        [sys.executable, "-c", command, "run", "hi", "--provider", "local", "--model", str(weights)],
        cwd=place.project,
        env=place.environment,
        stdin=b"",
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert (done.returncode, b"pip install 'aar-agent[local]'" in done.stderr) == (1, True), done.stderr
