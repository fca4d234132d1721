"""Settings: defaults, ranges, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from aar.messages.settings import DENIED_COMMANDS, DENIED_PATHS, AgentConfig, ProviderConfig

DEFAULTS: dict[str, Any] = {
    "agent": "",
    "mode": "",
    "provider": {
        "name": "anthropic",
        "model": "claude-sonnet-4-6",
        "api_key": "",
        "base_url": "",
        "max_tokens": 4096,
        "temperature": 0.0,
        "context_window": None,
        "token_budget": None,
        "cost_limit": None,
        "response_format": "",
        "json_schema": {},
        "extra": {},
    },
    "providers": {},
    "fallback_providers": [],
    "fallback_agents": [],
    "tools": {
        "enabled_builtins": ["read_file", "write_file", "edit_file", "list_directory", "bash", "grep", "find_files"],
        "bash_default_timeout": 120,
        "command_timeout": 300,
        "max_output_chars": 50000,
        "env_keep": [],
        "filters": {},
        "opt_in": [],
        "deferred": [],
        "definitions": {},
    },
    "safety": {
        "read_only": False,
        "require_approval_for_writes": True,
        "require_approval_for_execute": True,
        "denied_paths": [
            *("/etc/shadow", "/etc/passwd", "/etc/sudoers", "/etc/sudoers.d/**"),
            *("**/.env", "**/.env.*", "**/credentials", "**/credentials.*", "**/secrets", "**/secrets.*"),
            *("**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx"),
            *("**/.ssh/**", "**/id_rsa", "**/id_dsa", "**/id_ecdsa", "**/id_ed25519"),
            *("**/.aws/**", "**/.azure/**", "**/.config/gcloud/**", "**/.netrc", "**/.npmrc", "**/.pypirc"),
        ],
        "allowed_paths": ["<cwd>/**"],
        "sandbox": {
            "mode": "local",
            "local": {},
            "linux": {
                "workspace": None,
                "writable": [],
                "max_memory_mb": 512,
                "unix_sockets": False,
                "allow_fallback": False,
            },
            "windows": {"workspace": None, "max_memory_mb": 512, "max_processes": 10, "use_low_integrity": True},
            "wsl": {
                "profile": None,
                "distro": "aar-sandbox",
                "shell": "sh",
                "wsl_user": None,
                "restrict_to_workspace": True,
                "workspace": None,
                "install_path": None,
                "rootfs_url": "https://dl-cdn.alpinelinux.org/alpine/v3.23/releases/x86_64/"
                "alpine-minirootfs-3.23.0-x86_64.tar.gz",
                "pre_install_commands": [],
                "packages": ["python3", "py3-pip"],
                "package_install_command": "apk add --no-cache {packages}",
                "system_prompt_hint": "",
            },
        },
        "deny": [],
        "confirm": [],
        "auto": [],
        "read_before_write": False,
        "log_all_commands": False,
        "acp_approval_timeout": 0.0,
    },
    "tui": {"theme": "default", "layout": {}, "history": True, "keymap": "default", "keys": {}},
    "guardrails": {
        "max_tokens_recoveries": 2,
        "max_repeated_tool_steps": 3,
        "reserve_tokens": 512,
        "reserve_cost_fraction": 0.1,
    },
    "extensions": {
        "enabled": True,
        "builtin": [],
        "include": ["*"],
        "exclude": [],
        "replace_tools": [],
        "settings": {},
        "local": {},
    },
    "injectors": {},
    "shell_hooks": {},
    "reviewer": {},
    "max_steps": 50,
    "timeout": 0.0,
    "max_retries": 3,
    "streaming": False,
    "context_window": 0,
    "context_strategy": "sliding_window",
    "compact_at": 0.0,
    "compact_keep": 10,
    "token_budget": 0,
    "cost_limit": 0.0,
    "token_warning_threshold": 0.8,
    "cost_warning_threshold": 0.8,
    "session_dir": "~/.aar/sessions",
    "file_snapshots": False,
    "transcript_file": None,
    "attachable": True,
    "project_rules_dir": ".agent",
    "system_prompt": "",
    "prompts": {},
    "agents_md": "none",
    "log_level": "WARNING",
    "log_file": None,
}


def config(**fields: Any) -> AgentConfig:
    return AgentConfig.model_validate(fields)


@pytest.mark.covers("CFG-01")
def test_the_defaults_are_the_documented_ones() -> None:
    assert AgentConfig().model_dump() == DEFAULTS
    assert AgentConfig.model_validate(DEFAULTS) == AgentConfig()
    assert (len(DENIED_PATHS), len(DENIED_COMMANDS)) == (25, 26)


def test_settings_survive_json() -> None:
    told = config(provider="a", providers={"a": {"extra": {"x": [1, None]}}}, safety={"sandbox": "wsl"}, timeout=1)
    assert AgentConfig.model_validate_json(told.model_dump_json()) == told


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        AgentConfig().max_steps = 3


@pytest.mark.covers("CFG-09")
def test_a_provider_is_an_object_or_the_key_of_one() -> None:
    profile = ProviderConfig(name="openai", model="m")
    assert config(provider=profile).resolve_provider() == profile
    assert config(provider="fast", providers={"fast": profile}).resolve_provider() == profile
    assert profile.label == "openai/m"
    expected = "Provider key 'x' not found in providers dict. Available: "
    with pytest.raises(ValueError, match=f"^{expected}a, b$"):
        config(provider="x", providers={"b": {}, "a": {}}).resolve_provider()
    with pytest.raises(ValueError, match=rf"^{expected}\(none\)$"):
        config(provider="x").resolve_provider()


@pytest.mark.covers("CFG-10")
@pytest.mark.parametrize(("own", "expected"), [(None, (1000, 500, 2.0)), (0, (0, 0, 0.0)), (7, (7, 7, 7.0))])
def test_a_profile_overrides_the_limits_unless_it_is_silent(own: int | None, expected: tuple[int, int, float]) -> None:
    profile = {"context_window": own, "token_budget": own, "cost_limit": own}
    told = config(provider="p", providers={"p": profile}, context_window=1000, token_budget=500, cost_limit=2.0)
    found = (told.effective_context_window, told.effective_token_budget, told.effective_cost_limit)
    assert found == expected


@pytest.mark.covers("CFG-11")
def test_a_sandbox_as_one_word_is_its_mode() -> None:
    assert config(safety={"sandbox": "wsl"}).safety.sandbox.mode == "wsl"
    assert config(safety={"sandbox": {"mode": "auto"}}).safety.sandbox.mode == "auto"


@pytest.mark.covers("CFG-14")
@pytest.mark.parametrize(
    "fields",
    [
        {"timeout": -1},
        {"timeout": math.inf},
        {"timeout": True},
        {"max_steps": 0},
        {"max_retries": 0},
        {"token_warning_threshold": 2},
        {"token_warning_threshold": -0.1},
        {"cost_warning_threshold": 1.1},
        {"context_strategy": "forget"},
        {"context_window": -1},
        {"token_budget": -1},
        {"cost_limit": -0.01},
        {"cost_limit": math.nan},
        {"provider": {"max_tokens": -1}},
        {"provider": {"response_format": "xml"}},
        {"providers": {"a": {"cost_limit": -1}}},
        {"safety": {"sandbox": "docker"}},
        {"safety": {"sandbox": {"mode": "none"}}},
        {"safety": {"sandbox": {"linux": {"max_memory_mb": 0}}}},
        {"tools": {"command_timeout": -1}},
        {"tools": {"max_output_chars": 0}},
        {"guardrails": {"reserve_cost_fraction": 2}},
        {"guardrails": {"max_repeated_tool_steps": 0}},
    ],
)
def test_values_outside_their_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**fields)


def test_zero_turns_limits_off() -> None:
    told = config(timeout=0, tools={"command_timeout": 0}, guardrails={"max_tokens_recoveries": 0})
    assert (told.timeout, told.tools.command_timeout, told.guardrails.max_tokens_recoveries) == (0.0, 0, 0)


@pytest.mark.covers("CFG-23")
@pytest.mark.parametrize("value", [True, False, math.nan, math.inf, -math.inf, -1, -0.5, "x", "5", None, []])
def test_an_approval_timeout_is_a_finite_number_of_seconds(value: Any) -> None:
    with pytest.raises(ValidationError):
        config(safety={"acp_approval_timeout": value})


@pytest.mark.covers("CFG-23")
@pytest.mark.parametrize("value", [0, 0.0, 1, 2.5, 86_400])
def test_an_approval_timeout_may_be_zero_or_more(value: float) -> None:
    assert config(safety={"acp_approval_timeout": value}).safety.acp_approval_timeout == value


def test_unknown_keys_are_ignored_at_every_level() -> None:
    assert config(nonsense=1, tools={"nonsense": 1}, safety={"sandbox": {"wsl": {"nonsense": 1}}}) == AgentConfig()


# --- patches ----------------------------------------------------------------------------------


def test_a_patch_changes_what_it_names_and_nothing_else() -> None:
    told = config(max_steps=7, provider={"model": "m", "extra": {"a": 1, "b": 2}})
    patched = told.patched({"provider": {"extra": {"b": None, "c": 3}}, "safety": {"read_only": True}})
    assert patched.resolve_provider() == ProviderConfig(model="m", extra={"a": 1, "c": 3})
    assert (patched.max_steps, patched.safety.read_only) == (7, True)
    assert not told.safety.read_only


def test_null_in_a_patch_goes_back_to_the_default_or_to_the_global_limit() -> None:
    told = config(max_steps=7, log_file="x", provider={"token_budget": 5}, token_budget=9)
    patched = told.patched({"max_steps": None, "log_file": None, "provider": {"token_budget": None}})
    assert (patched.max_steps, patched.log_file, patched.effective_token_budget) == (50, None, 9)


def test_a_patch_replaces_lists_and_is_validated() -> None:
    patched = AgentConfig().patched({"safety": {"allowed_paths": ["/x/**"]}})
    assert patched.safety.allowed_paths == ["/x/**"]
    assert AgentConfig().patched({}) == AgentConfig()
    with pytest.raises(ValidationError):
        AgentConfig().patched({"max_steps": 0})
