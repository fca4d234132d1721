"""Logging as a transport switches it on."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aar.errors import ConfigError
from aar.logs import NOISY, RedactingFormatter, configure_logging, redact, session_logger


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger without handlers; everything is put back and closed afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    levels = {name: logging.getLogger(name).level for name in NOISY}
    logger.handlers[:] = []
    yield logger
    for handler in logger.handlers:
        handler.close()
    logger.handlers[:] = handlers
    logger.setLevel(level)
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


@pytest.mark.covers("LOG-01")
def test_the_default_level_is_warning(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    log = logging.getLogger("aar.x")
    log.info("quiet")
    log.warning("loud")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "WARNING aar.x: loud\n")


@pytest.mark.covers("LOG-01")
@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("DEBUG", logging.DEBUG),
        ("info", logging.INFO),
        ("Warning", logging.WARNING),
        ("error", logging.ERROR),
        ("CRITICAL", logging.CRITICAL),
        ("NOTSET", logging.WARNING),
        ("loud", logging.WARNING),
        ("", logging.WARNING),
    ],
)
def test_levels_are_known_by_name_and_unknown_ones_are_warning(root: logging.Logger, name: str, level: int) -> None:
    configure_logging(name)
    assert root.level == level


@pytest.mark.covers("LOG-02")
def test_the_file_gets_the_same_records_with_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "folder" / "aar.log"
    file.parent.mkdir(parents=True)
    file.write_text("kept\n")
    configure_logging("INFO", file)
    logging.getLogger("aar.x").info("grüße")
    kept, line = file.read_text(encoding="utf-8").splitlines()
    assert kept == "kept"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO aar\.x: grüße", line)
    assert capsys.readouterr().err == "INFO aar.x: grüße\n"


def test_the_folder_of_the_file_is_made_and_the_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "aar.log"
    configure_logging(log_file=str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"log_file: {tmp_path} cannot be written"):
        configure_logging(log_file=tmp_path)


@pytest.mark.parametrize("name", ["link.log", "folder/new.log", "pipe.log", "dangling.log"])
def test_a_working_folder_chooses_no_other_place_for_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (home / "profile").write_text("mine")
    (project / "link.log").symlink_to(home / "profile")
    (project / "dangling.log").symlink_to(home / "none")
    (project / "folder").symlink_to(home)
    os.mkfifo(project / "pipe.log")
    monkeypatch.chdir(project)
    with pytest.raises(ConfigError, match=f"{name} cannot be written"):
        configure_logging(log_file=name)
    assert [(file.name, file.read_text()) for file in home.iterdir()] == [("profile", "mine")]


def test_a_pipe_that_nobody_reads_keeps_no_start_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(ConfigError, match=r"pipe\.log cannot be written"):
        configure_logging(log_file=tmp_path / "pipe.log")


def test_users_may_link_their_log_and_name_one_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.log").symlink_to(tmp_path / "real.log")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    configure_logging(log_file=tmp_path / "link.log")
    configure_logging(log_file="logs/aar.log")
    logging.getLogger("aar").warning("hello")
    for file in (tmp_path / "real.log", tmp_path / "project" / "logs" / "aar.log"):
        assert file.read_text().endswith("WARNING aar: hello\n")


@pytest.mark.covers("LOG-03")
def test_calling_twice_doubles_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], root: logging.Logger
) -> None:
    configure_logging("DEBUG", tmp_path / "a.log")
    configure_logging("INFO", tmp_path / "x" / ".." / "a.log")
    configure_logging("INFO", tmp_path / "a.log")
    configure_logging("INFO", tmp_path / "b.log")
    logging.getLogger("aar.x").info("once")
    assert capsys.readouterr().err == "INFO aar.x: once\n"
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("a.log", "b.log")] == [1, 1]
    assert root.level == logging.INFO


@pytest.mark.covers("LOG-04")
def test_libraries_that_tell_of_every_request_speak_only_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("INFO")
    for name in ("httpx2", "httpcore2.http11", "trio"):
        logging.getLogger(name).info("request")
    assert capsys.readouterr().err == ""
    logging.getLogger("httpx2").warning("trouble")
    assert capsys.readouterr().err == "WARNING httpx2: trouble\n"
    configure_logging("DEBUG")
    logging.getLogger("httpx2").debug("request")
    assert capsys.readouterr().err == "DEBUG httpx2: request\n"


@pytest.mark.covers("LOG-07")
def test_known_keys_appear_nowhere_even_at_debug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("DEBUG", tmp_path / "a.log", secrets=["my-own-key", "my-own-key-2"])
    configure_logging("DEBUG", tmp_path / "a.log", secrets=["later-key"])
    log = logging.getLogger("aar.x")
    log.debug("headers %s", {"Authorization": "my-own-key-2", "x": "later-key"})
    try:
        raise ValueError("bad key my-own-key")
    except ValueError:
        log.exception("failed with %s", "my-own-key")
    text = capsys.readouterr().err + (tmp_path / "a.log").read_text()
    assert [secret for secret in ("my-own-key", "later-key") if secret in text] == []
    assert "headers {'Authorization': '[redacted]', 'x': '[redacted]'}" in text
    assert "ValueError: bad key [redacted]" in text


@pytest.mark.covers("LOG-07")
@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-" + "d" * 24,
        "sk-proj-0123456789abcdef0123",
        "AIza" + "b" * 35,
        "ghp_" + "c" * 36,
        "bearer-like Bearer abc.def-123456",
        "shouted BEARER abc.def-123456",
        "github_pat_11ABCDEFG0" + "e" * 30,
        "glpat-abcdefghij0123456789",
        "hf_" + "f" * 30,
        "xoxb-1234567890-abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
        "x-api-key: my-own-key-1",
        '"password": my-0wn-pass',
        "authorization=Basic dXNlcjpwYXNzd29yZDE=",
        "https://host/path?api_key=value-with-1-digit",
    ],
)
def test_what_looks_like_a_key_is_cut_out(text: str) -> None:
    assert "[redacted]" in redact(f"before {text} after")
    assert text.split()[-1] not in redact(f"before {text} after")
    assert redact(f"before {text} after").startswith("before ")
    assert redact(f"before {text} after").endswith(" after")


def test_the_password_in_an_address_is_cut_out_and_the_rest_stays() -> None:
    assert redact("no answer from https://me:swordfish@host/v1") == "no answer from https://[redacted]@host/v1"


@given(st.integers(1, 40), st.text(max_size=20))
def test_a_key_that_was_cut_is_not_shown_by_its_start(kept: int, rest: str) -> None:
    secret = "ab-" + "0123456789" * 4
    assert secret[:9] not in redact(f"refused: {secret[:kept]}{rest}", [secret])


def test_ordinary_text_is_left_alone() -> None:
    text = "ask-me sk-1 task-management-of-long-names bearer of news /usr/bin/x http://host:80/a@b"
    text += " provider.api_key: is missing; password: forgotten; authorization: required"
    assert redact(text, ["", "absent"]) == text


def test_records_of_a_session_carry_its_ids() -> None:
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    logging.getLogger("aar.turn").addHandler(handler := Keep())
    try:
        session_logger("aar.turn", session_id="s", trace_id="t").warning("step=%d", 1)
    finally:
        logging.getLogger("aar.turn").removeHandler(handler)
    assert [(record.getMessage(), vars(record)["session_id"], vars(record)["trace_id"]) for record in seen] == [
        ("step=1", "s", "t")
    ]


def test_another_handler_can_format_without_secrets() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "key %s", ("k1k1",), None)
    assert RedactingFormatter("%(message)s", ["k1k1"]).format(record) == "key [redacted]"


def test_importing_configures_nothing_and_records_go_to_standard_error() -> None:
    program = (
        "import logging, aar.logs\n"
        "assert not logging.getLogger().handlers\n"
        "aar.logs.configure_logging('INFO')\n"
        "logging.getLogger('aar').info('hello')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "INFO aar: hello\n")


def test_no_record_steers_the_terminal_or_passes_for_two(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    logging.getLogger("aar.x").warning("said %s", "\x1b[2Jgone\x9b1m\u202e\r\nERROR aar: forged")
    assert capsys.readouterr().err == ("WARNING aar.x: said \\x1b[2Jgone\\x9b1m\\u202e\\x0d\\nERROR aar: forged\n")
