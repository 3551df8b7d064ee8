"""Writes the state file: each transaction is complete and on disk before it is acknowledged.

The only writer of its file, in a locked folder. Blocking.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self
from uuid import uuid4

import structlog

from gateway.state_folder import LOOK_AT_FILE, sync_names
from gateway.state_log import commit_mark
from gateway.state_log.commit_mark import Mark, MarkFile
from gateway.state_log.log import StateLogError, StateLogUnsure, StateLogUnusable
from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite_layout import (
    APPLICATION_ID,
    FILE_NAME,
    FORMAT,
    TABLES,
    Head,
    checksum_of,
)
from gateway.state_log.sqlite_reader import BUSY_S, StoredState

log = structlog.get_logger()

WAL_BYTES_MAX = 16 * 1024 * 1024
"""The size to which the write-ahead log's file is truncated after it was larger."""

FREE_PAGES_MAX = 1_024
"""Free pages that the file keeps at least: it may need them again (4 MiB)."""
FREE_SHARE_MAX = 4
"""Beyond that, and beyond one page in this many, free pages go back to the file system."""
PAGES_PER_WRITE_MAX = 256
"""How many free pages go back after each transaction, so that no group waits long for it."""

_NOT_COMMITTED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_BUSY})
"""Errors after which a COMMIT has certainly not happened: the frame that makes it valid is written
last, and was not. After any other failure, such as a failed sync, the transaction may be found when
the file is next opened."""


class GroupWrite(NamedTuple):
    """The records that one group writes together."""

    group_id: str
    entries: Sequence[Entry]


class _Identity(NamedTuple):
    """Identifies a file, with its minimum size."""

    device: int
    inode: int
    size: int


class SqliteWriter:
    """The open file. `head` is the head after the last transaction."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, head: Head, last_position: int
    ) -> None:
        self._path = path
        self._connection = connection
        self._last_position = last_position
        self._files: dict[Path, _Identity] = {}
        self._mark: MarkFile | None = None
        self.head = head
        self.is_in_doubt = False
        """Whether a failed transaction may be found when the file is next opened."""

    @classmethod
    def open(cls, folder: Path, stored: StoredState | None) -> Self:
        """Open the file that was `found`, or create one. Raises StateLogUnusable."""
        path = folder / FILE_NAME
        try:
            connection = sqlite3.connect(
                path, isolation_level=None, timeout=BUSY_S, check_same_thread=False
            )
            try:
                return cls._start(path, connection, stored)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, StateLogError) as error:
            raise StateLogUnusable(f"cannot write {path}: {error}; {LOOK_AT_FILE}") from None
        except OSError as error:
            raise StateLogUnusable(
                f"cannot write {error.filename or folder}: {error.strerror}; {LOOK_AT_FILE}"
            ) from None

    @classmethod
    def _start(cls, path: Path, connection: sqlite3.Connection, stored: StoredState | None) -> Self:
        if stored is None:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        head = _make(connection, path.parent) if stored is None else stored.head
        last_position = stored.rows[-1].position if stored and stored.rows else 0
        writer = cls(path, connection, head, last_position)
        connection.execute(f"PRAGMA user_version = {FORMAT}")  # upgrades an older file
        connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        writer._begin_and_commit(())  # fail now if the file cannot be written
        writer._mark = MarkFile.open(path.parent / commit_mark.FILE_NAME, writer._mark_now)
        return writer

    def write(self, batches: Sequence[GroupWrite]) -> list[StateLogError | None]:
        """Write all batches in one transaction, each whole or not at all. Returns the error of
        each.

        If they cannot be written together, each is tried alone. A failure is StateLogUnsure until
        another transaction has taken its place.
        """
        outcomes = self._write(batches)
        if self.is_in_doubt:
            return [error and StateLogUnsure(str(error)) for error in outcomes]
        return outcomes

    def settle(self) -> None:
        """Overwrite a failed transaction, so that it is certainly not in the file.

        Raises StateLogError.
        """
        self._begin_and_commit(())
        self._write_mark()

    def _write(self, batches: Sequence[GroupWrite]) -> list[StateLogError | None]:
        try:
            self._begin_and_commit(batches)
        except StateLogError as error:
            if len(batches) == 1:
                return [error]
            return [outcome for batch in batches for outcome in self._write([batch])]
        self._write_mark()
        self._give_back()
        return [None] * len(batches)

    def _give_back(self) -> None:
        """Return some free pages to the file system, if there are many. Content stays the same, so
        a failure loses nothing; the next transaction finds out what is wrong with the disk."""
        try:
            free_max = max(FREE_PAGES_MAX, self._number("page_count") // FREE_SHARE_MAX)
            free = self._number("freelist_count")
            if free <= free_max:
                return
            # `execute` would free one page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({PAGES_PER_WRITE_MAX})")
            if free - PAGES_PER_WRITE_MAX <= free_max:  # the last ones for now
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            log.warning("state_log_not_shrunk", reason=str(error))
        self._files = _identities(self._path)

    def _number(self, pragma: str) -> int:
        number: int = self._connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        return number

    def close(self) -> None:
        """Close the connection, which merges the write-ahead log into the file."""
        if self._mark is not None:
            self._mark.close()
        self._connection.close()

    def _begin_and_commit(self, batches: Iterable[GroupWrite]) -> None:
        """Write one transaction. Raises StateLogError; nothing of it is then in the file unless
        `is_in_doubt`."""
        try:
            self._check_files()
            self._connection.execute("BEGIN IMMEDIATE")
            head, last_position = self._put(batches)
            self._commit()
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise StateLogError(f"{self._path}: {error}") from None
            raise
        self.head, self._last_position = head, last_position
        self._files = _identities(self._path)
        self.is_in_doubt = False

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            # A certain failure does not clear an earlier doubt.
            if error.sqlite_errorcode not in _NOT_COMMITTED:
                self.is_in_doubt = True
            raise

    def _put(self, batches: Iterable[GroupWrite]) -> tuple[Head, int]:
        """Write the batches. Returns the new head and the last position."""
        head, position = self.head, self._last_position
        execute = self._connection.execute
        for group_id, entries in batches:
            for entry in entries:
                (old,) = execute(
                    "SELECT checksum FROM records WHERE key = ?", (entry.key,)
                ).fetchone() or (None,)
                if old is not None:
                    execute("DELETE FROM records WHERE key = ?", (entry.key,))
                    head = head.without_row(old)
                if entry.value is not None:
                    position += 1
                    checksum = checksum_of(position, group_id, entry)
                    row = (position, group_id, entry.key, entry.value, checksum)
                    execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
                    head = head.with_row(checksum)
        head = head._replace(transactions=head.transactions + 1)
        changed = execute(
            "UPDATE log SET transactions = ?, records = ?, checksums = ?, checksum = ?"
            " WHERE checksum = ?",
            (*head[1:], head.checksum, self.head.checksum),
        ).rowcount
        if changed != 1:
            raise sqlite3.DatabaseError("another process has written to it")
        return head, position

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                log.warning("state_log_rollback_failed", reason=str(error))

    def _check_files(self) -> None:
        """Check that the files still exist: SQLite would keep writing to a deleted file."""
        for path, expected in self._files.items():
            identity = _identity(path)
            if identity is None or identity[:2] != expected[:2]:
                raise sqlite3.DatabaseError(f"{path.name} was deleted or replaced")
            if identity.size < expected.size:
                raise sqlite3.DatabaseError(f"{path.name} was truncated")

    @property
    def _mark_now(self) -> Mark:
        return Mark(self.head.log_id, self.head.transactions)

    def _write_mark(self) -> None:
        """Write the mark. The transaction is in the file even if this fails."""
        assert self._mark is not None
        try:
            self._mark.write(self._mark_now)
        except OSError as error:
            log.warning("state_log_mark_failed", reason=str(error))


def _make(connection: sqlite3.Connection, folder: Path) -> Head:
    head = Head(uuid4().hex, 0, 0, 0)
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", (*head, head.checksum))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
    sync_names(folder)
    return head


def _identities(path: Path) -> dict[Path, _Identity]:
    both = (path, path.with_name(path.name + "-wal"))
    return {file: identity for file in both if (identity := _identity(file)) is not None}


def _identity(path: Path) -> _Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _Identity(status.st_dev, status.st_ino, status.st_size)
