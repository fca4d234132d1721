"""No secret leaves the settings by a side door."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from aar.config import masked, secret_values, without_keys
from aar.config.masking import repeated
from aar.messages.settings import AgentConfig

SECRETS = ["key-abcdef", "bearer-abcdef", "plain-header", "token-abcdef", "profile-key", "url-password", "query-key"]
SECRETS += ["odd-key", "nested-header", "login-secret"]

CONFIG = AgentConfig.model_validate(
    {
        "provider": {
            "name": "generic",
            "model": "m",
            "api_key": "key-abcdef",
            "base_url": "https://me:url-password@host/v1?key=query-key&x=odd-key&api-version=2",
            "extra": {
                "extra_headers": {"Authorization": "Bearer bearer-abcdef", "X-Team": "plain-header"},
                "auth_token": "token-abcdef",
                "auth_header": "x-api-key",
                "keep_alive": "5m",
                "endpoint": "ada:login-secret@other",
                "client": {"headers": {"X-Nested": "nested-header"}, "retries": 2},
            },
        },
        "providers": {"other": {"api_key": "profile-key"}},
    }
)


def test_masked_settings_show_that_there_is_a_key_and_not_which() -> None:
    shown = masked(CONFIG)
    assert [secret for secret in SECRETS if secret in json.dumps(shown)] == []
    assert shown["provider"]["api_key"] == "********"
    assert shown["provider"]["base_url"] == "https://********@host/v1?key=********&x=********&api-version=2"
    assert shown["provider"]["extra"] == {
        "extra_headers": {"Authorization": "********", "X-Team": "********"},
        "auth_token": "********",
        "auth_header": "x-api-key",
        "keep_alive": "5m",
        "endpoint": "********@other",
        "client": {"headers": {"X-Nested": "********"}, "retries": 2},
    }
    assert masked(AgentConfig())["provider"]["api_key"] == ""


def test_settings_without_keys_hold_no_secret_and_load_again() -> None:
    kept = without_keys(CONFIG)
    assert [secret for secret in SECRETS if secret in json.dumps(kept)] == []
    assert "api_key" not in kept["provider"]
    again = AgentConfig.model_validate(kept).resolve_provider()
    assert (again.label, again.base_url) == ("generic/m", "https://host/v1?key=&x=&api-version=2")
    assert again.extra == {
        "auth_header": "x-api-key",
        "keep_alive": "5m",
        "endpoint": "other",
        "client": {"retries": 2},
    }


def test_settings_without_secrets_are_kept_whole() -> None:
    assert AgentConfig.model_validate(without_keys(AgentConfig())) == AgentConfig()


def test_all_secrets_are_known_for_the_log() -> None:
    found = secret_values(CONFIG)
    assert set(SECRETS) <= set(found)
    assert found == sorted(found, key=lambda value: (-len(value), value))
    assert secret_values(AgentConfig()) == []


def test_an_address_that_is_none_is_shown_all_the_same() -> None:
    broken = AgentConfig.model_validate({"provider": {"base_url": "http://a:pass-word@[::1"}})
    assert masked(broken)["provider"]["base_url"] == "http://********@[::1"
    assert secret_values(broken) == ["pass-word"]


@pytest.mark.parametrize(
    "extra",
    [
        {"api_keys": ["swordfish-1", "swordfish-2"]},
        {"credentials": {"id": "swordfish", "more": ["swordfish", {"any": "swordfish"}]}},
        {"auth": ["me", "swordfish"]},
        {"password": 1234567},
        {"fallbacks": [{"api_key": "swordfish"}, {"endpoint": "http://me:swordfish@host"}]},
        {"urls": ["http://me:swordfish@host/?key=swordfish"]},
        {"headers": {"X-Keys": ["swordfish"]}},
    ],
)
def test_secrets_in_lists_and_in_objects_of_their_own_are_found_as_well(extra: dict[str, Any]) -> None:
    config = AgentConfig.model_validate({"provider": {"extra": extra}})
    secrets = set(re.findall(r"swordfish[-0-9]*|1234567", json.dumps(extra)))
    for shown in (masked(config), without_keys(config)):
        assert [secret for secret in secrets if secret in json.dumps(shown)] == []
    assert masked(config)["provider"]["extra"].keys() == extra.keys()
    assert AgentConfig.model_validate(without_keys(config)).resolve_provider().name == "anthropic"
    assert secrets <= set(secret_values(config))


def test_what_only_sounds_like_a_secret_is_kept() -> None:
    extra = {"stop_token": 7, "auth_header": "x-api-key", "stop": ["a", "b"], "supports_auth": True, "top_k": 3}
    config = AgentConfig.model_validate({"provider": {"extra": extra}})
    assert masked(config)["provider"]["extra"] == extra
    assert without_keys(config)["provider"]["extra"] == extra


def test_the_login_in_the_address_of_a_distribution_is_hidden() -> None:
    sandbox = {"mode": "wsl", "wsl": {"rootfs_url": "https://me:swordfish@host/root.tar"}}
    config = AgentConfig.model_validate({"safety": {"sandbox": sandbox}})
    for shown in (masked(config), without_keys(config)):
        assert "swordfish" not in json.dumps(shown)
    assert secret_values(config) == ["swordfish"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("fast", "'fast'"),
        ("claude-sonnet-4-6", "'claude-sonnet-4-6'"),
        (7, "7"),
        (None, "null"),
        (True, "true"),
        ({}, "an object"),
        ([1], "a list"),
        ("sk-short", "a text of 8 characters"),
        ("AIzaSyA-0123456789-0123456789", "a text of 29 characters"),
        ("http://me:pw@host", "a text of 17 characters"),
        ("x y " * 10, "a text of 40 characters"),
    ],
)
def test_an_error_repeats_no_value_that_may_be_a_key(value: Any, shown: str) -> None:
    assert repeated(value) == shown
