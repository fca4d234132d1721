"""`aar init`: a user folder with everything in it, ready to be edited."""

from __future__ import annotations

import trio

from aar.config.starter import write_starter_files
from aar.errors import ConfigError
from aar.transports.cli.look import look_for
from aar.transports.program.exits import DONE, FAILED, complain, run_to_code
from aar.transports.program.home import home_folder
from aar.transports.program.screen import Screen

__all__ = ["init"]

NEXT_STEPS = """
Next steps:
  1. Name your server and model under `provider` in {home}/config.json, for example
     "provider": {{"name": "generic", "base_url": "http://localhost:8000/v1", "model": "NAME"}}
  2. Give its key, if it wants one, in the environment: GENERIC_API_KEY. For Claude, OpenAI and Gemini nothing else
     is needed: ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.
  3. Without an account: start Ollama, LM Studio, llama.cpp or vLLM, and Aar finds it; or run `aar local install`.
  4. Look at what tools may do: `safety` in config.json, and `aar tools`.
  5. Say what holds for all your projects in {home}/rules.md; for one project in its .agent/rules.md.
  6. See every setting, and where it comes from: `aar config`.
  7. Prices of further models: copy pricing.template.json to pricing.json.
  8. Try it: aar run "What is in this folder?"

Tip: `aar prompt --layers` shows what the system prompt is made of.
"""


def init(*, force: bool) -> int:
    """Write a config file, rules, themes and examples into ~/.aar."""

    async def work() -> int:
        screen = Screen()
        look = look_for(screen, is_terminal=screen.out_is_terminal)
        home = home_folder()
        try:
            written = await trio.to_thread.run_sync(lambda: write_starter_files(home, force=force))
        except ConfigError as error:
            complain(f"{error} Allow this user to write there, or name another folder in AAR_HOME.")
            return FAILED
        for path, was_created in written:
            if was_created:
                await screen.say(look.styled(f"Created: {path}", "green") + "\n")
            else:
                text = f"Warning: {path} already exists — skipping (use --force to overwrite)"
                await screen.say(look.styled(text, "yellow") + "\n")
        if any(was_created for _, was_created in written):
            await screen.say(NEXT_STEPS.format(home=home))
        if not all(was_created for _, was_created in written):
            await screen.say("\nRun `aar init --force` to overwrite what was skipped.\n")
        return DONE

    return run_to_code(work)
