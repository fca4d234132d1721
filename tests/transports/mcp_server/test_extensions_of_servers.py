"""A guard of the user's holds wherever tasks come from."""

from __future__ import annotations

from typing import Any

from tests.transports.cli.conftest import Model, Place, flags, model, place, started
from tests.transports.mcp_server.test_mcp_command import called, client

__all__ = ["client", "flags", "model", "place", "started"]

GUARD = """
def register(api):
    @api.on("tool_call")
    def never(call, ctx):
        return api.block("not in my house")
"""


async def test_another_agents_task_meets_the_users_guards(client: Any, model: Model, place: Place) -> None:
    (place.home / "extensions").mkdir(parents=True)
    (place.home / "extensions" / "guard.py").write_text(GUARD)
    model.calls("write_file", path="a.txt", content="hi").says("I may not.")
    async with client("--yes") as agent:
        assert (await called(agent, "prompt", text="write"))["answer"] == "I may not."
    assert "not in my house" in str(model.requests[-1]["messages"][-1]["content"])
    assert not (place.project / "a.txt").exists()
