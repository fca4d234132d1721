"""The file of what was typed: what comes into it, and what comes out when others were there, too."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from aar.messages.settings import AgentConfig
from aar.transports.terminal.history_file import LONGEST, MOST, HistoryFile, history_file, may_be_kept


@pytest.fixture
def typed(tmp_path) -> HistoryFile:
    return HistoryFile(tmp_path / "home" / "history", ["my-own-key"])


def path_of(tmp_path: Path) -> Path:
    return tmp_path / "home" / "history"


@pytest.mark.covers("AURA-40")
async def test_what_was_typed_is_there_again_oldest_first_with_all_its_lines(typed, tmp_path) -> None:
    for text in ("one", "two\nlines, ä", "two\nlines, ä", "one"):
        await typed.add(text)
    assert await HistoryFile(path_of(tmp_path)).read() == ["one", "two\nlines, ä", "one"]
    assert path_of(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.covers("AURA-40")
async def test_of_very_many_entries_the_newest_thousand_stay_at_most(typed, tmp_path) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_text("".join(f'{{"text": "{n}"}}\n' for n in range(3 * MOST)))
    assert await typed.read() == [str(n) for n in range(2 * MOST, 3 * MOST)]
    await typed.add("newest")
    assert (await typed.read())[-2:] == [str(3 * MOST - 1), "newest"]
    lengths = set()
    for n in range(MOST // 5):
        await typed.add(f"more {n}")
        lengths.add(path_of(tmp_path).read_bytes().count(b"\n"))
    assert MOST - MOST // 10 <= min(lengths) <= max(lengths) <= MOST
    assert os.listdir(path_of(tmp_path).parent) == ["history"]


@pytest.mark.covers("AURA-40")
async def test_lines_that_are_damaged_are_left_out_and_the_next_one_is_whole(typed, tmp_path) -> None:
    lines = [b'{"text": "good"}', b"[" * 5_000, b"\xff\xfe", b"7", b'{"text": 7}', b'{"text": "also"}', b'{"text": "cu']
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_bytes(b"\n".join(lines))
    await typed.add("new")
    assert await typed.read() == ["good", "also", "new"]


async def test_what_comes_from_the_file_has_no_escape_sequences(typed, tmp_path) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_text(json.dumps({"text": "\x1b[31mred\x07\ud800"}) + "\n")
    assert await typed.read() == ["red\ufffd"]


@pytest.mark.covers("AURA-40")
def test_several_writers_at_once_lose_nothing(tmp_path) -> None:
    def write(name: int) -> None:
        mine = HistoryFile(path_of(tmp_path))
        for number in range(60):
            mine._add(f"{name} {number}")

    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_text("".join(f'{{"text": "{n}"}}\n' for n in range(MOST - 50)))  # they all write it anew
    writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = HistoryFile(path_of(tmp_path))._read()
    for name in range(4):
        assert [text for text in found if text.startswith(f"{name} ") or text == str(name)][-60:] == [
            f"{name} {number}" for number in range(60)
        ]


@pytest.mark.parametrize("there", ["folder", "pipe", "link", "no room"])
async def test_a_place_that_is_no_file_of_ours_is_left_alone(tmp_path, there) -> None:
    path = tmp_path / "history"
    if there == "folder":
        path.mkdir()
    elif there == "pipe":
        os.mkfifo(path)
    elif there == "link":
        (tmp_path / "other").write_text("mine")
        path.symlink_to(tmp_path / "other")
    else:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "history"
    typed = HistoryFile(path)
    await typed.add("hello")
    assert await typed.read() == []
    assert there != "link" or (tmp_path / "other").read_text() == "mine"


@pytest.mark.covers("AURA-40")
@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("fix the tokens of the parser", True),
        ("git show 1dd25ab60df81b9eb5a3a0cfdcff73cbc78ab6fb", True),
        ("the secret is out", True),
        (" not this one", False),
        ("", False),
        ("x" * (LONGEST + 1), False),
        ("use my-own-key for it", False),
        ("sk-" + "x1" * 10, False),
        ("export API_KEY=abcd1234", False),
        ("my password is hunter22", False),
        ("clone https://me:pw@host/x", False),
        ("Authorization: Bearer abcdefghijklmnopqrst", False),
        ("-----BEGIN RSA PRIVATE KEY-----", False),
    ],
)
def test_secrets_and_what_begins_with_a_blank_are_not_kept(text, is_kept) -> None:
    assert may_be_kept(text, ["my-own-key"]) is is_kept


def test_the_setting_turns_it_off_and_the_keys_in_force_are_known() -> None:
    assert history_file(AgentConfig.model_validate({"tui": {"history": False}})) is None
    found = history_file(AgentConfig.model_validate({"provider": {"api_key": "abcdef"}}))
    assert found is not None
    assert found._secrets == ["abcdef"]
