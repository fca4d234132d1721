"""Which files tools may touch, and the one opener through which they do.

Every path is judged twice: as it was spelled and with its links resolved. A rule that forbids either form
forbids the file; a boundary must hold for both.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from posixpath import normpath
from typing import BinaryIO, NamedTuple

from aar.errors import ToolError
from aar.messages.settings import SafetyConfig
from aar.safety.hard_links import Inode, inode_of, linked_secrets
from aar.safety.opening import (
    PathChanged,
    kind_of,
    open_folder,
    open_object,
    read_descriptor,
    remove_from,
    replace_in,
)
from aar.safety.own_files import (
    SecretNames,
    completes_repository,
    may_be_in_repository,
    notable_names,
    protected_names,
)
from aar.safety.path_locks import PathLocks
from aar.safety.patterns import PatternSet, base_folder, deny_forms, expand, is_fixed, matches, unescaped

__all__ = ["PathGuard", "PathRule", "matches", "normalise"]

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")

_LONGEST_PATH = 4_096  # of Linux, in bytes; each part of a path costs a look at the disk
_ATTEMPTS = 3
_ANY_REPOSITORY = ""  # no path: files of one repository must not come side by side


class PathRule(NamedTuple):
    """The first rule whose pattern fits decides, before `denied_paths` and `allowed_paths`."""

    pattern: str
    allow_read: bool = True
    allow_write: bool = False


def normalise(path: str, cwd: str) -> str:
    """The form that patterns are matched against: absolute, with forward slashes, without `.` and `..`.

    Absolute paths keep their links, network shares keep everything but the slashes, drive letters become
    small, and anything else is resolved against `cwd` with links followed.
    """
    slashed = path.replace("\\", "/")
    if slashed.startswith("//"):
        return slashed
    if path.startswith("/"):
        return normpath(slashed)
    if _DRIVE.match(path):
        return slashed[0].lower() + normpath(slashed[1:])
    return _real(os.path.join(cwd, path)).replace("\\", "/")


class PathGuard:
    """Decides on paths for one session's folder and settings, and opens what it allows.

    `check` answers with a reason or `None`; everything else raises `ToolError("blocked", ...)` for a path
    that the rules forbid. `state_dir` is where Aar keeps its own files: tools may not write there, nor read
    keys, sessions and logs. `private_dir` is another folder that no tool may enter: sessions may be kept elsewhere.
    """

    def __init__(
        self,
        cwd: str,
        safety: SafetyConfig,
        *,
        path_rules: Sequence[PathRule] = (),
        state_dir: str | None = None,
        private_dir: str | None = None,
    ) -> None:
        if not os.path.isabs(cwd):
            raise ValueError(f"the session's folder must be an absolute path, not {cwd!r}")
        self.cwd = normpath(cwd)
        self.real_cwd = _real(cwd)
        self._changes = PathLocks()
        self._rules = [(PatternSet(self._expand([rule.pattern])), rule) for rule in path_rules]
        self._denied = PatternSet(self._expand(deny_forms(safety.denied_paths)), fold=True)
        self._allowed = PatternSet(self._expand(safety.allowed_paths))
        state_folders = _state_folders(state_dir)
        self._state_folders = state_folders
        self._private_folders = _both_forms(os.path.join(cwd, os.path.expanduser(private_dir))) if private_dir else []
        self._protected = protected_names(state_folders)
        self._notable = notable_names()
        self._secret = SecretNames(state_folders)

    def _expand(self, patterns: Sequence[str]) -> list[str]:
        return [form for one in patterns for form in expand(one, self.cwd, self.real_cwd)]

    # --- deciding -------------------------------------------------------------------------------

    def resolve(self, path: str) -> str:
        """The absolute path with links followed; relative paths start at the session's folder."""
        return _real(os.path.join(self.cwd, path))

    def check(self, path: str, *, write: bool) -> str | None:
        """Why this path is forbidden, or `None`. Both its spelling and what it leads to are judged."""
        return _is_no_name(path) or self.judge(self._literal(path), self.resolve(path), write=write)

    def judge(self, literal: str, resolved: str, *, write: bool) -> str | None:
        """As `check`, for the two absolute forms of a path."""
        for form in dict.fromkeys((resolved, literal)):
            reason = self._judge_form(form, write)
            if reason is not None:
                return reason
        return None

    def stands_alone(self, path: str) -> bool:
        """Is this a name that an approval for its whole folder does not cover, because it takes effect by itself?"""
        forms = self._literal(path), self.resolve(path)
        return any(self._protected.match(form) or self._notable.match(form) for form in forms)

    def _literal(self, path: str) -> str:
        is_absolute = path.startswith(("/", "\\\\")) or _DRIVE.match(path)
        return normalise(path if is_absolute else os.path.join(self.cwd, path), self.cwd)

    def _judge_form(self, form: str, write: bool) -> str | None:
        if write and self._protected.match(form):
            return f"'{form}' is protected: it decides what runs later"
        if self._secret.match(form) or any(f"{form}/".startswith(f"{one}/") for one in self._private_folders):
            return f"'{form}' is private to Aar or to a running program"
        for patterns, rule in self._rules:
            if patterns.match(form):
                allowed = rule.allow_write if write else rule.allow_read
                return None if allowed else f"'{form}' is denied by the path rule '{rule.pattern}'"
        denied = self._denied.first(form)
        if denied is not None:
            return f"'{form}' is denied by '{denied}'"
        if self._allowed.patterns and not self._allowed.match_or_base(form):
            return f"'{form}' is outside the allowed paths"
        return None

    def _require(self, path: str, *, write: bool) -> None:
        reason = self.check(path, write=write)
        if reason is not None:
            raise _blocked(reason)

    # --- opening --------------------------------------------------------------------------------

    def open_read(self, path: str) -> BinaryIO:
        """The regular file at `path`. Raises `FileNotFoundError` for anything else, without opening it."""
        with self._found(path) as (descriptor, resolved):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                note = "" if stat.S_ISDIR(status.st_mode) else f" ({kind_of(status.st_mode)}, not a regular file)"
                raise FileNotFoundError(f"File not found: {resolved}{note}")
            if status.st_nlink > 1 and self.is_linked_secret(status, self.linked_secrets()):
                raise _blocked(f"'{resolved}' is a hard link to a file that may not be read by another of its names")
            return os.fdopen(read_descriptor(descriptor), "rb")

    @contextmanager
    def open_folder(self, path: str) -> Iterator[int]:
        """A descriptor for `os.scandir`. Raises `NotADirectoryError` when `path` is no folder."""
        with self._found(path, missing=NotADirectoryError("Not a directory: ")) as (descriptor, resolved):
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise NotADirectoryError(f"Not a directory: {resolved}")
            reading = read_descriptor(descriptor, folder=True)
        try:
            yield reading
        finally:
            os.close(reading)

    @contextmanager
    def changing(self, path: str) -> Iterator[None]:
        """Keep others that ask here from changing this file meanwhile. Blocks the calling thread."""
        with self._changes.held(self.resolve(path)):
            yield

    @contextmanager
    def changing_all(self, paths: Iterable[str]) -> Iterator[None]:
        """As `changing`, for several files at once; two names of one file count once."""
        with ExitStack() as held:
            for name in sorted({self.resolve(path) for path in paths}):  # in one order, so that nobody waits in a ring
                held.enter_context(self._changes.held(name))
            yield

    def replace(self, path: str, data: bytes) -> str:
        """Write the file in one step, with missing folders made; answers with its absolute path.

        The old content stays until the new is complete on disk. Mode and owner are kept; a name that is a
        link keeps being one, and what it leads to is written.
        """
        self._require(path, write=True)
        target = self.resolve(path)
        self._require(target, write=True)
        folder, _, name = target.rpartition("/")
        try:
            with self._making_no_repository(target), open_folder(folder, create=True) as parent:
                replace_in(parent, name, data)
        except PathChanged as error:
            raise _blocked(str(error)) from error
        return target

    def remove(self, path: str) -> str:
        """Delete a regular file; answers with its absolute path. Raises `OSError` for anything else, also a link."""
        self._require(path, write=True)
        target = self.resolve(path)
        self._require(target, write=True)
        if os.path.islink(os.path.join(self.cwd, path)):
            raise OSError(f"Not a regular file: {path} is a link")
        folder, _, name = target.rpartition("/")
        try:
            with open_folder(folder) as parent:
                remove_from(parent, name)
        except PathChanged as error:
            raise _blocked(str(error)) from error
        return target

    @contextmanager
    def _making_no_repository(self, target: str) -> Iterator[None]:
        if not may_be_in_repository(target):
            yield
            return
        with self._changes.held(_ANY_REPOSITORY):
            if completes_repository(target):
                raise _blocked(f"'{target}' would make a Git repository, whose settings run programs")
            yield

    @contextmanager
    def _found(self, path: str, missing: OSError | None = None) -> Iterator[tuple[int, str]]:
        self._require(path, write=False)
        missing = missing or FileNotFoundError("File not found: ")
        if not os.path.exists(os.path.join(self.cwd, path)):
            raise type(missing)(f"{missing}{self.resolve(path)}")  # as the kernel sees it, also up from no folder
        descriptor, resolved = self._descend(path, missing)
        try:
            yield descriptor, resolved
        finally:
            os.close(descriptor)

    def _descend(self, path: str, missing: OSError) -> tuple[int, str]:
        for _ in range(_ATTEMPTS):
            resolved = self.resolve(path)
            self._require(resolved, write=False)
            try:
                with open_object(resolved) as descriptor:
                    return os.dup(descriptor), resolved
            except (FileNotFoundError, NotADirectoryError) as error:
                raise type(missing)(f"{missing}{resolved}") from error
            except PathChanged:
                continue  # somebody replaced a link at this moment: look again where it leads
        raise _blocked(f"'{path}' kept changing while it was being opened")

    # --- hard links -----------------------------------------------------------------------------

    def is_linked_secret(self, status: os.stat_result, secrets: frozenset[Inode]) -> bool:
        """Is this file one of `secrets`, which `linked_secrets` has found?"""
        return status.st_nlink > 1 and inode_of(status) in secrets

    def linked_secrets(self) -> frozenset[Inode]:
        """Files with several names of which one may not be read, as far as such names can be found.

        They are looked for in the session's folder, in places that `denied_paths` name, in Aar's state folder, and
        among what lies openly in the user's home.
        """
        named = [unescaped(base_folder(one) or one) for one in self._denied.patterns if is_fixed(one)]
        home = os.path.expanduser("~")
        elsewhere = [*named, *self._state_folders, home, os.path.join(home, ".config")]
        return linked_secrets(self.real_cwd, elsewhere, self._is_unreadable)

    def _is_unreadable(self, path: str) -> bool:
        if path == self.real_cwd or path.startswith(self.real_cwd.rstrip("/") + "/"):
            return self._judge_form(path, False) is not None
        return self._secret.match(path) or self._denied.match(path)


def _real(path: str) -> str:
    """Links followed. While somebody keeps replacing one, as spelled: the opener follows none and will notice."""
    for _ in range(0 if len(path) > 2 * _LONGEST_PATH else _ATTEMPTS):
        try:
            resolved = os.path.realpath(path)
        except OSError:
            continue
        return "/" + resolved.lstrip("/")
    return os.path.abspath(path)


def _is_no_name(path: str) -> str | None:
    if "\0" in path:
        return "the path contains a NUL character"
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "the path contains half a surrogate pair"
    return "the path is too long" if length > _LONGEST_PATH else None


def _state_folders(state_dir: str | None) -> list[str]:
    return _both_forms(state_dir or os.environ.get("AAR_HOME") or os.path.join(os.path.expanduser("~"), ".aar"))


def _both_forms(folder: str) -> list[str]:
    """As it is written and with links followed."""
    folder = os.path.expanduser(folder)
    return sorted({os.path.abspath(folder), _real(folder)})


def _blocked(reason: str) -> ToolError:
    return ToolError("blocked", f"blocked by safety policy: {reason}")
