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
    "ANTHROPIC_API_KEY_WORK": "canary",
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


@pytest.mark.parametrize("name", ["GENERIC_ENDPOINT", "OPENAI_BASE_URL", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT"])
@pytest.mark.parametrize(
    ("address", "passed"),
    [
        ("https://ada:canary@models.example/v1", "https://models.example/v1"),
        ("ada:canary@models.example", "models.example"),
        ("https://models.example/v1?key=canary", "https://models.example/v1"),
        ("https://models.example/v1#canary", "https://models.example/v1"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
    ],
)
def test_the_address_of_a_model_server_loses_its_login_and_its_keys(name: str, address: str, passed: str) -> None:
    base = {name: address, "OTHER_URL": "https://ada:own@example.org/?key=own", "ANTHROPIC_API_KEY_FILE": "/a"}
    assert child_environment(base=base) == base | {name: passed}
    assert child_environment(base=base, keep=[name]) == base


def test_what_the_program_sets_for_itself_stays_with_it() -> None:
    base = {"PATH": "/bin", "PYDANTIC_DISABLE_PLUGINS": "true"}
    assert child_environment(base=base) == {"PATH": "/bin"}
    of_the_user = {"PATH": "/bin", "PYDANTIC_DISABLE_PLUGINS": "some-plugin"}
    assert child_environment(base=of_the_user) == of_the_user
