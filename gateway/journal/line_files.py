"""Appends JSON lines to rotating files in a folder, and deletes the oldest files.

Owns the names, sizes and ages of the files. Never fails: it counts failed writes, which leave a gap
in the sequence of the lines. Lines are written but not synced, so a killed process loses none.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

FILE_BYTES_MAX = 64 << 20
FILE_AGE_MAX_S = 24 * 60 * 60
"""A new file starts when the current one reaches either limit."""
FOLDER_BYTES_MAX = 4 << 30
FOLDER_AGE_MAX_S = 30 * 24 * 60 * 60
"""The oldest files are deleted beyond either limit."""

FOLDER_NAME = "events"
"""The name of the events folder inside the state folder."""
PATTERN = "events-*.jsonl"
_NAME = "events-{:%Y%m%dT%H%M%S}.{:03d}Z.jsonl"

log = structlog.get_logger()


class LineFiles:
    """Appends to the newest file of a folder. One process at a time owns the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None
        self._size = 0
        self._opened_s = 0.0
        self.lost = 0
        """Failed writes since the last success."""

    def write(self, data: bytes) -> None:
        """Append whole lines, all or none."""
        try:
            self._make_room(len(data))
            self._append(data)
        except OSError as error:
            self.close()
            self.lost += 1
            if self.lost == 1:
                reason = error.strerror or str(error)
                log.error("events_lost", folder=str(self.folder), reason=reason)  # noqa: TRY400
        else:
            if self.lost:
                log.info("events_written_again", folder=str(self.folder), lost=self.lost)
                self.lost = 0

    def close(self) -> None:
        """Close the file. The next line opens one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _make_room(self, size: int) -> None:
        """Open a file with room for `size` bytes. Raises OSError."""
        if self._descriptor is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            newest = max(self.folder.glob(PATTERN), default=None)
            if newest is not None:
                self._open(newest)
        if self._descriptor is None or self._is_full(size):
            self.close()
            self._remove_old()
            self._open(self._new_path())

    def _is_full(self, size: int) -> bool:
        is_old = time.time() - self._opened_s >= FILE_AGE_MAX_S
        return is_old or (self._size > 0 and self._size + size > FILE_BYTES_MAX)

    def _open(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        self._opened_s = _made_at_s(path)
        if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
            self._append(b"\n")  # the machine crashed in the middle of a line

    def _new_path(self) -> Path:
        """A path that sorts after all existing files, even if the clock went back."""
        newest = max(self.folder.glob(PATTERN), default=None)
        made_at_ms = int(time.time() * 1000)
        if newest is not None:
            made_at_ms = max(made_at_ms, round(_made_at_s(newest) * 1000) + 1)
        at = datetime.fromtimestamp(made_at_ms // 1000, UTC)
        return self.folder / _NAME.format(at, made_at_ms % 1000)

    def _append(self, data: bytes) -> None:
        assert self._descriptor is not None
        written = os.write(self._descriptor, data)
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(f"{written} of {len(data)} bytes could be written")
        self._size += written

    def _remove_old(self) -> None:
        now_s, total = time.time(), FILE_BYTES_MAX
        for path in sorted(self.folder.glob(PATTERN), reverse=True):
            found = path.stat()
            total += found.st_size
            if total > FOLDER_BYTES_MAX or now_s - found.st_mtime > FOLDER_AGE_MAX_S:
                path.unlink()


def _made_at_s(path: Path) -> float:
    """The creation time in a file's name; 0 if the name is not ours."""
    try:
        at = datetime.strptime(path.name, "events-%Y%m%dT%H%M%S.%f%z.jsonl")
    except ValueError:
        return 0.0
    return at.timestamp()
