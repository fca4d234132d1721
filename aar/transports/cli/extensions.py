"""`aar extensions` and `aar install`: what there is, what it brings, what may run, and getting more of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from aar.config import merge_config
from aar.display import one_line, plain
from aar.extensions.finding import Found
from aar.extensions.installing import install_package
from aar.extensions.loading import Loaded
from aar.extensions.looking import Listed, Places, chosen_source, inspect_extension, list_extensions, trust
from aar.extensions.sources import Source
from aar.extensions.trust import TrustFile
from aar.transports.cli.lines import Lines
from aar.transports.cli.look import look_for
from aar.transports.cli.signals import open_interrupts
from aar.transports.program.exits import DONE, FAILED, run_to_code
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen
from aar.transports.program.settings import here

__all__ = ["inspect", "install", "listing", "trust_them"]

TITLE = "Discovered Extensions"
SHOWN_FILES = 50  # of one extension


def listing(*, user_dir: Path | None, project_dir: Path | None) -> int:
    """List the extensions, those that win last. Nothing of them runs."""

    async def work() -> int:
        screen = Screen()
        home = home_folder()
        wanted = merge_config().config.extensions.builtin
        places = Places(home, here(), user_dir, project_dir, wanted)
        listed = await trio.to_thread.run_sync(list_extensions, places, abandon_on_cancel=True)
        await screen.say(_table(listed) if listed else "No extensions found.\n")
        return DONE

    return run_to_code(work)


def _table(listed: Sequence[Listed]) -> str:
    rows = [("Name", "Source", "State", "Path")]
    rows += [(one_line(one.found.name), one.found.source, plain(one.state), one_line(one.found.path)) for one in listed]
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], wide, strict=True)), row[3]]) for row in rows
    ]
    return "\n".join([TITLE, *(f"  {line}" for line in lines), ""])


def inspect(name: str, *, user_dir: Path | None, project_dir: Path | None) -> int:
    """Load one extension and show what it brings."""

    async def work() -> int:
        screen = Screen()
        loaded = await inspect_extension(Places(home_folder(), here(), user_dir, project_dir), name)
        await screen.say(_description(loaded))
        return DONE

    return run_to_code(work)


def _description(loaded: Loaded) -> str:
    api = loaded.api
    assert api is not None  # `inspect_extension` has raised otherwise
    lines = [one_line(loaded.found.name), f"  Source: {loaded.found.source}", f"  Path: {one_line(loaded.found.path)}"]
    lines += _section("Hooks", [f"{event} ({len(handlers)})" for event, handlers in api.hooks.items()])
    lines += _section("Tools", [f"{tool.name}  {one_line(tool.description)}".rstrip() for tool in api.tools])
    lines += _section("Commands", [f"/{one.name}  {one_line(one.description)}".rstrip() for one in api.commands])
    if api.injectors:
        lines += _section("Injectors", [f"{one.timing}  {one.preamble['name']}" for one in api.injectors])
    lines += _section("Panels", [one.name for one in api.panels]) if api.panels else []
    lines += [f"  Prompt parts: {len(api.prompt)}"]
    return plain("\n".join(lines)) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {line}" for line in lines)] if lines else [f"  {title}: none"]


# --- trust ------------------------------------------------------------------------------------


def trust_them(names: Sequence[str], *, says_yes: bool, revoke: bool) -> int:
    """Let extensions of this project run, as their files are now, or no longer."""

    async def work() -> int:
        screen = Screen()
        places = Places(home_folder(), here())
        entries = [await trio.to_thread.run_sync(chosen_source, places, name, abandon_on_cancel=True) for name in names]
        if revoke:
            return await _revoke(screen, places, [found for found, _ in entries])
        await screen.tell("".join(_contents(found, source) for found, source in entries))
        if not await _agrees(screen, says_yes=says_yes):
            await screen.tell("Nothing is trusted.\n")
            return FAILED
        await trio.to_thread.run_sync(trust, places, entries)
        await screen.say(f"Trusted until a file of it changes: {', '.join(names)}\n")
        return DONE

    return run_to_code(work)


def _contents(found: Found, source: Source) -> str:
    """The very files that are trusted, for whoever is asked."""
    head = f"{one_line(found.name)}  {one_line(found.path)}  (SHA-256 {source.digest[:16]}…)\n"
    files = sorted((name, data) for name, data in source.files.items() if name)
    lines = [f"  {one_line(name)}  {len(data)} bytes\n" for name, data in files[:SHOWN_FILES]]
    more = len(files) - SHOWN_FILES
    return head + "".join(lines) + (f"  and {more} more files\n" if more > 0 else "")


async def _agrees(screen: Screen, *, says_yes: bool) -> bool:
    if says_yes:
        return True
    lines = Lines()
    if not (lines.is_terminal and screen.err_is_terminal):
        await screen.tell("Nobody is here to ask: add --yes when you have read it.\n")
        return False
    await screen.tell("This code will run with your rights. Trust it? [y]es / [n]o: ")
    answer = await lines.read()
    screen.typed_newline()
    return (answer or "").strip().lower() in ("y", "yes")


async def _revoke(screen: Screen, places: Places, extensions: Sequence[Found]) -> int:
    for found in extensions:
        was = await trio.to_thread.run_sync(TrustFile(places.home).remove, found)
        name = one_line(found.name)
        await screen.say(f"{name} is trusted no longer.\n" if was else f"{name} was not trusted.\n")
    return DONE


# --- more of it -------------------------------------------------------------------------------


def install(package: str) -> int:
    """Install a package with the pip of the Python that runs Aar."""

    async def work() -> int:
        screen = Screen()
        look = look_for(screen, is_terminal=screen.err_is_terminal)
        async with open_interrupts() as interrupts:
            await screen.tell(f"Installing {plain(package)} ...\n")
            names = await install_package(package, here())
            if names:
                text, style = f"Installed. It brings the extension {', '.join(names)}.", "green"
            else:
                text, style = f"Installed, but {package} brings no extension of Aar.", "yellow"
            await screen.tell(look.styled(plain(text), style) + "\n")
        return interrupts.code or DONE

    return run_to_code(work)
