from __future__ import annotations

import pytest

from aar.processes.environment import child_environment
from aar.processes.group import open_process

OURS = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "GITHUB_TOKEN": "the user's own",
    "ANTHROPIC_API_KEY": "canary",
    "OPENAI_API_KEY": "canary",
    "GEMINI_API_KEY": "canary",
    "GOOGLE_API_KEY": "canary",
    "GENERIC_API_KEY": "canary",
    "AZURE_OPENAI_API_KEY": "canary",
    "Some_Api_Key": "canary",
    "ANTHROPIC_AUTH_TOKEN": "canary",
    "HF_TOKEN": "canary",
    "AZURE_OPENAI_KEY": "canary",
    "OPENAI_KEY": "canary",
    "ANTHROPIC_KEY": "canary",
    "OPENAI_API_KEY_2": "canary",
    "OPENROUTER_TOKEN": "canary",
    "AAR_HTTP_TOKEN": "canary",
}


def test_model_keys_are_left_out_and_all_else_stays() -> None:
    assert child_environment(base=OURS) == {"PATH": "/bin", "HOME": "/home/ada", "GITHUB_TOKEN": "the user's own"}


def test_kept_names_stay_and_extra_ones_win() -> None:
    environment = child_environment(
        base=OURS, keep=["OPENAI_API_KEY"], extra={"HOME": "/tmp", "ANTHROPIC_API_KEY": "meant"}
    )
    assert environment == {
        "PATH": "/bin",
        "HOME": "/tmp",
        "GITHUB_TOKEN": "the user's own",
        "OPENAI_API_KEY": "canary",
        "ANTHROPIC_API_KEY": "meant",
    }


async def test_neither_the_command_nor_its_keeper_carries_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-4711")
    look = "env; tr '\\0' '\\n' </proc/$PPID/environ"
    async with open_process(["sh", "-c", look], cwd="/", env=child_environment()) as process:
        seen = b"".join([chunk async for chunk in process.stdout])
    assert seen.count(b"PATH=") >= 2
    assert b"canary-4711" not in seen


def test_the_address_of_a_model_server_loses_its_login() -> None:
    base = {"GENERIC_ENDPOINT": "https://ada:canary@models.example/v1", "OTHER": "https://ada:own@example.org"}
    assert child_environment(base=base) == base | {"GENERIC_ENDPOINT": "https://models.example/v1"}
    assert child_environment(base=base, keep=["GENERIC_ENDPOINT"]) == base
