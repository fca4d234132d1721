"""Logging, switched on by a transport: never by an import, never for a program that embeds Aar.

Everything goes to standard error and, if asked, to a file. Known keys, and what looks like one, are cut out of
the finished line, so a traceback cannot carry them either. Characters that steer a terminal are written as escapes:
a record may repeat what a server or a file said.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable
from copy import copy
from io import TextIOWrapper
from pathlib import Path

from aar.errors import ConfigError
from aar.messages.redaction import MASK, without_secrets

__all__ = ["NOISY", "SPOKEN_FOR", "RedactingFormatter", "configure_logging", "redact", "session_logger"]

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

NOISY = ("httpx2", "httpcore2", "h11", "h2", "hpack", "trio", "hypercorn", "urwid", "asyncio", "google_genai")
"""Loggers of libraries that tell of every request: they speak only at DEBUG."""

SPOKEN_FOR = ("mcp",)
"""Loggers of libraries whose trouble is told by us, in a sentence: they speak only at DEBUG."""

# Patterns are text until a record needs them: compiling them takes longer than the rest of this import.
_STEERING = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_LOOKS_LIKE_A_KEY = (
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bxox[a-z]-[\w-]{10,}|\bA[KS]IA[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"  # a JSON web token
    r"|(?i:(?<=bearer ))[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/?#\s@:]*:[^/?#\s@]+(?=@)"  # the login of an address
)
_IS_CALLED_A_KEY = (
    r"(?i)((?:api[-_]?key|access[-_]token|auth[-_]token|client[-_]secret|password|authorization)[\"']?\s*[:=]\s*[\"']?"
    r"(?:basic |bearer )?)(?=[^\s\"'&,;)]*\d)[^\s\"'&,;)]{8,}"  # with a digit, as words of a sentence have none
)


def configure_logging(
    level: str = "WARNING", log_file: str | os.PathLike[str] | None = None, *, secrets: Iterable[str] = ()
) -> None:
    """Send log records of at least `level` to standard error and, in addition, append them to `log_file`.

    An unknown level is WARNING. May be called again: nothing is added twice, `secrets` add up, the last level counts.
    Raises `ConfigError` when the file cannot be written.
    """
    number = logging.getLevelNamesMapping()[level.upper()] if level.upper() in _LEVELS else logging.WARNING
    root = logging.getLogger()
    root.setLevel(number)
    own: list[logging.Handler] = [
        handler for handler in root.handlers if isinstance(handler, _StderrHandler | _PrivateFileHandler)
    ]
    known = {value for value in secrets if value}
    for handler in own:
        if isinstance(handler.formatter, RedactingFormatter):
            known |= handler.formatter.secrets
    if not any(isinstance(handler, _StderrHandler) for handler in own):
        own.append(_add(root, _StderrHandler(), "%(levelname)s %(name)s: %(message)s"))
    if log_file is not None and not _has_file(own, log_file):
        own.append(_add(root, _opened(log_file), "%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for handler in own:
        if isinstance(handler.formatter, RedactingFormatter):
            handler.formatter.secrets = frozenset(known)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.NOTSET if number <= logging.DEBUG else logging.WARNING)
    for name in SPOKEN_FOR:
        logging.getLogger(name).setLevel(logging.NOTSET if number <= logging.DEBUG else logging.CRITICAL + 1)


def session_logger(name: str, *, session_id: str, trace_id: str) -> logging.LoggerAdapter[logging.Logger]:
    """A logger whose records say which session they are about."""
    return logging.LoggerAdapter(logging.getLogger(name), {"session_id": session_id, "trace_id": trace_id})


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without these values, whole or cut short, and without anything that looks like a key or is called one."""
    text = re.sub(_LOOKS_LIKE_A_KEY, MASK, without_secrets(text, secrets))
    return re.sub(_IS_CALLED_A_KEY, rf"\1{MASK}", text)


class RedactingFormatter(logging.Formatter):
    """Formats as usual, tracebacks included, and then cuts the secrets out."""

    def __init__(self, fmt: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(fmt)
        self.secrets = frozenset(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return re.sub(_STEERING, _escaped, redact(super().format(record), self.secrets))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        """One record is one line, so that no message can pass for another record; a traceback keeps its lines."""
        return super().formatMessage(record).replace("\n", "\\n")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Follows `sys.stderr`, which others may replace while we run. People see a traceback only at DEBUG."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        if record.exc_info and logging.getLogger().level > logging.DEBUG:
            record = copy(record)
            record.exc_info = record.exc_text = None
        super().emit(record)


class _PrivateFileHandler(logging.FileHandler):
    """Appends UTF-8. At DEBUG a log tells of the conversation, so only its owner may read it."""

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        for name in ("O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"):  # the last: a pipe without a reader is an error
            flags |= getattr(os, name, 0)
        descriptor = os.open(self.baseFilename, flags, 0o600)
        if os.name == "posix":
            os.set_blocking(descriptor, True)
        return TextIOWrapper(
            open(descriptor, "ab", buffering=0), encoding="utf-8", errors="replace", write_through=True
        )


def _add(root: logging.Logger, handler: logging.Handler, fmt: str) -> logging.Handler:
    handler.setFormatter(RedactingFormatter(fmt))
    root.addHandler(handler)
    return handler


def _has_file(handlers: list[logging.Handler], log_file: str | os.PathLike[str]) -> bool:
    path = os.path.abspath(Path(log_file).expanduser())
    return any(isinstance(handler, _PrivateFileHandler) and handler.baseFilename == path for handler in handlers)


def _opened(log_file: str | os.PathLike[str]) -> _PrivateFileHandler:
    told = Path(log_file).expanduser()
    path = told.absolute()
    try:
        if not told.is_absolute() and _is_taken_elsewhere(told):
            raise OSError("a link or no regular file, in a folder that may be anybody's")
        path.parent.mkdir(parents=True, exist_ok=True)
        return _PrivateFileHandler(path)
    except OSError as error:
        text = f"log_file: {path} cannot be written ({error.strerror or error}). Name another file, or none."
        raise ConfigError(text) from error


def _is_taken_elsewhere(file: Path) -> bool:
    """A relative name means a file of the working folder, and what was put there may want to be written for us."""
    expected = os.path.normpath(Path(os.path.realpath("."), file))
    return os.path.realpath(file) != expected or (os.path.lexists(file) and not os.path.isfile(file))
