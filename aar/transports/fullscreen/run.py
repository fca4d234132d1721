"""`aar tui --fixed`, from its settings to its exit code."""

from __future__ import annotations

import trio

from aar.config import Loaded
from aar.config.themes import Themes
from aar.transports.fullscreen.app import FullScreen
from aar.transports.fullscreen.keys import Keys
from aar.transports.fullscreen.leaving import open_leaving
from aar.transports.fullscreen.terminal import Terminal
from aar.transports.program.exits import DONE, complain
from aar.transports.program.flags import Flags
from aar.transports.program.home import home_folder
from aar.transports.program.opening import open_conversation
from aar.transports.program.screen import Screen
from aar.transports.terminal.history_file import history_file
from aar.transports.terminal.layout import layout_of
from aar.transports.terminal.session_commands import SESSION
from aar.transports.terminal.slash import FULL_SCREEN, SlashCommands

__all__ = ["run_fullscreen"]


async def run_fullscreen(loaded: Loaded, flags: Flags) -> int:
    """Take the terminal, which standard input and output must be, until the user leaves; gives the exit code.

    The theme is that of the settings.
    """
    themes = Themes(home_folder())
    theme, why_another = await trio.to_thread.run_sync(themes.get_or_default, loaded.config.tui.theme)
    layout = layout_of(loaded.config.tui.layout)
    for problem in (*layout.problems, *filter(None, [why_another])):
        complain(problem)
    screen = Screen(out=1, err=1)
    async with open_leaving() as leaving, open_conversation(loaded, flags, screen) as conversation:
        commands = SlashCommands(conversation, (*FULL_SCREEN, *SESSION), themes=themes, theme=theme)
        app = FullScreen(
            commands,
            Terminal(),
            leaving,
            verbose=flags.verbose,
            says_yes=flags.says_yes,
            layout=layout,
            typed=history_file(commands.config),
            keys=Keys(loaded.config.tui),
        )
        try:
            await app.run()
        finally:
            if not conversation.is_blank:
                screen.tell_nowait(f"Session saved: {conversation.handle.session_id}\n")
    return DONE if leaving.code is None else leaving.code
