"""Where requests to Gemini go."""

from __future__ import annotations

import pytest

from aar.errors import InvalidSetting
from aar.providers.gemini_doors import Addresses, addresses, model_path

GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/m"


@pytest.mark.covers("GEM-02")
@pytest.mark.parametrize(
    "base",
    [
        "https://gateway.example.com/v1/models/m",
        "https://gateway.example.com/v1/models/m/",
        " gateway.example.com/v1/models/m",
        "https://gateway.example.com/v1/models/m:generateContent",
        "https://gateway.example.com/v1/models/m:streamGenerateContent",
        "https://gateway.example.com/v1/models/m:streamGenerateContentSse",
    ],
)
def test_an_action_replaces_the_one_at_the_end_of_an_address(base: str) -> None:
    root = "https://gateway.example.com/v1/models"
    assert addresses(base, "ignored") == Addresses(
        f"{root}/m:generateContent", f"{root}/m:streamGenerateContentSse", f"{root}?pageSize=1000", False
    )


@pytest.mark.covers("GEM-02")
@pytest.mark.parametrize(("base", "query"), [("http://localhost:1/ask", ""), ("localhost:1/ask?k=v", "?k=v")])
def test_a_path_of_ones_own_gets_the_actions(base: str, query: str) -> None:
    root = "http://localhost:1/ask"
    assert addresses(base, "m") == Addresses(
        f"{root}:generateContent{query}", f"{root}:streamGenerateContentSse{query}", "", False
    )


@pytest.mark.parametrize(
    "base",
    ["https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com/v1beta/", GOOGLE],
)
def test_the_root_of_the_api_and_googles_own_hosts_get_googles_paths(base: str) -> None:
    assert addresses(base, "m") == Addresses(
        f"{GOOGLE}:generateContent",
        f"{GOOGLE}:streamGenerateContent?alt=sse",
        "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000",
        True,
    )


@pytest.mark.covers("GEM-03")
def test_endpoints_override_what_is_made_of_the_address() -> None:
    found = addresses("https://host/m", "m", "https://a/x", "https://b/y")
    assert found[:2] == ("https://a/x", "https://b/y")
    assert addresses("", "m", "https://a/x")[:2] == ("https://a/x", "https://a/x:streamGenerateContentSse")


@pytest.mark.parametrize("base", ["ftp://host", "http://", "http://ho st/m", "https://host:0/m"])
def test_what_is_no_address_is_refused(base: str) -> None:
    with pytest.raises(InvalidSetting, match="no URL of a server"):
        addresses(base, "m")


@pytest.mark.parametrize("endpoint", ["nonsense://x", "http:// x"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidSetting, match="no URL of a server"):
        addresses("https://host/m", "m", endpoint)
    with pytest.raises(InvalidSetting, match="no URL of a server"):
        addresses("https://host/m", "m", "", endpoint)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("models/m", "models/m"),
        ("tunedModels/a", "tunedModels/a"),
        ("a b?c", "models/a%20b%3Fc"),
    ],
)
def test_a_model_has_its_path(model: str, path: str) -> None:
    assert model_path(model) == path
