"""How the state file is laid out: its tables, and the sums that tell whether they are whole.

SQLite checks how its pages hang together, not what is in them. So each row carries a checksum, and
the one row of `log` the number of records and the sum of their checksums, which every transaction
brings up to date: a byte that flipped and a row that vanished are both seen.
"""

from hashlib import blake2b
from typing import NamedTuple, Self

from gateway.state_log.record_format import Entry

FILE_NAME = "state.sqlite"
FORMAT = 3
"""Grows when an older groupferry could no longer read the file. It is SQLite's user_version.
2: records of a group's last events. 3: removals from classic groups."""

APPLICATION_ID = 0x67726679
"""What `file` and SQLite's own tools know our files by: "grfy"."""

TABLES = (
    "CREATE TABLE log (id TEXT NOT NULL, transactions INTEGER NOT NULL,"
    " records INTEGER NOT NULL, checksums INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE records (position INTEGER PRIMARY KEY, group_id TEXT NOT NULL,"
    " key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
)
"""`position` is the order of writing, `key` and `value` are as in `record_format`."""

_BITS = 63
"""Of a checksum: what fits into SQLite's signed integers."""


class Head(NamedTuple):
    """The row of `log`."""

    log_id: str
    transactions: int
    """How many were committed."""
    records: int
    checksums: int
    """The sum of those of all records."""

    def with_row(self, checksum: int) -> Self:
        """The head when a row was added."""
        return self._replace(
            records=self.records + 1, checksums=(self.checksums + checksum) % (1 << _BITS)
        )

    def without_row(self, checksum: int) -> Self:
        """The head when a row was taken away."""
        return self._replace(
            records=self.records - 1, checksums=(self.checksums - checksum) % (1 << _BITS)
        )

    @property
    def checksum(self) -> int:
        """Its own."""
        return _sum_of(repr(tuple(self)).encode())


def checksum_of(position: int, group_id: str, entry: Entry) -> int:
    """That of one row of `records`."""
    value = entry.value or b""
    lengths = (position, len(entry.key), len(value))
    sizes = b"".join(number.to_bytes(8, signed=True) for number in lengths)
    return _sum_of(sizes, entry.key, value, group_id.encode())


def _sum_of(*parts: bytes) -> int:
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest()) >> (64 - _BITS)
