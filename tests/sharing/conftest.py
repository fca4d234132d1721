"""A session that is shared, and clients that attach to it over its real socket. Time is virtual."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from aar.handle import SessionHandle
from aar.runtime import SHARED_AFTER, Runtime
from aar.sharing.attaching import Attached, attached
from aar.sharing.frames import VERSION, Frame, FrameReader, frame
from aar.sharing.places import connected
from aar.testing import ScriptedProvider, open_test_runtime


@dataclass
class House:
    """The owner's process, as far as clients are concerned."""

    runtime: Runtime
    home: Path
    session: SessionHandle

    def attached(self, session: SessionHandle | None = None, **more: Any) -> Any:
        """`async with house.attached() as client`: what `aar attach` has."""

        @asynccontextmanager
        async def attach() -> AsyncIterator[Attached]:
            async with attached(self.home, (session or self.session).session_id, **more) as client:
                yield client

        return attach()

    def raw(self) -> Raw:
        found = connected(self.home, self.session.session_id)
        assert found is not None
        return Raw(trio.SocketStream(trio.socket.from_stdlib_socket(found)), self.session.session_id)


class Raw:
    """A client that sends whatever it likes."""

    def __init__(self, stream: trio.SocketStream, session_id: str) -> None:
        self.stream = stream
        self.session_id = session_id
        self.reader = FrameReader(stream, most_bytes=2**30)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def read(self) -> Frame | None:
        return await self.reader.read()

    async def read_until(self, *kinds: str) -> Frame:
        while (found := await self.read()) is not None:
            if found.type in kinds:
                return found
        raise AssertionError(f"there was no {' or '.join(kinds)}")

    async def is_given_up(self) -> bool:
        """Whether the owner has closed the connection; what it had sent before is passed over."""
        try:
            while await self.read() is not None:
                pass
        except trio.BrokenResourceError:
            return True
        return True

    async def greet(self, **changed: Any) -> Frame:
        await self.send(frame("hello", **{"version": VERSION, "session_id": self.session_id, **changed}))
        found = await self.read()
        assert found is not None
        return found


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., Any]:
    """`async with house(provider, config) as house`: one session in a new folder, which can be attached to."""

    @asynccontextmanager
    async def open_house(provider: ScriptedProvider | None = None, config: Any = None) -> AsyncIterator[House]:
        folder, home = tmp_path / "project", tmp_path / "home"
        folder.mkdir(exist_ok=True)
        async with open_test_runtime(provider, config, home=home, share=True) as runtime:
            session = await runtime.sessions.open(str(folder))
            await trio.sleep(SHARED_AFTER * 2)
            yield House(runtime, home, session)

    return open_house
