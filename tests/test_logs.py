"""Logging as a transport switches it on."""

from __future__ import annotations

import logging
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    ],
)
def test_what_looks_like_a_key_is_cut_out(text: str) -> None:
    assert "[redacted]" in redact(f"before {text} after")
    assert text.split()[-1] not in redact(f"before {text} after")


def test_ordinary_text_is_left_alone() -> None:
    text = "ask-me sk-1 task-management-of-long-names bearer of news /usr/bin/x"
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
