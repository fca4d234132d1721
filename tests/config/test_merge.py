"""Flags over environment over file over defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.config import API_KEY_VARIABLES, Loaded, merge_config
from aar.errors import ConfigError, InvalidSetting, UnknownSetting
from aar.messages.settings import AgentConfig, ProviderConfig

ALL_KEYS = {variable: f"key-of-{name}" for name, variable in API_KEY_VARIABLES.items()}


def provider_of(loaded: Loaded) -> ProviderConfig:
    assert isinstance(loaded.config.provider, ProviderConfig)
    return loaded.config.provider


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def merged(
    home: Path, told: dict[str, Any] | None = None, *, environ: dict[str, str] | None = None, **flags: Any
) -> Loaded:
    """With `told` as the user's file."""
    home.mkdir(exist_ok=True)
    if told is not None:
        (home / "config.json").write_text(json.dumps(told))
        (home / "config.json").chmod(0o600)
    return merge_config(flags=flags, environ={"AAR_HOME": str(home), **(environ or {})})


def test_nothing_told_gives_the_defaults(home: Path) -> None:
    loaded = merged(home)
    assert loaded.config == AgentConfig()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()
    assert not loaded.provider_was_chosen


@pytest.mark.covers("CFG-05")
def test_a_flag_wins_over_the_file_and_the_file_over_the_default(home: Path) -> None:
    file = f"file {home / 'config.json'}"
    default = merged(home)
    told = merged(home, {"provider": {"model": "from-file"}})
    flagged = merged(home, {"provider": {"model": "from-file"}}, model="from-flag")
    found = [(provider_of(each).model, each.origins["provider.model"]) for each in (default, told, flagged)]
    assert found == [("claude-sonnet-4-6", "default"), ("from-file", file), ("from-flag", "flag")]


def test_a_flag_that_is_not_given_never_overrides(home: Path) -> None:
    loaded = merged(
        home, {"max_steps": 7, "safety": {"read_only": True}}, max_steps=None, read_only=None, provider=None
    )
    assert (loaded.config.max_steps, loaded.config.safety.read_only) == (7, True)


def test_a_flag_can_take_back_what_the_file_says(home: Path) -> None:
    loaded = merged(home, {"safety": {"read_only": True}}, read_only=False)
    assert not loaded.config.safety.read_only


@pytest.mark.covers("CFG-06")
def test_another_file_replaces_the_users_own(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"max_retries": 5}')
    home.mkdir()
    (home / "config.json").write_text('{"max_steps": 7, "nonsense": 1}')
    loaded = merge_config(file=other, environ={"AAR_HOME": str(home)})
    assert (loaded.config.max_retries, loaded.config.max_steps, loaded.warnings) == (5, 50, ())
    assert loaded.origins["max_retries"] == f"file {other}"


def test_another_file_must_exist(home: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        merge_config(file=home / "none.json", environ={})


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.covers("CFG-07", "AURA-55")
def test_a_key_comes_from_flag_then_environment_then_file(home: Path) -> None:
    told = {"provider": {"api_key": "from-file"}}
    environ = {"ANTHROPIC_API_KEY": "from-environment"}
    found = [
        merged(home, told),
        merged(home, told, environ=environ),
        merged(home, told, environ=environ, api_key="from-flag"),
    ]
    assert [provider_of(each).api_key for each in found] == ["from-file", "from-environment", "from-flag"]
    assert [each.origins["provider.api_key"] for each in found[1:]] == ["environment", "flag"]


@pytest.mark.covers("CFG-08")
@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini", "generic", "ollama", "local", "somebody"])
def test_a_provider_gets_its_own_key_and_nobody_elses(home: Path, name: str) -> None:
    loaded = merged(home, environ=ALL_KEYS, provider=name, model="m")
    assert provider_of(loaded).api_key == (f"key-of-{name}" if name in API_KEY_VARIABLES else "")
    others = {variable: key for variable, key in ALL_KEYS.items() if variable != API_KEY_VARIABLES.get(name)}
    assert provider_of(merged(home, environ=others, provider=name, model="m")).api_key == ""


def test_an_empty_variable_is_no_key(home: Path) -> None:
    loaded = merged(home, {"provider": {"api_key": "from-file"}}, environ={"ANTHROPIC_API_KEY": " "})
    assert provider_of(loaded).api_key == "from-file"


def test_a_generic_endpoint_fills_in_a_missing_address_only(home: Path) -> None:
    environ = {"GENERIC_ENDPOINT": "http://env/v1"}
    found = [
        merged(home, {"provider": {"name": "generic"}}, environ=environ),
        merged(home, {"provider": {"name": "generic", "base_url": "http://file/v1"}}, environ=environ),
        merged(home, {"provider": {"name": "generic", "extra": {"endpoint": "http://x/v1"}}}, environ=environ),
        merged(home, {"provider": {"name": "openai", "model": "m"}}, environ=environ),
    ]
    assert [provider_of(each).base_url for each in found] == ["http://env/v1", "http://file/v1", "", ""]


# --- the provider -----------------------------------------------------------------------------

PROFILES = {
    "fast": {"name": "openai", "model": "gpt-5.4-mini", "api_key": "profile-key"},
    "big": {"name": "anthropic", "model": "claude-opus-4-6"},
}


@pytest.mark.covers("CFG-09")
def test_a_name_in_the_file_becomes_the_profile(home: Path) -> None:
    loaded = merged(home, {"provider": "fast", "providers": PROFILES}, environ={"ANTHROPIC_API_KEY": "wrong"})
    assert provider_of(loaded) == ProviderConfig.model_validate(PROFILES["fast"])
    assert loaded.provider_was_chosen


@pytest.mark.covers("CFG-09")
def test_an_unknown_name_lists_the_profiles(home: Path) -> None:
    with pytest.raises(ValueError, match=r"Provider key 'x' not found in providers dict\. Available: big, fast"):
        merged(home, {"provider": "x", "providers": PROFILES})
    alone = r"Provider key 'x' not found in providers dict\. Available: \(none\)\. Without profiles a provider is "
    with pytest.raises(ValueError, match=alone):
        merged(home, {"provider": "x"})


def test_a_flag_names_a_profile_before_a_provider(home: Path) -> None:
    told = {"provider": "big", "providers": {**PROFILES, "openai": {"name": "generic", "model": "mine"}}}
    assert provider_of(merged(home, told, provider="fast")).label == "openai/gpt-5.4-mini"
    assert provider_of(merged(home, told, provider="openai")).label == "generic/mine"
    assert provider_of(merged(home, told, provider="fast", model="other")).label == "openai/other"


def test_a_flag_replaces_a_name_that_no_profile_has(home: Path) -> None:
    assert provider_of(merged(home, {"provider": "gone"}, provider="ollama", model="m")).label == "ollama/m"


def test_another_provider_gets_nothing_of_the_one_in_the_file(home: Path) -> None:
    told = {"provider": {"model": "claude-x", "api_key": "secret", "base_url": "http://a", "extra": {"thinking": 1}}}
    loaded = merged(home, told, provider="openai")
    assert provider_of(loaded) == ProviderConfig(name="openai", model="")
    assert loaded.origins["provider.api_key"] == "default"
    (warning,) = loaded.warnings
    assert warning.startswith("No model is named for provider openai: add --model NAME")


def test_a_provider_that_is_unknown_is_not_asked_for_its_model(home: Path) -> None:
    assert merged(home, {}, provider="genric").warnings == ()


def test_a_flag_with_an_address_alone_means_a_generic_server(home: Path) -> None:
    loaded = merged(home, {}, base_url="http://localhost:8000/v1")
    assert provider_of(loaded) == ProviderConfig(name="generic", model="", base_url="http://localhost:8000/v1")
    assert (loaded.origins["provider.name"], loaded.warnings) == ("flag", ())
    named = merged(home, {"provider": {"name": "anthropic", "model": "m"}}, base_url="http://proxy")
    assert provider_of(named).label == "anthropic/m"


def test_naming_the_files_own_provider_changes_nothing(home: Path) -> None:
    told = {"provider": {"name": "openai", "model": "m", "api_key": "k"}}
    assert merged(home, told, provider="openai").config == merged(home, told).config
    assert provider_of(merged(home, {"provider": {"api_key": "k"}}, provider="anthropic")).api_key == "k"


def test_the_default_model_is_no_model_of_another_provider(home: Path) -> None:
    assert provider_of(merged(home, {"provider": {"name": "generic"}})).model == ""
    assert merged(home, {"provider": {"name": "generic"}}).warnings == ()
    assert provider_of(merged(home, {"provider": {"name": "anthropic"}})).model == "claude-sonnet-4-6"


@pytest.mark.parametrize(
    ("told", "flags", "expected"),
    [
        ({}, {}, False),
        ({"max_steps": 3}, {"max_steps": 4}, False),
        ({"provider": {"temperature": 0.5}}, {}, False),
        ({"provider": {"model": "m"}}, {}, True),
        ({"provider": {"name": "anthropic"}}, {}, True),
        ({"provider": ProviderConfig().model_dump()}, {}, False),
        ({"provider": {"base_url": "http://x"}}, {}, True),
        ({"provider": "fast", "providers": PROFILES}, {}, True),
        ({"providers": PROFILES}, {}, False),
        ({}, {"provider": "anthropic"}, True),
        ({}, {"model": "m"}, True),
        ({}, {"api_key": "k"}, False),
    ],
)
def test_whether_a_provider_was_chosen_can_be_seen(
    home: Path, told: dict[str, Any], flags: dict[str, Any], expected: bool
) -> None:
    assert merged(home, told, **flags).provider_was_chosen is expected


# --- other flags ------------------------------------------------------------------------------


def test_approval_flags_set_both_kinds(home: Path) -> None:
    safety = merged(home, require_approval=False).config.safety
    assert (safety.require_approval_for_writes, safety.require_approval_for_execute) == (False, False)


def test_denied_paths_are_added_and_allowed_paths_replace(home: Path) -> None:
    loaded = merged(home, denied_paths=["**/x"], allowed_paths=["/y/**"])
    assert loaded.config.safety.denied_paths == [*AgentConfig().safety.denied_paths, "**/x"]
    assert loaded.config.safety.allowed_paths == ["/y/**"]
    told = merged(home, {"safety": {"denied_paths": ["a"]}}, denied_paths=["b"])
    assert told.config.safety.denied_paths == ["a", "b"]


def test_the_folder_restriction_can_be_lifted_and_set(home: Path) -> None:
    assert merged(home, restrict_to_cwd=False).config.safety.allowed_paths == []
    told = {"safety": {"allowed_paths": []}}
    assert merged(home, told, restrict_to_cwd=True).config.safety.allowed_paths == ["<cwd>/**"]


def test_a_flag_may_be_the_path_of_a_setting(home: Path) -> None:
    loaded = merge_config(
        flags={"tools.command_timeout": 9, "safety.sandbox.mode": "linux"}, environ={"AAR_HOME": "/none"}
    )
    assert (loaded.config.tools.command_timeout, loaded.config.safety.sandbox.mode) == (9, "linux")
    assert loaded.origins["tools.command_timeout"] == "flag"


def test_a_mode_as_one_word_keeps_its_origin_and_can_be_refined(home: Path) -> None:
    loaded = merged(home, {"safety": {"sandbox": "linux"}})
    assert loaded.origins["safety.sandbox.mode"] == f"file {home / 'config.json'}"
    (home / "config.json").write_text('{"safety": {"sandbox": "linux"}}')
    refined = merge_config(flags={"safety.sandbox.linux.max_memory_mb": 64}, environ={"AAR_HOME": str(home)})
    assert (refined.config.safety.sandbox.mode, refined.config.safety.sandbox.linux.max_memory_mb) == ("linux", 64)


def test_a_flag_that_names_no_setting_gets_the_nearest() -> None:
    with pytest.raises(UnknownSetting, match=r'There is no setting "max_step"\. Did you mean "max_steps"\?'):
        merge_config(flags={"max_step": 1}, environ={"AAR_HOME": "/none"})


def test_an_error_names_the_flag_or_the_file_it_comes_from(home: Path) -> None:
    with pytest.raises(InvalidSetting) as caught:
        merged(home, {"timeout": "soon", "safety": 5}, max_steps=0, read_only=True)
    file = home / "config.json"
    starts = [line.split(": ")[:2] for line in str(caught.value).splitlines()]
    assert starts == [[str(file), "safety"], ["flag", "max_steps"], [str(file), "timeout"]]


def test_unknown_keys_of_the_file_are_warnings(home: Path) -> None:
    (warning,) = merged(home, {"streming": True}).warnings
    assert 'Did you mean "streaming"?' in warning


@given(
    st.dictionaries(st.sampled_from(["max_steps", "max_retries", "token_budget"]), st.integers(1, 10**6)),
    st.dictionaries(st.sampled_from(["max_steps", "max_retries", "token_budget"]), st.integers(1, 10**6)),
)
def test_every_setting_is_the_flags_else_the_files_else_the_default(
    told: dict[str, int], flags: dict[str, int]
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.json")
        file.write_text(json.dumps(told))
        loaded = merge_config(file=file, flags=flags, environ={})
        assert loaded.config == AgentConfig.model_validate({**told, **flags})
        origins = {name: "flag" if name in flags else f"file {file}" for name in {**told, **flags}}
        assert {name: origin for name, origin in loaded.origins.items() if origin != "default"} == origins


@pytest.mark.parametrize(
    ("mode", "provider", "told"),
    [
        (0o600, {"api_key": "swordfish"}, ""),
        (0o644, {}, ""),
        (0o644, {"api_key": "swordfish"}, "holds a key and others may read it"),
        (0o640, {"extra": {"extra_headers": {"Authorization": "Bearer swordfish"}}}, "holds a key and others may"),
        (0o644, {"base_url": "https://me:swordfish@host"}, "holds a key and others may read it"),
        (0o666, {}, "can be changed by others"),
        (0o622, {}, "can be changed by others"),
        (0o664, {}, ""),  # a group of one's own
    ],
)
def test_a_file_that_others_may_read_or_change_is_told(
    tmp_path: Path, mode: int, provider: dict[str, Any], told: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"provider": {"model": "m", **provider}}))
    file.chmod(mode)
    warnings = merge_config(file=file, environ={}).warnings
    assert len(warnings) == bool(told)
    assert told in "".join(warnings)


def test_a_key_in_the_place_of_a_providers_name_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for provider in ("sk-ant-swordfish", {"temperature": "sk-ant-swordfish"}):
        file.write_text(json.dumps({"provider": provider}))
        with pytest.raises(InvalidSetting) as caught:
            merge_config(file=file, environ={})
        assert "swordfish" not in str(caught.value)
        assert "a text of 16 characters" in str(caught.value)
