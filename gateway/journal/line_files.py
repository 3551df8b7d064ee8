"""Appends JSON lines to rotating files in a folder, and deletes the oldest files.

Owns the names, sizes and ages of the files. Never fails: it counts failed writes, which leave a gap
in the sequence of the lines. Lines are written but not synced, so a killed process loses none.
"""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from gateway.fleet.fleet_state import SLOTS_FOLDER

FILE_BYTES_MAX = 64 << 20
FILE_AGE_MAX_S = 24 * 60 * 60
"""A new file starts when the current one reaches either limit."""
FOLDER_BYTES_MAX = 4 << 30
FOLDER_AGE_MAX_S = 30 * 24 * 60 * 60
"""The oldest files are deleted beyond either limit."""
OVERFLOW_BYTES_MIN = FOLDER_BYTES_MAX // 4
"""Files of the overflow that make way for no others."""

FOLDER_NAME = "events"
"""The name of the events folder inside the state folder."""
PATTERN = "events-*.jsonl"
SERIES = ("events-", "events-overflow-")
"""The beginnings of the files' names: of the usual ones, and of those for groups whose clients have
filled their share of the history. The rest is the time of creation."""
_REST = "{:%Y%m%dT%H%M%S}.{:03d}Z.jsonl"

log = structlog.get_logger()


def folders_below(state_folder: Path) -> list[Path]:
    """All events folders of a state folder: that of a single gateway, and those of the processes of
    a fleet."""
    slots = sorted((state_folder / SLOTS_FOLDER).glob(f"*/{FOLDER_NAME}"))
    return [state_folder / FOLDER_NAME, *slots]


def paths_of(folder: Path, prefix: str) -> list[Path]:
    """The files of one series, the oldest first."""
    return sorted(folder.glob(f"{prefix}[0-9]*.jsonl"))


class LineFiles:
    """Appends to the newest file of a series. One process at a time owns the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._usual, self._overflow = (_Series(folder, prefix) for prefix in SERIES)
        self.lost = 0
        """Failed writes since the last success."""

    @property
    def paths(self) -> tuple[Path | None, Path | None]:
        """The open file of each series, if any: of the usual ones, and of the overflow."""
        return self._usual.path, self._overflow.path

    def make_room(self, size: int, *, overflows: bool = False) -> None:
        """Begin another file if lines of this size would."""
        with suppress(OSError):  # the write that follows fails, too
            self._make_room(self._overflow if overflows else self._usual, size)

    def write(self, data: bytes, *, overflows: bool = False) -> None:
        """Append whole lines, all or none. `overflows`: to the files that make way for others."""
        series = self._overflow if overflows else self._usual
        try:
            self._make_room(series, len(data))
            series.append(data)
        except OSError as error:
            series.close()
            self.lost += 1
            if self.lost == 1:
                reason = error.strerror or str(error)
                log.error("events_lost", folder=str(self.folder), reason=reason)  # noqa: TRY400
        else:
            if self.lost:
                log.info("events_written_again", folder=str(self.folder), lost=self.lost)
                self.lost = 0

    def close(self) -> None:
        """Close the files. The next line opens one."""
        self._usual.close()
        self._overflow.close()

    def _make_room(self, series: "_Series", size: int) -> None:
        """Raises OSError."""
        if not series.has_room(size):
            series.close()
            self._remove_old(series)
            series.begin_file()

    def _remove_old(self, growing: "_Series") -> None:
        """Make room for another file of a series. The oldest ones go first, those of the overflow
        before all others as long as they take more than their part. Raises OSError."""
        now_s = time.time()
        sizes: dict[_Series, dict[Path, int]] = {}
        bytes_of: dict[_Series, int] = {}
        for series in (self._usual, self._overflow):
            bytes_of[series] = FILE_BYTES_MAX if series is growing else 0
            sizes[series] = {}
            for path in paths_of(self.folder, series.prefix):
                status = path.stat()
                if path == series.path:  # open, and may grow
                    bytes_of[series] += max(status.st_size, FILE_BYTES_MAX)
                elif now_s - status.st_mtime > FOLDER_AGE_MAX_S:
                    path.unlink()
                else:
                    sizes[series][path] = status.st_size
                    bytes_of[series] += status.st_size
        total = sum(bytes_of.values())
        while total > FOLDER_BYTES_MAX and any(sizes.values()):
            is_large = bytes_of[self._overflow] > OVERFLOW_BYTES_MIN and sizes[self._overflow]
            series = self._overflow if is_large or not sizes[self._usual] else self._usual
            path = next(iter(sizes[series]))
            size = sizes[series].pop(path)
            path.unlink()
            bytes_of[series] -= size
            total -= size


class _Series:
    """The files whose names begin alike."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.prefix = prefix
        self.path: Path | None = None
        """The open file."""
        self._folder = folder
        self._descriptor: int | None = None
        self._size = 0
        self._opened_s = 0.0

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = self.path = None

    def has_room(self, size: int) -> bool:
        """Whether the newest file, which is opened for it, has room for `size` bytes. Raises
        OSError."""
        if self._descriptor is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            newest = max(paths_of(self._folder, self.prefix), default=None)
            if newest is not None:
                self._open(newest)
        is_old = time.time() - self._opened_s >= FILE_AGE_MAX_S
        is_full = self._size > 0 and self._size + size > FILE_BYTES_MAX
        return self._descriptor is not None and not (is_old or is_full)

    def begin_file(self) -> None:
        """Open a file that sorts after all existing ones, even if the clock went back. Raises
        OSError."""
        newest = max(paths_of(self._folder, self.prefix), default=None)
        made_at_ms = int(time.time() * 1000)
        if newest is not None:
            made_at_ms = max(made_at_ms, round(self._made_at_s(newest) * 1000) + 1)
        at = datetime.fromtimestamp(made_at_ms // 1000, UTC)
        self._open(self._folder / f"{self.prefix}{_REST.format(at, made_at_ms % 1000)}")

    def append(self, data: bytes) -> None:
        """Append lines, all or none. Raises OSError."""
        assert self._descriptor is not None
        written = os.write(self._descriptor, data)
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(f"{written} of {len(data)} bytes could be written")
        self._size += written

    def _open(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self.path = path
        self._size = os.fstat(self._descriptor).st_size
        self._opened_s = self._made_at_s(path)
        if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
            self.append(b"\n")  # the machine crashed in the middle of a line

    def _made_at_s(self, path: Path) -> float:
        """The creation time in a file's name; 0 if the name is not ours."""
        try:
            at = datetime.strptime(path.name, f"{self.prefix}%Y%m%dT%H%M%S.%f%z.jsonl")
        except ValueError:
            return 0.0
        return at.timestamp()
