from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from aar.__main__ import main
from aar.transports.cli.arguments import COMMANDS, GROUPS, Misuse, parse
from aar.transports.cli.flags import Flags
from aar.transports.cli.help import FOLDER, prepared_text
from aar.transports.cli.write_help import help_texts

NEEDED = {"run": ["task"], "sessions show": ["id"], "sessions export": ["id"], "sessions delete": ["id"]}
EVERYWHERE = ["--config=f", "--log-level=DEBUG", "--log-file=f"]
MODEL = ["--model=m", "-m", "m", "--provider=p", "-p", "p"]
WORK = ["--base-url=u", "--api-key=k", "--max-steps=3"]
SESSION = ["--session=s", "-s", "s", "--continue", "-c", "--verbose", "-v"]
SAFETY = ["--read-only", "--no-read-only", "--require-approval", "--no-require-approval", "--yes", "-y"]
PATHS = ["--restrict-to-cwd", "--no-restrict-to-cwd", "--denied-paths=a", "--allowed-paths=a"]
ACCEPTED = {
    "run": [*MODEL, *WORK, *SESSION, *SAFETY, *PATHS, *EVERYWHERE, "--output=json", "--output=stream-json"],
    "chat": [*MODEL, *WORK, *SESSION, *SAFETY, *PATHS, *EVERYWHERE],
    "sessions list": EVERYWHERE,
    "sessions show": EVERYWHERE,
    "sessions export": [*EVERYWHERE, "--format=json", "--to=f"],
    "sessions delete": EVERYWHERE,
    "tools": EVERYWHERE,
    "prompt": [*MODEL, *SAFETY, *EVERYWHERE, "--raw", "--layers"],
    "config": [*MODEL, *WORK, *SAFETY, *PATHS, *EVERYWHERE],
    "init": ["--force", "-f"],
    "local install": [],
    "local status": [],
    "version": [],
}


@pytest.mark.covers("CLI-02")
@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_takes_its_flags_and_no_others(words):
    taken = ACCEPTED[words]
    found, _ = parse([*words.split(), *NEEDED.get(words, []), *taken])
    assert found == words
    for flag in ["--nonsense", *(flag for group in ACCEPTED.values() for flag in group if flag.startswith("--"))]:
        if flag not in taken:
            with pytest.raises(Misuse, match=f"there is no flag {flag.partition('=')[0]}"):
                parse([*words.split(), *NEEDED.get(words, []), flag])


def test_flags_that_are_not_given_leave_everything_to_the_file():
    _, values = parse(["chat"])
    assert Flags(**values) == Flags()
    assert {name for name, value in Flags().settings().items() if value is not None} == set()


def test_flags_and_words_may_come_in_any_order():
    assert parse(["run", "-y", "fix", "--model", "m", "the", "bug", "-v"])[1]["task"] == ["fix", "the", "bug"]
    assert parse(["run", "-"])[1]["task"] == ["-"]
    assert parse(["run", "--", "--help", "-x"])[1]["task"] == ["--help", "-x"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("runn", "there is no command `aar runn`. Did you mean `aar run`? See `aar --help`."),
        ("frobnicate", "there is no command `aar frobnicate`. See `aar --help`."),
        ("sessions shw", "there is no command `aar sessions shw`. Did you mean `aar sessions show`?"),
        ("--yes run x", "flags come after the command, as in `aar run --yes`."),
        ("run x --foo", "there is no flag --foo. See `aar run --help`."),
        ("run x --mod m", "there is no flag --mod. See `aar run --help`."),
        ("run x --model", "-m/--model: expected one argument. See `aar run --help`."),
        ("run x --max-steps many", "--max-steps: must be a whole number, 1 or more, not 'many'."),
        ("run x --max-steps 0", "--max-steps: must be a whole number, 1 or more, not '0'."),
        ("run x --output xml", "--output: invalid choice: 'xml' (choose from 'text', 'json', 'stream-json')."),
        ("run x --log-level loud", "--log-level: invalid choice: 'loud'"),
        ("tools x", "there is nothing to do with 'x'. See `aar tools --help`."),
        ("sessions delete", "the following arguments are required: SESSION. See `aar sessions delete --help`."),
    ],
)
def test_a_mistake_names_the_flag_and_the_fix(line, text):
    with pytest.raises(Misuse) as caught:
        parse(line.split())
    assert text in str(caught.value)


async def test_a_mistake_is_one_line_and_exit_code_2(aar):
    done = await aar("run", "x", "--foo")
    assert (done.code, done.out, done.err) == (2, "", "aar: there is no flag --foo. See `aar run --help`.\n")
    done = await aar("run")
    assert (done.code, done.err.startswith("aar: Nothing to do: give a task")) == (2, True)
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
    for words in [*COMMANDS, *GROUPS]:
        assert f"\n  {words.split()[0]} " in overview
        text = prepared_text([*words.split(), "--help"])
        assert text is not None
        assert text.startswith(f"Usage: aar {words}")
        assert prepared_text([*words.split(), "--model", "x", "--help"]) == text


def test_help_fits_a_terminal():
    assert {line for text in help_texts().values() for line in text.splitlines() if len(line) > 100} == set()


@pytest.mark.parametrize("line", ["run hi", "run -- --help", "run - -y", "sessions", "nosuch --help", "chat"])
def test_everything_else_is_something_to_do(line):
    assert prepared_text(line.split()) is None


def test_help_is_printed_and_nothing_more(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["aar", "--help"])
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr()) == (0, (prepared_text([]), ""))
