"""The log of a user who wants to know which commands ran, and what a log says of a turn that failed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from aar.messages.settings import AgentConfig, ProviderConfig, SafetyConfig
from aar.runtime import open_runtime
from aar.testing import ScriptedProvider

FREE = {"require_approval_for_execute": False, "allowed_paths": []}


async def audited(live: Callable[..., Any], caplog: pytest.LogCaptureFixture, **safety: Any) -> list[str]:
    caplog.set_level(logging.INFO)
    model = ScriptedProvider().call("bash", command="echo --token abc123 done").call("list_directory").text("Done.")
    config = AgentConfig(safety=SafetyConfig.model_validate(safety))
    async with live(model, config) as session:
        await session.prompt("Go.")
    return [record.getMessage() for record in caplog.records if "audit" in record.getMessage()]


@pytest.mark.covers("SAFE-22")
async def test_a_command_that_runs_is_logged_without_its_secrets(
    live: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    said = await audited(live, caplog, log_all_commands=True, **FREE)
    assert said == ["Command audit: echo --token ***REDACTED*** done"]


async def test_commands_are_not_logged_unless_asked_for(
    live: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert await audited(live, caplog, **FREE) == []


async def test_a_command_that_was_not_allowed_is_not_logged(
    live: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert await audited(live, caplog, log_all_commands=True) == []


async def test_a_failure_that_people_can_mend_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    config = AgentConfig(provider=ProviderConfig(name="nobody", model="m"))
    async with open_runtime(config, home=tmp_path) as runtime:
        session = await runtime.sessions.open(str(tmp_path))
        assert (await session.prompt("Hi")).stop == "error"
    said = [record for record in caplog.records if record.name == "aar.actors.session"]
    assert [record for record in said if record.exc_info or record.levelno >= logging.WARNING] == []
