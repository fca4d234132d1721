"""What a running session may be told of settings: never a secret, since its journal would keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aar.errors import InvalidSetting
from aar.messages.settings import AgentConfig
from aar.testing import ScriptedProvider, facts_of, open_test_runtime


@pytest.mark.parametrize(
    "provider",
    [
        {"api_key": "sk-of-mine"},
        {"base_url": "https://me:pass-word@example.org/v1"},
        {"extra": {"extra_headers": {"x-api-key": "sk-of-mine"}}},
        {"extra": {"auth": {"token": "sk-of-mine"}}},
    ],
    ids=["key", "login", "header", "token"],
)
async def test_a_secret_is_refused_and_stands_in_no_fact(tmp_path: Path, provider: dict[str, Any]) -> None:
    config = AgentConfig(tools={"enabled_builtins": []})  # type: ignore[arg-type]
    async with open_test_runtime(ScriptedProvider(), config, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        before = facts_of(session)
        with pytest.raises(InvalidSetting, match="keys are not changed in a running session"):
            await session.configure({"provider": provider})
        assert facts_of(session) == before
