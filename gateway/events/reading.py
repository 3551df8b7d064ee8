"""The lines of an events folder, in the order of writing, once each; also while a gateway writes.

Changes nothing and takes no lock. A repeat is known by its place in its sequence. Must not know
what is done with an event.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gateway.events.catalog import BadLine, read_line
from gateway.events.envelope import Envelope
from gateway.events.line_files import PATTERN

FOLLOW_INTERVAL_S = 0.25
"""How often a folder is looked at for more."""


class Line(NamedTuple):
    """One line, and its event or why it has none."""

    path: Path
    number: int
    text: str
    found: Envelope | BadLine


def read_lines(folder: Path, *, follows: bool = False) -> Iterator[Line]:
    """All lines, without repeats; if it `follows`, those to come as well, for ever. Blocks.

    Raises OSError.
    """
    last: dict[tuple[str, str | None, str | None], int] = {}
    for line in _lines(folder, follows=follows):
        if isinstance(each := line.found, Envelope):
            of_group = each.group_id if each.process_id is None else None
            sequence = (each.gateway_id, of_group, each.process_id)
            if each.sequence <= last.get(sequence, 0):
                continue
            last[sequence] = each.sequence
        yield line


def _lines(folder: Path, *, follows: bool) -> Iterator[Line]:
    done: Path | None = None
    while True:
        for path in sorted(folder.glob(PATTERN)):
            if done is None or path > done:
                with contextlib.suppress(FileNotFoundError):  # the oldest goes at any time
                    yield from _of_file(path, follows=follows)
                done = path
        if not follows:
            return
        time.sleep(FOLLOW_INTERVAL_S)


def _of_file(path: Path, *, follows: bool) -> Iterator[Line]:
    """To its end, which only comes once there is a later file."""
    with path.open("rb") as file:
        number = 0
        while True:
            is_last = follows and path == max(path.parent.glob(PATTERN), default=path)
            while data := file.readline():
                if not data.endswith(b"\n"):
                    if is_last:
                        file.seek(-len(data), 1)  # it is being written
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
