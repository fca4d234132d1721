from __future__ import annotations

import io
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from cyclopts import UnknownOptionError

from aar.__main__ import main
from aar.transports.cli.app import GROUPS, build_app
from aar.transports.cli.help import FOLDER, prepared_text
from aar.transports.cli.write_help import help_texts
from aar.transports.program.flags import Flags, LogFlags, LogLevel, PromptFlags, SettingFlags

NEEDED = {
    "run": ["task"],
    "sessions show": ["id"],
    "sessions export": ["id"],
    "sessions rename": ["id", "name"],
    "sessions fork": ["id"],
    "sessions delete": ["id"],
    "tasks run": ["x"],
    "extensions inspect": ["x"],
    "extensions trust": ["x"],
    "install": ["x"],
    **{f"{role} {command}": ["x"] for role in ("agents", "modes") for command in ("show", "trust")},
}
EVERYWHERE = ["--config=f", "--log-level=DEBUG", "--log-file=f"]
ROLES = ["--agent=a", "--mode=m", "--override=a=b", "--set=a=b", "--homes=d"]
MODEL = [*ROLES, "--model=m", "-m", "m", "--provider=p", "-p", "p"]
WORK = ["--base-url=u", "--api-key=k", "--max-steps=3"]
SESSION = ["--session=s", "-s", "s", "--continue", "-c", "--verbose", "-v"]
SAFETY = ["--read-only", "--no-read-only", "--require-approval", "--no-require-approval", "--yes", "-y"]
PATHS = ["--restrict-to-cwd", "--no-restrict-to-cwd", "--denied-paths=a", "--allowed-paths=a"]
DISTRO = ["--distro=n", "-d=n", "--rootfs-url=u", "--packages=a,b"]
ACCEPTED = {
    "run": [*MODEL, *WORK, *SESSION, *SAFETY, *PATHS, *EVERYWHERE, "--output=json", "--output=stream-json"],
    "chat": [*MODEL, *WORK, *SESSION, *SAFETY, *PATHS, *EVERYWHERE],
    "tui": [*MODEL, *WORK, *SESSION, *SAFETY, *PATHS, *EVERYWHERE, "--theme=x", "-t", "x", "--fixed"],
    "attach": [*EVERYWHERE, "--verbose", "-v"],
    "acp": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE],
    "mcp": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE],
    "serve": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE, "--allow-loosening"],
    "sessions list": EVERYWHERE,
    "sessions show": EVERYWHERE,
    "sessions export": [*EVERYWHERE, "--format=json", "--to=f"],
    "sessions rename": EVERYWHERE,
    "sessions fork": [*EVERYWHERE, "--at=2"],
    "sessions delete": EVERYWHERE,
    "tasks list": [*EVERYWHERE, "--file=f"],
    "tasks run": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE, "--file=f"],
    "tasks watch": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE, "--file=f", "--at-once=3"],
    "tools": [*MODEL, *SAFETY, *EVERYWHERE],
    **{
        f"{role} {command}": [*MODEL, *SAFETY, *EVERYWHERE]
        for role in ("agents", "modes")
        for command in ("list", "show", "trust")
    },
    "prompt": [*MODEL, *SAFETY, *EVERYWHERE, "--raw", "--layers"],
    "config": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE, "--print-env"],
    "models": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE, "--output=json"],
    "init": ["--force", "-f"],
    "local install": [],
    "local status": EVERYWHERE,
    "sandbox setup": [*EVERYWHERE, *DISTRO, "--install-path=d", "--force"],
    "sandbox status": [*EVERYWHERE, "--distro=n", "-d=n"],
    "sandbox reset": [*EVERYWHERE, *DISTRO, "--yes", "-y"],
    "extensions list": ["--user-dir=d", "--project-dir=d"],
    "extensions inspect": ["--user-dir=d", "--project-dir=d"],
    "extensions trust": ["--yes", "-y", "--revoke"],
    "install": [],
    "version": [],
}


def parse(*words: str) -> dict[str, Any]:
    """What the command would be called with."""
    _, bound, _ = build_app().parse_args(words)
    return bound.arguments


@pytest.mark.covers("CLI-02")
@pytest.mark.parametrize("words", ACCEPTED)
def test_each_command_takes_its_flags_and_no_others(words):
    given = [*words.split(), *NEEDED.get(words, [])]
    taken = ACCEPTED[words]
    parse(*given, *taken)
    known = {flag.partition("=")[0] for flag in taken}
    flags = {flag for group in ACCEPTED.values() for flag in group if flag.startswith("--")}
    unknown = sorted(flag for flag in flags if flag.partition("=")[0] not in known)
    command = reduce(lambda app, word: app[word], words.split(), build_app()).assemble_argument_collection()
    for flag in unknown:
        with pytest.raises(ValueError, match="No Argument matches"):
            command.match(flag.partition("=")[0])
    for flag in ("--nonsense", *unknown[:1]):
        with pytest.raises(UnknownOptionError):
            parse(*given, flag)


def test_every_command_is_known_here():
    commands = {file.stem for file in Path(FOLDER).glob("*.txt")} - {"aar", *GROUPS}
    assert commands == {words.replace(" ", "-") for words in ACCEPTED}


@pytest.mark.parametrize("flags", [LogFlags, PromptFlags, SettingFlags, Flags])
def test_flags_that_are_not_given_leave_everything_to_the_file(flags):
    assert parse("chat") == {}
    assert {name for name, value in flags().settings().items() if value is not None} == set()


def test_flags_lead_to_settings():
    line = "run hi -m m -p p --max-steps 3 --log-level INFO --yes --no-read-only --denied-paths a,b"
    flags = parse(*line.split())
    assert {name: value for name, value in flags["flags"].settings().items() if value is not None} == {
        "model": "m",
        "provider": "p",
        "max_steps": 3,
        "log_level": "info",
        "require_approval": False,
        "read_only": False,
        "denied_paths": ["a", "b"],
    }


def test_flags_and_words_may_come_in_any_order():
    assert parse("run", "-y", "fix", "--model", "m", "the", "bug", "-v") == {
        "task": ("fix", "the", "bug"),
        "flags": Flags(model="m", yes=True, verbose=True),
    }
    assert parse("run", "--", "--help", "-x") == {"task": ("--help", "-x")}
    assert parse("run", "-", "-y") == {"stdin": True, "flags": Flags(yes=True)}
    assert parse("run", "--", "-") == {"task": ("-",)}


def test_the_last_flag_counts():
    assert parse("chat", "-m", "a", "--read-only", "--model=b", "--no-read-only", "--log-level", "debug") == {
        "flags": Flags(model="b", read_only=False, log_level=LogLevel.DEBUG)
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("runn", 'Unknown command "runn". Did you mean "run"? Available commands: run, chat, '),
        ("frobnicate", 'Unknown command "frobnicate". Available commands: run, chat, '),
        ("nosuch --help", 'Unknown command "nosuch". Available commands: run, chat, '),
        (
            "sessions shw x",
            'Unknown command "shw". Did you mean "show"? Available commands: list, show, export, rename, fork, delete. '
            "See `aar sessions --help`.",
        ),
        ("--yes run x", "Flags come after the command, as in `aar run --yes`. See `aar --help`."),
        ("run x --foo", "Unknown option: --foo. See `aar run --help`."),
        ("run x --modle m", "Unknown option: --modle. Did you mean --model? See `aar run --help`."),
        ("-h", "Unknown option: -h. There are --help and --version. See `aar --help`."),
        ("--versoin", "Unknown option: --versoin. There are --help and --version. See `aar --help`."),
        ("help nosuch", 'Unknown command "nosuch". Available commands: run, chat, '),
        ("run -h", "-h is no flag here. See `aar run --help`."),
        ("run x --model", "aar: --model needs a value: --model NAME. See `aar run --help`."),
        ("run x -m --yes", "aar: -m needs a value: -m NAME. See `aar run --help`."),
        ("run x --yes=maybe", "aar: --yes takes no value: leave out 'maybe'. See `aar run --help`."),
        ("run x --max-steps many", "Invalid value for --max-steps: it needs a whole number, and 'many' is none. See"),
        ("run x --max-steps 1.5", "Invalid value for --max-steps: it needs a whole number, and '1.5' is none. See"),
        ("run x --max-steps 0", "max_steps: Input should be greater than or equal to 1, but found 0."),
        ("run x --output xml", 'Invalid value "xml" for --output. Choose from: "text", "json", "stream-json". See'),
        ("run x --log-level loud", 'Invalid value "loud" for --log-level. Choose from: "debug", "info", "warning", '),
        ("run", "Nothing to do: give a task, as in `aar run "),
        ("run x -", "`-` reads the task from standard input: leave out the other words, or put all of them in quotes."),
        ("chat -c -s 1", "--session and --continue name two sessions: give one of them."),
        ("tools x", "There is nothing to do with 'x'. See `aar tools --help`."),
        (
            "sessions x",
            'Unknown command "x". Available commands: list, show, export, rename, fork, delete. '
            "See `aar sessions --help`.",
        ),
        (
            "sessions show",
            "aar: Which session? Give its id: `aar sessions` lists them. See `aar sessions show --help`.",
        ),
        (
            "sessions delete",
            "aar: Which session? Give its id: `aar sessions` lists them. See `aar sessions delete --help`.",
        ),
        (
            "extensions inspect",
            "aar: Which extension? Give its name: `aar extensions` lists them. See `aar extensions inspect --help`.",
        ),
        (
            "extensions trust",
            "aar: Which extension? Give its name: `aar extensions` lists them. See `aar extensions trust --help`.",
        ),
        ("install", "aar: Which package? See `aar install --help`."),
    ],
)
def test_a_mistake_is_one_line_that_names_the_flag_and_the_fix(here, line, text):
    done = here(*line.split())
    assert (done.code, done.out, done.err.count("\n"), done.err.startswith("aar: ")) == (2, "", 1, True)
    assert text in done.err


async def test_a_mistake_ends_the_program_with_2(aar):
    done = await aar("run", "x", "--foo")
    assert (done.code, done.out, done.err) == (2, "", "aar: Unknown option: --foo. See `aar run --help`.\n")
    done = await aar("run", "-", stdin=" \n")
    assert (done.code, done.err) == (2, "aar: The task is empty.\n")


# --- help -------------------------------------------------------------------------------------


def test_the_help_texts_are_those_of_the_flags():
    """When this fails: python -m aar.transports.cli.write_help"""
    written = {file.stem: file.read_text() for file in Path(FOLDER).glob("*.txt")}
    assert written == {(words or "aar").replace(" ", "-"): text for words, text in help_texts().items()}


@pytest.mark.covers("CLI-01")
def test_help_lists_every_command_and_every_command_has_help():
    overview = prepared_text([])
    assert overview is not None
    assert overview == prepared_text(["--help"])
    assert overview == prepared_text(["help"])
    for words in [*ACCEPTED, *GROUPS]:
        assert f"\n  {words.split()[0]} " in overview
        text = prepared_text([*words.split(), "--help"])
        assert text is not None
        assert text.startswith(f"Usage: aar {words}")
        assert prepared_text(["help", *words.split()]) == text
        assert prepared_text([*words.split(), "--model", "x", "--help"]) == text


def test_help_fits_a_terminal():
    assert {line for text in help_texts().values() for line in text.splitlines() if len(line) > 100} == set()


@pytest.mark.parametrize(
    "line", ["run hi", "run -- --help", "run - -y", "sessions", "nosuch --help", "help nosuch", "chat"]
)
def test_everything_else_is_something_to_do(line):
    assert prepared_text(line.split()) is None


def test_help_is_printed_and_nothing_more(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["aar", "--help"])
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr()) == (0, (prepared_text([]), ""))
