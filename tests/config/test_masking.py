"""No secret leaves the settings by a side door."""

from __future__ import annotations

import json

from aar.config import masked, secret_values, without_keys
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
