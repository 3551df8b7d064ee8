"""The state folder of a gateway, and the lock that lets one process at a time own it."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "lock"

_ROOT = 0
"""Owns the volumes of containers, and may do anything anyway."""
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateFolderError(Exception):
    """The folder cannot be used; says in one line why."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder if it is missing and keep it from other processes for the block, and from
    other users: it is the owner's alone, and so is what the process writes meanwhile.

    The lock ends with the process, however that ends. Raises StateFolderError.
    """
    before = os.umask(0o077)
    try:
        descriptor = _opened(folder)
        try:
            _lock(folder, descriptor)
            yield
        finally:
            os.close(descriptor)
    finally:
        os.umask(before)


def _opened(folder: Path) -> int:
    """The lock's file, in a folder where nobody else can put anything in our way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_private(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(folder / LOCK_NAME, flags, 0o600)
    except OSError as error:
        raise StateFolderError(
            f"cannot use the state folder {folder}: {error.strerror}; give another --state-dir"
        ) from None


def _make_private(folder: Path) -> None:
    """Raises StateFolderError for a folder of somebody else's, or one with links to elsewhere."""
    found = folder.stat()
    if found.st_uid not in {os.geteuid(), _ROOT}:
        raise StateFolderError(
            f"the state folder {folder} belongs to another user (uid {found.st_uid}), who could"
            " change what is in it; give another --state-dir"
        )
    if found.st_uid == os.geteuid() and found.st_mode & _OF_OTHERS:
        folder.chmod(stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and not entry.is_dir():
                raise StateFolderError(
                    f"{entry.path} is a symbolic link, and what it points to would be overwritten:"
                    " remove it, or give another --state-dir"
                )


def _lock(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        raise StateFolderError(
            f"the state folder {folder} is in use by another groupferry (process {holder}):"
            " stop that one, or give another --state-dir"
        ) from None
    except OSError as error:
        raise StateFolderError(
            f"cannot lock the state folder {folder}: {error.strerror}; give another --state-dir"
        ) from None
