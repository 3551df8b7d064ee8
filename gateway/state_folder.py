"""The folder that a gateway keeps its state in: one process at a time has it.

Owns the lock. Must not know what is kept there.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "lock"


class StateFolderError(Exception):
    """The folder cannot be used; says in one line why."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder if it is missing and keep it from other processes for the block.

    The lock ends with the process, however that ends. Raises StateFolderError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StateFolderError(
            f"cannot use the state folder {folder}: {error.strerror}; give another --state-dir"
        ) from None
    try:
        _lock(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


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
