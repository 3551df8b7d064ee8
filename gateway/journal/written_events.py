"""Tells which events of groups the files of an events folder have, so that a restart repeats only
those that may be missing.

A killed process can only miss the lines of batches that it was writing. So the end of the newest
files covers all of them; batches that are much older than that end were written long ago.
"""

import json
from pathlib import Path
from typing import NamedTuple

from gateway.journal.line_files import SERIES, paths_of
from gateway.state_log.last_events import LastEvents

END_BYTES_MAX = 8 << 20
"""How much of the newest files is read."""
WRITE_MS_MAX = 10 * 60 * 1000
"""No batch takes longer from its decision to its lines."""
DELIVERY_MS_MAX = 5 * 60 * 1000
"""A topic has all lines that were in the files for so long, or has lost them."""


class _LastSequence(NamedTuple):
    began_ms: int
    sequence: int


class WrittenEvents:
    """The last events of groups in the files of one folder."""

    def __init__(self, folder: Path | None, gateway_id: str) -> None:
        """Read the files of the folder. `gateway_id`: whose events count. Never fails: what
        cannot be read counts as missing."""
        self._last: dict[str, _LastSequence] = {}
        self._from_ms = 0
        """The time since which all lines were read, if there are older ones; otherwise 0."""
        self._until_ms = 0
        for prefix in SERIES:
            lines, is_whole = _end_of(folder, prefix)
            times_ms = [at_ms for line in lines if (at_ms := self._read(line, gateway_id))]
            if times_ms and not is_whole:
                self._from_ms = max(self._from_ms, times_ms[0])

    def _read(self, line: bytes, gateway_id: str) -> int | None:
        """Read a line. Returns its time if this gateway wrote it, otherwise None."""
        try:
            event = json.loads(line)
            if event["gateway_id"] != gateway_id:
                return None
            self._until_ms = max(self._until_ms, int(event["at_ms"]))
            if event["process_id"] is None:
                place = _LastSequence(event["began_ms"] or 0, event["sequence"])
                self._last[event["group_id"]] = max(place, self._last.get(event["group_id"], place))
            return int(event["at_ms"])
        except (ValueError, TypeError, LookupError, RecursionError):
            return None  # a machine crash leaves half a line

    def has(self, group_id: str, last: LastEvents) -> bool:
        """Whether the files have, or have had, all lines of a group's last batch."""
        if last.at_ms < self._from_ms - WRITE_MS_MAX:
            return True
        return (last.began_ms, last.sequence) <= self._last.get(group_id, (0, 0))

    def may_be_on_its_way(self, last: LastEvents) -> bool:
        """Whether a topic may still lack these lines, although the files have them."""
        return last.at_ms >= self._until_ms - DELIVERY_MS_MAX


def _end_of(folder: Path | None, prefix: str) -> tuple[list[bytes], bool]:
    """The last whole lines of a series of files, and whether there are no others."""
    if folder is None:
        return [], True
    parts: list[bytes] = []
    left_bytes = END_BYTES_MAX
    try:
        for path in reversed(paths_of(folder, prefix)):
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - left_bytes))
                parts.insert(0, file.read(left_bytes))
            left_bytes -= len(parts[0])
            if left_bytes <= 0:
                break
    except OSError:
        return [], True
    lines = b"\n".join(parts).splitlines()
    return (lines, True) if left_bytes > 0 else (lines[1:], False)
