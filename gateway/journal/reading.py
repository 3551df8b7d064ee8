"""Reads the lines of events folders in the order of writing, also while gateways write.

Skips repeats, which have the same place in the same sequence. A group's sequence may begin again.
Changes nothing and takes no lock.
"""

import contextlib
import heapq
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.events.catalog import BadLine, read_line
from gateway.events.event import Envelope
from gateway.journal.line_files import SERIES, paths_of

FOLLOW_INTERVAL_S = 0.25
"""How often to look for new lines."""


class JournalLine(NamedTuple):
    """One line, with its event or the reason why it has none."""

    path: Path
    number: int
    text: str
    content: Envelope | BadLine


def read_lines(*folders: Path, follows: bool = False) -> Iterator[JournalLine]:
    """All lines of these folders without repeats; with `follows`, also new ones, for ever. Blocks.

    Raises OSError.
    """
    last: dict[tuple[str, str | None, str | None], tuple[int | None, int]] = {}
    for line in _lines(folders, follows=follows):
        if isinstance(envelope := line.content, Envelope):
            sequence_group_id = envelope.group_id if envelope.process_id is None else None
            sequence = (envelope.gateway_id, sequence_group_id, envelope.process_id)
            began_ms = envelope.began_ms if envelope.process_id is None else None
            last_began_ms, last_sequence = last.get(sequence, (None, 0))
            if began_ms == last_began_ms and envelope.sequence <= last_sequence:
                continue
            last[sequence] = (began_ms, envelope.sequence)
        yield line


def _lines(folders: Sequence[Path], *, follows: bool) -> Iterator[JournalLine]:
    series = [
        _FilesRead(folder, prefix, follows=follows) for folder in folders for prefix in SERIES
    ]
    while True:
        yield from heapq.merge(*(files.new_lines() for files in series), key=_at_ms)
        if not follows:
            return
        time.sleep(FOLLOW_INTERVAL_S)


def _at_ms(line: JournalLine) -> int:
    """The time of a line. One without a time does not hold up the others."""
    return line.content.at_ms if isinstance(line.content, Envelope) else 0


class _FilesRead:
    """The files whose names begin alike, one behind the other."""

    def __init__(self, folder: Path, prefix: str, *, follows: bool) -> None:
        self._folder, self._prefix, self._follows = folder, prefix, follows
        self._path: Path | None = None
        self._read_bytes = self._number = 0
        """How far the file has been read."""

    def new_lines(self) -> Iterator[JournalLine]:
        """The lines that have not been read yet. When following, a file ends only once a later file
        exists."""
        while True:
            paths = paths_of(self._folder, self._prefix)
            paths = [path for path in paths if self._path is None or path >= self._path]
            if not paths:
                return
            path = paths[0]
            if path != self._path:
                self._path, self._read_bytes, self._number = path, 0, 0
            is_last = path == paths[-1]
            # The gateway may delete the oldest file at any time.
            with contextlib.suppress(FileNotFoundError):
                yield from self._read_file(path, is_followed=is_last and self._follows)
            if is_last:
                return
            self._path, self._read_bytes, self._number = paths[1], 0, 0

    def _read_file(self, path: Path, *, is_followed: bool) -> Iterator[JournalLine]:
        with path.open("rb") as file:
            file.seek(self._read_bytes)
            while data := file.readline():
                if not data.endswith(b"\n"):
                    if is_followed:
                        return  # the gateway is still writing this line
                    data += b"\n"
                self._read_bytes = file.tell()
                self._number += 1
                text = data[:-1].decode("utf-8", "replace")
                yield JournalLine(path, self._number, text, _parse(data))


def _parse(data: bytes) -> Envelope | BadLine:
    try:
        return read_line(data)
    except BadLine as bad:
        return bad
