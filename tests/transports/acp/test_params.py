"""What the parameters of a request must be."""

from __future__ import annotations

import pytest
import trio

from aar.transports.acp.frames import RpcError
from aar.transports.acp.params import folder_of


async def test_a_disk_that_does_not_answer_has_no_folders(monkeypatch, tmp_path):
    monkeypatch.setattr("aar.transports.acp.params.LOOKING_TIMEOUT", 0.05)
    threads = trio.CapacityLimiter(1)
    threads.acquire_on_behalf_of_nowait("a look at that disk which never comes back")
    with pytest.raises(RpcError, match="did not answer"):
        await folder_of({"cwd": str(tmp_path)}, threads)


@pytest.mark.parametrize("cwd", [None, "", 7, "relative", "~", "/no\0thing", "/\ud800", "/" + "x" * 5000, __file__])
async def test_a_folder_is_absolute_and_there(cwd):
    with pytest.raises(RpcError) as caught:
        await folder_of({"cwd": cwd}, trio.CapacityLimiter(1))
    assert caught.value.code == -32602


async def test_a_folder_may_have_any_name(tmp_path):
    for name in ("with space", "línea", "new\nline", "\udcff"):
        (tmp_path / name).mkdir()
        assert await folder_of({"cwd": str(tmp_path / name)}, trio.CapacityLimiter(1)) == str(tmp_path / name)
