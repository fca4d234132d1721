"""The whole full-screen interface over a scripted model, on a screen that tests can look at and type into."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import urwid
from urwid.testing import ScriptedScreen, render_runs

from aar.client import SessionHandle
from aar.config.themes import Themes
from aar.messages.settings import AgentConfig, ProviderConfig
from aar.messages.themes import Theme
from aar.testing import ScriptedProvider, open_test_runtime
from aar.transports.fullscreen.app import FullScreen
from aar.transports.fullscreen.leaving import Leaving
from aar.transports.program.opening import Conversation
from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import FULL_SCREEN, SlashCommands

__all__ = ["Glass", "Whole", "open_whole"]

PATIENCE = 60.0  # virtual seconds


class Glass(ScriptedScreen):
    """A screen in which a test types when it wants to."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__(size=size)
        self.typed: Callable[..., Any] | None = None
        self.drawn = trio.Event()

    def hook_event_loop(self, event_loop: Any, callback: Callable[..., Any]) -> None:
        self.typed = callback

    def unhook_event_loop(self, event_loop: Any) -> None:
        self.typed = None

    def draw_screen(self, size: tuple[int, int], canvas: urwid.Canvas) -> None:
        super().draw_screen(size, canvas)
        self.drawn.set()
        self.drawn = trio.Event()


class _Surface:
    def __init__(self, size: tuple[int, int]) -> None:
        self.screen = Glass(size)
        self.pastes: deque[str] = deque()
        self.codes: list[str] = []
        self.restored = 0

    async def send(self) -> None:
        await trio.lowlevel.checkpoint()

    def send_codes(self, codes: str) -> None:
        self.codes.append(codes)

    def restore(self) -> None:
        self.restored += 1

    async def watch(self, loop: urwid.MainLoop, redraw: Callable[[], None]) -> None:
        await trio.sleep_forever()


class Whole:
    """`lines` is what stands on the screen now."""

    def __init__(self, app: FullScreen, surface: _Surface, leaving: Leaving, commands: SlashCommands) -> None:
        self.app = app
        self.surface = surface
        self.leaving = leaving
        self.commands = commands

    @property
    def handle(self) -> SessionHandle:
        return self.commands.handle

    def press(self, *keys: Any) -> None:
        assert self.surface.screen.typed is not None
        self.surface.screen.typed(list(keys), [])
        self.app.redraw()

    def type(self, text: str) -> None:
        self.press(*("enter" if letter == "\n" else letter for letter in text))

    def send(self, text: str) -> None:
        self.type(text)
        self.press("ctrl s")

    def paste(self, text: str) -> None:
        self.surface.pastes.append(text)
        self.press("begin paste", "end paste")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.surface.screen.last_text]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, *texts: str, gone: str = "") -> None:
        """Wait until all of these are seen, and that is not."""
        screen = self.surface.screen
        with trio.move_on_after(PATIENCE):
            while not screen.canvases or not all(text in self.text for text in texts) or (gone and gone in self.text):
                await screen.drawn.wait()
            return
        raise AssertionError(f"never seen: {texts}, gone {gone!r}. On the screen:\n{self.text}")

    async def frame(self) -> list[str]:
        """What stands there after the next frame."""
        self.app.redraw()
        await self.surface.screen.drawn.wait()
        return self.lines

    def styles_of(self, text: str) -> set[str]:
        """The names of the styles of all runs that contain this text."""
        found = set[str]()
        for row in self.surface.screen.canvases[-1].content():
            for style, _, run in row:
                if text in run.decode():
                    found |= {str(layer) for layer in getattr(style, "layers", [style])}
        return found


@asynccontextmanager
async def open_whole(
    home: Path,
    provider: ScriptedProvider | None = None,
    config: AgentConfig | None = None,
    *,
    size: tuple[int, int] = (110, 34),
    theme: Theme | None = None,
    session_id: str = "",
    tools: tuple[Any, ...] = (),
    **more: Any,
) -> AsyncIterator[Whole]:
    """`session_id` goes on with a stored one; further arguments are those of `FullScreen` or `open_test_runtime`."""
    mine = {name: more.pop(name) for name in ("verbose", "says_yes", "layout", "typed", "keys") if name in more}
    folder = home / "project"
    folder.mkdir(parents=True, exist_ok=True)
    model = ProviderConfig(name="scripted", model="scripted")
    config = config or AgentConfig(streaming=True, provider=model)
    async with open_test_runtime(provider, config, home=home, **more) as runtime, trio.open_nursery() as nursery:
        sessions = runtime.sessions
        handle = await (sessions.load(session_id) if session_id else sessions.open(str(folder), tools=tools))
        conversation = Conversation(sessions, handle, config)
        conversation.is_new = not session_id
        themes = Themes(home)
        commands = SlashCommands(
            conversation, (*FULL_SCREEN, *SESSION), themes=themes, theme=theme or themes.get("contrast")
        )
        leaving, surface = Leaving(nursery.cancel_scope), _Surface(size)
        app = FullScreen(commands, surface, leaving, **mine)
        nursery.start_soon(app.run)
        whole = Whole(app, surface, leaving, commands)
        await whole.until()
        yield whole
        leaving.leave()


def runs_of(widget: urwid.Widget, size: tuple[int, int]) -> list[list[tuple[Any, str]]]:
    return render_runs(widget, size)
