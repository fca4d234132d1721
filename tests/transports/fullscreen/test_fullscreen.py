"""The whole interface: keys in, screen text out."""

from __future__ import annotations

import pytest

from aar.testing import ScriptedProvider
from tests.transports.fullscreen.whole import open_whole

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_prompt_is_answered_on_the_screen(tmp_path) -> None:
    async with open_whole(tmp_path, ScriptedProvider().text("**Good** day", chunks=4).usage(10, 5)) as whole:
        whole.send("hello")
        await whole.until("> hello", "Good day", "completed", "tokens: 10in / 5out")
