"""A folder for the temporary files of one command, which is gone when the command is, whatever it has made of it."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import trio

__all__ = ["private_folder"]

CLEAN_UP_SECONDS = 10.0

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

logger = logging.getLogger(__name__)


@asynccontextmanager
async def private_folder() -> AsyncIterator[str]:
    """A new folder for this user alone, gone with all that is in it when the block is left."""
    folder = _made()
    try:
        yield folder
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(CLEAN_UP_SECONDS):
            await trio.to_thread.run_sync(_remove, folder, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))


def _made() -> str:
    return os.path.realpath(tempfile.mkdtemp(prefix="aar-"))


def _remove(folder: str) -> None:
    """Also folders that a command has closed to itself, and those that are thousands deep.

    All folders come up to the top one by one: a walk down would need a descriptor for each level.
    """
    try:
        top = _opened(folder)
        try:
            waiting = _emptied(top, top)
            while waiting:
                waiting += _removed(waiting.pop(), top)
        finally:
            os.close(top)
        os.rmdir(folder)
    except OSError as error:
        logger.warning("temporary files of a command could not be removed: %s: %s", folder, error.strerror)


def _removed(name: str, top: int) -> list[str]:
    folder = _opened(name, top)
    try:
        moved = _emptied(folder, top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
    return moved


def _emptied(folder: int, top: int) -> list[str]:
    """The new names in `top` of the folders that were in it; all else in it is gone."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    moved = []
    for name, is_folder in found:
        if is_folder:
            os.close(_opened(name, folder))  # to be moved a folder must be writable
            moved.append(uuid4().hex)
            os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=folder)
    return moved


def _opened(name: str, parent: int | None = None) -> int:
    """A descriptor of a folder that is ours, whatever its mode was. Follows no link, for the mode would be changed."""
    place = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)
