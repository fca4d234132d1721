"""Reading one configuration file."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.config import aar_home, load_config, unknown_settings
from aar.errors import ConfigError, InvalidSetting
from aar.messages.settings import AgentConfig


def written(folder: Path, content: Any) -> Path:
    file = folder / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


@pytest.mark.covers("CFG-02")
def test_a_file_is_laid_over_the_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, {"max_steps": 7, "provider": {"name": "openai", "model": "gpt-5.4"}})
    config = load_config(file)
    assert config == AgentConfig.model_validate({"max_steps": 7, "provider": {"name": "openai", "model": "gpt-5.4"}})
    assert config.tools == AgentConfig().tools


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b'\xef\xbb\xbf{"max_steps": 7}')
    assert load_config(file).max_steps == 7


@pytest.mark.covers("CFG-03")
def test_broken_json_is_told_with_line_and_column(tmp_path: Path) -> None:
    file = written(tmp_path, '{\n  "max_steps": 7,\n}')
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: line 2, column 17: ") or "line 3, column 1" in str(caught.value)


@pytest.mark.covers("CFG-03")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"max_steps": "many"}, "max_steps: Input should be a valid integer"),
        ({"tools": {"max_output_chars": "many"}}, "tools.max_output_chars: "),
        ({"provider": {"max_tokens": []}}, "provider.max_tokens: "),
        ({"providers": {"a": {"temperature": "hot"}}}, "providers.a.temperature: "),
        ({"provider": 5}, "provider: must be an object, or a key of providers, but found 5."),
        ({"safety": "none"}, "safety: "),
        ({"safety": {"denied_paths": [1]}}, "safety.denied_paths.0: "),
    ],
)
def test_a_wrong_type_is_told_with_file_field_and_what_was_found(
    tmp_path: Path, content: dict[str, Any], expected: str
) -> None:
    file = written(tmp_path, content)
    with pytest.raises(InvalidSetting) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: {expected}")
    assert "but found" in str(caught.value)


def test_the_error_names_the_default_as_a_way_out(tmp_path: Path) -> None:
    file = written(tmp_path, {"max_steps": 0})
    with pytest.raises(InvalidSetting) as caught:
        load_config(file)
    problem = "Input should be greater than or equal to 1, but found 0"
    assert str(caught.value) == f"{file}: max_steps: {problem}. Correct it or leave it out (default 50)."


def test_every_mistake_is_told_once(tmp_path: Path) -> None:
    file = written(tmp_path, {"max_steps": 0, "provider": {"name": 5}, "timeout": -1})
    with pytest.raises(InvalidSetting) as caught:
        load_config(file)
    fields = [line.removeprefix(f"{file}: ").split(":")[0] for line in str(caught.value).splitlines()]
    assert fields == ["provider.name", "max_steps", "timeout"]


def test_a_key_is_not_repeated_in_the_error_about_it(tmp_path: Path) -> None:
    file = written(tmp_path, {"provider": {"api_key": 123456789, "extra": ["hidden-in-a-list"]}})
    with pytest.raises(InvalidSetting) as caught:
        load_config(file)
    assert "123456789" not in str(caught.value)
    assert "hidden-in-a-list" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "The file is empty"),
        (b"[1]", "must hold a JSON object {...}, but holds a list"),
        (b"null", "but holds null"),
        (b"// mine\n{}", "JSON has no comments"),
        (b'{"max_steps": 5,}', "comma"),
        (b'{"provider": {"model": "a", "model": "b"}}', "'model' stands twice in one object. Remove one of them."),
        (b'{"a": "\xff"}', "is not UTF-8 text (byte 7)"),
        (b'{"a":' + b"[" * 200_000, ""),
    ],
)
def test_a_file_that_is_no_json_object_says_what_it_is(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert expected in str(caught.value)


def test_notes_may_have_the_same_name(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, '{"_note": 1, "max_steps": 5, "_note": 2}')).max_steps == 5


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


@given(st.binary(max_size=200))
def test_any_bytes_give_settings_or_a_config_error(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_bytes(content)
        with contextlib.suppress(ConfigError):
            assert isinstance(load_config(file), AgentConfig)


@pytest.mark.covers("CFG-04")
def test_an_unknown_key_is_logged_with_the_nearest_known_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path, {"max_step": 7, "safety": {"sandbox": {"wsl": {"distr": "x"}}}})
    with caplog.at_level(logging.WARNING):
        assert load_config(file) == AgentConfig()
    assert [record.getMessage() for record in caplog.records] == [
        f'{file}: unknown setting "max_step" is ignored. Did you mean "max_steps"?',
        f'{file}: unknown setting "safety.sandbox.wsl.distr" is ignored. Did you mean "distro"?',
    ]


def test_a_tool_that_there_is_none_of_is_told_with_the_nearest_one() -> None:
    raw = {"tools": {"enabled_builtins": ["read_file", "bsh", "telephone", 7]}}
    assert unknown_settings(raw, "f") == [
        'f: tools.enabled_builtins: there is no tool "bsh". Did you mean "bash"?',
        'f: tools.enabled_builtins: there is no tool "telephone". Known here: bash, batch, done, edit_file, '
        "find_files, grep, list_directory, load_tools, memory_read, memory_write, patch, read_file, skill, task, todo, "
        "write_file.",
    ]


@pytest.mark.parametrize(
    ("level", "told"),
    [("debug", []), ("Error", []), ("loud", ['f: log_level: there is no level "loud". Known here: ']), (5, [])],
)
def test_a_log_level_that_there_is_none_of_is_told(level: object, told: list[str]) -> None:
    found = unknown_settings({"log_level": level}, "f")
    assert [text.split("CRITICAL")[0] for text in found] == told


@pytest.mark.covers("CFG-04")
def test_unknown_keys_are_found_at_every_level() -> None:
    raw = {
        "provider": {"modle": "x", "extra": {"anything": 1}},
        "providers": {"fast": {"max_token": 1}},
        "tools": {"bash": 1},
        "safety": {"readonly": True, "sandbox": {"modus": "x", "linux": {"memory": 1}, "local": {"free": 1}}},
        "tui": {"Theme": "x", "layout": {"welcome": {}}},
        "guardrails": {"reserve_token": 1},
        "zzz": {},
    }
    names = [warning.split('"')[1] for warning in unknown_settings(raw, "f")]
    assert names == [
        "provider.modle",
        "providers.fast.max_token",
        "tools.bash",
        "safety.readonly",
        "safety.sandbox.modus",
        "safety.sandbox.linux.memory",
        "tui.Theme",
        "guardrails.reserve_token",
        "zzz",
    ]


def test_a_key_like_no_other_is_told_with_what_is_known() -> None:
    (warning,) = unknown_settings({"tui": {"zzz": 1}}, "f")
    assert warning == 'f: unknown setting "tui.zzz" is ignored. Known here: history, keymap, keys, layout, theme.'


def test_comments_by_underscore_and_a_schema_are_no_unknown_keys() -> None:
    assert unknown_settings({"$schema": "x", "_why": "y", "tools": {"_note": 1}}, "f") == []


# --- the WSL profile --------------------------------------------------------------------------


@pytest.mark.covers("CFG-12")
def test_a_profile_is_the_base_and_inline_values_win(tmp_path: Path) -> None:
    profile = tmp_path / "ubuntu.json"
    profile.write_text(json.dumps({"distro": "from-profile", "shell": "bash", "packages": ["a"], "profile": "other"}))
    wsl = {"profile": str(profile), "distro": "inline", "packages": None}
    config = load_config(written(tmp_path, {"safety": {"sandbox": {"mode": "wsl", "wsl": wsl}}}))
    found = config.safety.sandbox.wsl
    assert (found.distro, found.shell, found.packages, found.profile) == ("inline", "bash", ["a"], str(profile))


@pytest.mark.covers("CFG-12")
def test_a_missing_profile_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, {"safety": {"sandbox": {"wsl": {"profile": str(tmp_path / "none.json")}}}})
    with pytest.raises(InvalidSetting, match=r"safety\.sandbox\.wsl\.profile: profile not found"):
        load_config(file)


def test_a_profile_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "distros").mkdir()
    (tmp_path / "distros" / "mine.json").write_text('{"distro": "mine"}')
    file = written(tmp_path, {"safety": {"sandbox": {"wsl": {"profile": "distros/mine.json"}}}})
    assert load_config(file).safety.sandbox.wsl.distro == "mine"


def test_the_user_folder_can_be_moved() -> None:
    assert aar_home({"AAR_HOME": "/somewhere/aar"}) == Path("/somewhere/aar")
    assert aar_home({}) == Path.home() / ".aar"
    assert aar_home({"AAR_HOME": " "}) == Path.home() / ".aar"


def test_a_user_whose_home_is_empty_has_none() -> None:
    with pytest.raises(ConfigError, match="This user has no home folder"):
        aar_home({"HOME": ""})
    assert aar_home({"HOME": "", "AAR_HOME": "/a"}) == Path("/a")
