"""The agents and modes that the documentation shows are read and switched to."""

from __future__ import annotations

import re
from pathlib import Path

from aar.config.agents import Facts, Home, load, switched, whole
from aar.config.agents.entities import _KEYS
from aar.messages.settings import AgentConfig
from aar.roles import filled_command

PAGE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```markdown (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_of_the_page_works(home, write):
    files = FILE.findall(PAGE)
    for name, text in files:
        write(f"home/{name}", text)
    library = load({"agents", "modes", "commands"}, [Home(home)])
    assert sorted([*library.agents, *library.modes]) == ["base", "careful", "eyes", "fast", "plan", "reviewer"]
    configs = {
        name: switched(AgentConfig(), whole(library.agents, name), whole(library.modes, "plan"), Facts("/w")).config
        for name in library.agents
    }
    assert configs["fast"].resolve_provider().label == "generic/small"
    assert configs["careful"].safety.deny == ["bash:git push*"]
    assert filled_command(library.commands, "Review", "a 'b c'", "/w") == "Review a, then b c."
    assert filled_command(library.commands, "review", "it's", "/w") == "Review it's."
    assert filled_command(library.commands, "review", "", "/w") == "Review what has changed."
    assert configs["reviewer"].prompts["agent"].startswith("You review changes in /w.")
    assert configs["reviewer"].tools.filters["mode"] == ["!write_file", "!edit_file", "!bash"]


def test_every_key_is_in_the_table():
    told = {}
    for row in re.findall(r"^\| (.*?) \| (yes|no) \|", PAGE, re.MULTILINE):
        told.update({word.split(".")[0]: row[1] for word in re.findall(r"`([^`]+)`", row[0])})
    assert sorted(told) == sorted(_KEYS["agent"])
    assert sorted(key for key, answer in told.items() if answer == "yes") == sorted(_KEYS["mode"])
