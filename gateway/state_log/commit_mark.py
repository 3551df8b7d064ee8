"""The commit mark: the number of the last transaction of the state file, in a tiny file next to it.

SQLite silently drops the transactions at the end of a truncated or damaged write-ahead log. The
mark is written before an answer leaves, but never synced. After a kill it is exact, and after a
power loss it may be behind the state file, but never ahead. A state file behind its mark has lost
transactions.
"""

import errno
import os
import re
import zlib
from pathlib import Path
from typing import NamedTuple, Self

FILE_NAME = "state.sqlite-mark"

_LINE = re.compile(r"log ([0-9a-f]{32}) transaction ([0-9]{20}) checksum ([0-9a-f]{8})\n", re.A)


class Mark(NamedTuple):
    """The last acknowledged transaction of a log."""

    log_id: str
    transaction: int


class DamagedMark(Exception):
    """The file has no valid mark."""


def read_mark(path: Path) -> Mark | None:
    """The mark; None if there is no file. Raises DamagedMark, OSError."""
    try:
        text = path.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return None
    match = _LINE.fullmatch(text)
    if match is None or _line(mark := Mark(match[1], int(match[2]))) != text:
        raise DamagedMark(str(path))
    return mark


def _line(mark: Mark) -> str:
    fields = f"log {mark.log_id} transaction {mark.transaction:020}"
    return f"{fields} checksum {zlib.crc32(fields.encode()):08x}\n"


class MarkFile:
    """The open file of a mark. Every mark has the same length and overwrites the one before."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path, mark: Mark) -> Self:
        """Open the file and write and sync a first mark. Raises OSError, and then leaves no new
        file behind."""
        mark_file = cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        is_new = not os.fstat(mark_file._descriptor).st_size
        try:
            mark_file.write(mark)
            os.ftruncate(mark_file._descriptor, len(_line(mark)))
            os.fsync(mark_file._descriptor)
        except OSError as error:
            mark_file.close()
            if is_new:
                path.unlink()
            raise OSError(error.errno, error.strerror, str(path)) from None
        return mark_file

    def write(self, mark: Mark) -> None:
        """Overwrite the mark, which takes some microseconds. Raises OSError."""
        line = _line(mark).encode()
        if os.pwrite(self._descriptor, line, 0) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        os.close(self._descriptor)
