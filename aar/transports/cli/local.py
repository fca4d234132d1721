"""`aar local`: the model that Aar runs itself."""

from __future__ import annotations

import os

from aar.config import Loaded
from aar.display import plain
from aar.local import SMALL_MODEL_REMARK, find_model, install_model, installed_models
from aar.transports.cli.signals import open_interrupts
from aar.transports.program.exits import DONE, run_to_code
from aar.transports.program.flags import LogFlags
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen
from aar.transports.program.settings import loaded_settings

__all__ = ["install", "status"]


NAMED = "A run without flags uses {model}: the config file names it."
NOTHING_FOUND = "No key in the environment and no running model server was found."


def install() -> int:
    """Fetch the small model into ~/.aar/models."""

    async def work() -> int:
        screen = Screen()
        async with open_interrupts() as interrupts:
            installed = await install_model(home_folder(), lambda line: screen.tell_nowait(f"{plain(line)}\n"))
            done = "Fetched" if installed.fetched else "Already there"
            await screen.say(f"{done}: {installed.path}\n{SMALL_MODEL_REMARK}\n")
            await screen.say('Try it: aar run --provider local "Create hello.txt containing hi"\n')
        return interrupts.code or DONE

    return run_to_code(work)


def status(*, flags: LogFlags) -> int:
    """Show the installed models, and which model a run without flags would use."""

    async def work() -> int:
        screen = Screen()
        files = installed_models(home_folder() / "models")
        for file in files:
            await screen.say(f"  {plain(file.name)}  {file.stat().st_size / 1_000_000:.0f} MB\n")
        if files:
            await screen.say("Use one with: aar run --provider local --model FILE.gguf\n")
        else:
            await screen.say("No model is installed: `aar local install` fetches a small one.\n")
        await screen.say(plain("\n  ".join(await _in_use(loaded_settings(flags)))) + "\n")
        return DONE

    return run_to_code(work)


async def _in_use(loaded: Loaded) -> list[str]:
    """What a run without flags would use: the model of the settings, else what is found here."""
    if loaded.provider_was_chosen:
        return [NAMED.format(model=loaded.config.resolve_provider().label)]
    found = await find_model(os.environ)
    remarks = [*found.remarks, *([] if found.provider else [NOTHING_FOUND])]
    return ["When neither a flag nor the config file names a provider:", *remarks]
