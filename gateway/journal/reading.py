"""Reads the lines of an events folder in the order of writing, also while a gateway writes.

Skips repeats, which have the same place in the same sequence. A group's sequence may begin again.
Changes nothing and takes no lock.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gateway.events.catalog import BadLine, read_line
from gateway.events.event import Envelope
from gateway.journal.line_files import PATTERN

FOLLOW_INTERVAL_S = 0.25
"""How often to look for new lines."""


class Line(NamedTuple):
    """One line, with its event or the reason why it has none."""

    path: Path
    number: int
    text: str
    found: Envelope | BadLine


def read_lines(folder: Path, *, follows: bool = False) -> Iterator[Line]:
    """All lines without repeats; with `follows`, also new ones, for ever. Blocks.

    Raises OSError.
    """
    last: dict[tuple[str, str | None, str | None], tuple[int | None, int]] = {}
    for line in _lines(folder, follows=follows):
        if isinstance(each := line.found, Envelope):
            of_group = each.group_id if each.process_id is None else None
            sequence = (each.gateway_id, of_group, each.process_id)
            began_ms = each.began_ms if each.process_id is None else None
            last_began_ms, last_sequence = last.get(sequence, (None, 0))
            if began_ms == last_began_ms and each.sequence <= last_sequence:
                continue
            last[sequence] = (began_ms, each.sequence)
        yield line


def _lines(folder: Path, *, follows: bool) -> Iterator[Line]:
    done: Path | None = None
    while True:
        for path in sorted(folder.glob(PATTERN)):
            if done is None or path > done:
                # The gateway may delete the oldest file at any time.
                with contextlib.suppress(FileNotFoundError):
                    yield from _of_file(path, follows=follows)
                done = path
        if not follows:
            return
        time.sleep(FOLLOW_INTERVAL_S)


def _of_file(path: Path, *, follows: bool) -> Iterator[Line]:
    """All lines of a file. When following, a file ends only once a later file exists."""
    with path.open("rb") as file:
        number = 0
        while True:
            is_last = follows and path == max(path.parent.glob(PATTERN), default=path)
            while data := file.readline():
                if not data.endswith(b"\n"):
                    if is_last:
                        file.seek(-len(data), 1)  # the gateway is still writing this line
                        break
                    data += b"\n"
                number += 1
                yield Line(path, number, data[:-1].decode("utf-8", "replace"), _found(data))
            if not is_last:
                return
            time.sleep(FOLLOW_INTERVAL_S)


def _found(data: bytes) -> Envelope | BadLine:
    try:
        return read_line(data)
    except BadLine as bad:
        return bad
