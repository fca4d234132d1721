"""Where the sockets of live sessions are, and who can reach them."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aar.errors import SessionInUse, StoreUnavailable
from aar.processes.ancestry import is_command_of
from aar.processes.orphans import MARKER
from aar.sharing.places import RUN, Listening, connected, live_sessions, peer_of, socket_name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def left_behind(home: Path, name: str) -> Path:
    """The socket of a process that was killed."""
    path = home / RUN / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.bind(f"/proc/self/fd/{folder}/{name}")
    os.close(folder)
    return path


def test_the_folder_and_the_socket_are_for_this_user_alone(home) -> None:
    before = os.umask(0)
    listening = Listening(home, "abc")
    os.umask(before)
    path = home / RUN / "abc.sock"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["abc.sock"]
    listening.close()
    listening.close()
    assert os.listdir(path.parent) == []


def test_who_connects_is_known(home) -> None:
    listening = Listening(home, "abc")
    client = connected(home, "abc")
    there, _ = listening.socket.accept()
    assert client is not None
    assert peer_of(there) == peer_of(client) == (os.geteuid(), os.getpid())
    for one in (client, there, listening):
        one.close()


def test_one_that_a_dead_process_left_behind_is_replaced(home) -> None:
    left_behind(home, "abc.sock")
    assert connected(home, "abc") is None
    assert live_sessions(home) == set()
    listening = Listening(home, "abc")
    assert live_sessions(home) == {"abc"}
    listening.close()
    assert live_sessions(home) == set()


def test_one_that_somebody_listens_at_stays(home) -> None:
    first = Listening(home, "abc")
    with pytest.raises(SessionInUse, match="another process listens"):
        Listening(home, "abc")
    assert os.listdir(home / RUN) == ["abc.sock"]
    assert live_sessions(home) == {"abc"}
    first.close()


def test_an_owner_whose_place_was_taken_does_not_remove_the_new_one(home) -> None:
    first = Listening(home, "abc")
    os.unlink(home / RUN / "abc.sock")
    second = Listening(home, "abc")
    first.close()
    assert live_sessions(home) == {"abc"}
    second.close()


def test_others_who_were_let_into_the_folder_are_shut_out(home) -> None:
    (home / RUN).mkdir(parents=True)
    os.chmod(home / RUN, 0o777)
    Listening(home, "abc").close()
    assert stat.S_IMODE((home / RUN).stat().st_mode) == 0o700


def test_a_link_leads_nowhere(home, tmp_path) -> None:
    home.mkdir()
    (home / RUN).symlink_to(tmp_path)
    with pytest.raises(StoreUnavailable, match="Others cannot attach to this session"):
        Listening(home, "abc")
    with pytest.raises(StoreUnavailable, match="Cannot look into"):
        connected(home, "abc")
    assert live_sessions(home) == set()


def test_neither_a_long_home_nor_a_long_id_is_too_long_for_a_socket(tmp_path) -> None:
    home = tmp_path / ("x" * 200)
    session_id = "y" * 128
    listening = Listening(home, session_id)
    assert (live_sessions(home), live_sessions(home, [session_id])) == (set(), {session_id})
    assert len(socket_name(session_id)) < 50
    assert socket_name(session_id) != socket_name("y" * 127)
    listening.close()


def test_what_was_left_behind_is_swept_after_a_day(home) -> None:
    old, new = left_behind(home, "old.sock"), left_behind(home, "new.sock")
    os.utime(old, (0, 0))
    listening = Listening(home, "abc")
    os.utime(home / RUN / "abc.sock", (0, 0))
    assert live_sessions(home) == {"abc"}
    assert (old.exists(), new.exists()) == (False, True)
    listening.close()


def test_commands_are_known_by_where_they_come_from() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert is_command_of(child.pid, os.getpid())
    assert not is_command_of(child.pid, child.pid)
    assert not is_command_of(os.getpid(), child.pid)
    assert not is_command_of(os.getpid(), os.getpid())
    child.communicate(b"\n")
    marked = {MARKER: "1:2-3:x"}
    other = subprocess.Popen(["/bin/sh", "-c", "echo; read x"], stdin=-1, stdout=-1, env=marked)
    assert other.stdout is not None
    other.stdout.readline()
    assert is_command_of(other.pid, 2)
    other.communicate(b"\n")
    assert is_command_of(other.pid, os.getpid())  # it has ended, perhaps to hide that
