"""What people attach obeys the denied paths: they may choose files elsewhere, and no key or password by accident."""

from __future__ import annotations

import pytest

from aar.attachments import attach
from aar.messages.settings import AgentConfig
from aar.runtime import reading_rule
from aar.testing import ScriptedProvider


@pytest.mark.covers("SAFE-26")
@pytest.mark.parametrize("name", [".env.local", "secrets/key.pem", "link.txt"])
def test_a_file_that_the_rules_forbid_is_not_attached(tmp_path, name) -> None:
    folder = tmp_path / "project"
    (folder / "secrets").mkdir(parents=True)
    for forbidden in (folder / ".env.local", folder / "secrets" / "key.pem"):
        forbidden.write_text("the password is swordfish", encoding="utf-8")
    (folder / "link.txt").symlink_to(folder / "secrets" / "key.pem")
    attached = attach(f"look at @{name}", str(folder), reading_rule(AgentConfig(), str(folder)))
    assert isinstance(attached, str)
    assert attached.startswith("look at\n[Attachment errors: ")
    assert "swordfish" not in attached


def test_a_file_of_the_folder_is_attached(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk", encoding="utf-8")
    attached = attach("look at @notes.txt", str(tmp_path), reading_rule(AgentConfig(), str(tmp_path)))
    assert not isinstance(attached, str)
    assert "remember the milk" in attached[0].text


@pytest.mark.parametrize("target", [".env", "secrets/key.md"])
async def test_rules_of_a_project_carry_no_denied_file_to_a_model(tmp_path, live, target) -> None:
    folder = tmp_path / "project"
    (folder / ".agent" / "rules.d").mkdir(parents=True)
    (folder / "secrets").mkdir()
    (folder / target).write_text("the password is swordfish", encoding="utf-8")
    (folder / ".agent" / "rules.md").symlink_to(f"../{target}")
    (folder / ".agent" / "rules.d" / "fine.md").write_text("Be kind.", encoding="utf-8")
    provider = ScriptedProvider().text("hello")
    async with live(provider, cwd=folder) as session:
        await session.prompt("go")
    assert provider.requests[0].system.endswith("Be kind.")
    assert "swordfish" not in provider.requests[0].system
