"""The layout of the state file: its tables, and the checksums that detect damage.

SQLite checks the structure of its pages but not their contents. Each row therefore has a checksum,
and the row of `log` has the number of records and the sum of their checksums, which every
transaction updates. This detects both flipped bytes and missing rows.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Self

from gateway.state_log.record_format import Entry

FILE_NAME = "state.sqlite"
FORMAT = 3
"""Raised when older versions of groupferry cannot read the file. Stored as SQLite's user_version.
2: records of a group's last events. 3: removals from classic groups."""

APPLICATION_ID = 0x67726679
"""Identifies our files to `file` and to SQLite's tools: "grfy"."""

TABLES = (
    "CREATE TABLE log (id TEXT NOT NULL, transactions INTEGER NOT NULL,"
    " records INTEGER NOT NULL, checksums INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE records (position INTEGER PRIMARY KEY, group_id TEXT NOT NULL,"
    " key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
)
"""`position` is the order of writing; `record_format` defines `key` and `value`."""

_SIZES = struct.Struct(">qqq")
_BITS = 63
"""The bits of a checksum that fit into SQLite's signed integers."""


class Head(NamedTuple):
    """The row of `log`."""

    log_id: str
    transactions: int
    """The number of committed transactions."""
    records: int
    checksums: int
    """The sum of the checksums of all records."""

    def of_rows(self, checksums: Sequence[int]) -> Self:
        """The head of a file whose records have these checksums."""
        return self._replace(records=len(checksums), checksums=sum(checksums) % (1 << _BITS))

    def with_row(self, checksum: int) -> Self:
        """The head after a row was added."""
        return self._replace(
            records=self.records + 1, checksums=(self.checksums + checksum) % (1 << _BITS)
        )

    def without_row(self, checksum: int) -> Self:
        """The head after a row was removed."""
        return self._replace(
            records=self.records - 1, checksums=(self.checksums - checksum) % (1 << _BITS)
        )

    @property
    def checksum(self) -> int:
        """The checksum of this row."""
        return _hash(repr(tuple(self)).encode())


def checksum_of(position: int, group_id: str, entry: Entry) -> int:
    """The checksum of a row of `records`."""
    value = entry.value or b""
    sizes = _SIZES.pack(position, len(entry.key), len(value))
    return _hash(sizes, entry.key, value, group_id.encode())


def _hash(*parts: bytes) -> int:
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest()) >> (64 - _BITS)
