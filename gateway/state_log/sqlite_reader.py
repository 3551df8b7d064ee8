"""Reads the whole state file, and checks all of it first.

Changes nothing: a refused file stays as it was, and a file can be read while a gateway writes it.
Blocking.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gateway.state_folder import LOOK_AT_FILE
from gateway.state_log import commit_mark
from gateway.state_log.commit_mark import DamagedMark, Mark
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite_layout import (
    APPLICATION_ID,
    FILE_NAME,
    FORMAT,
    TABLES,
    Head,
    checksum_of,
)

BUSY_S = 5.0
"""How long to wait for another process to release the file's lock."""


class StoredRow(NamedTuple):
    """One record of the file."""

    position: int
    group_id: str
    entry: Entry
    checksum: int


def place_of(position: int) -> str:
    """How messages name a record of the file."""
    return f"record {position} of {FILE_NAME}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The contents of a state file."""

    head: Head
    rows: tuple[StoredRow, ...]
    """The rows in the order of writing."""
    is_marked: bool
    """Whether there was a commit mark to compare the file with."""


_MOVE_AWAY = "move {path}* away: its groups are then forgotten, and their members rejoin"
_PUT_BACK = f"Restore it from a complete copy, or {_MOVE_AWAY}"


class _Damage(Exception):
    """The file is not as a gateway left it; `remedy` says what to do."""

    def __init__(self, reason: str, remedy: str = _PUT_BACK) -> None:
        super().__init__(reason)
        self.remedy = remedy


def read_state(folder: Path) -> StoredState | None:
    """The contents of the folder's state file; None if there is none and never was.

    Raises StateLogUnusable if it is damaged, incomplete, or of a later groupferry.
    """
    path = folder / FILE_NAME
    mark = _read_mark(folder)
    try:
        return _read_file(path, mark)
    except _Damage as damage:
        raise StateLogUnusable(f"{path}: {damage}. {damage.remedy.format(path=path)}") from None
    except sqlite3.Error as error:
        if not _is_damage(error):
            raise StateLogUnusable(f"cannot read {path}: {error}; {LOOK_AT_FILE}") from None
        raise StateLogUnusable(f"{path}: {error}. {_PUT_BACK.format(path=path)}") from None
    except OSError as error:
        raise StateLogUnusable(f"cannot read {path}: {error.strerror}; {LOOK_AT_FILE}") from None


def _read_file(path: Path, mark: Mark | None) -> StoredState | None:
    state = None
    if _size(path):
        with closing(_connect(path)) as connection:
            state = _read(connection, is_marked=mark is not None)
    elif mark is None and _size(path.with_name(path.name + "-wal")):
        raise _Damage("it is missing or empty although its write-ahead log exists")
    if mark is not None:
        if state is None:
            raise _Damage(f"it is missing or empty after {mark.transaction} transactions")
        _compare(state.head, mark)
    return state


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_mark(folder: Path) -> Mark | None:
    path = folder / commit_mark.FILE_NAME
    try:
        return commit_mark.read_mark(path)
    except DamagedMark:
        raise StateLogUnusable(
            f"{path} is damaged. It counts the transactions of {FILE_NAME}: remove it to continue"
            " without that check"
        ) from None
    except OSError as error:
        raise StateLogUnusable(f"cannot read {path}: {error.strerror}; {LOOK_AT_FILE}") from None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_S
    )


def _read(connection: sqlite3.Connection, *, is_marked: bool) -> StoredState | None:
    """The contents, read in one transaction; None if the file was never completed."""
    connection.execute("BEGIN")
    tables = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql <> ''")]
    application_id, file_format = (
        _number(connection, f"PRAGMA {name}") for name in ("application_id", "user_version")
    )
    if not tables and not application_id:
        return None
    if application_id != APPLICATION_ID:
        raise _Damage("it is not a state log of groupferry")
    if file_format > FORMAT:
        raise _Damage(
            f"it was written by a newer groupferry (format {file_format}, this one reads {FORMAT})",
            f"Start the newer groupferry, or {_MOVE_AWAY}",
        )
    if tables != list(TABLES):
        raise _Damage("its tables are not those of a state log")
    for (complaint,) in connection.execute("PRAGMA integrity_check(1)"):
        if complaint != "ok":
            raise _Damage(" ".join(str(complaint).split()))
    head = _read_head(connection)
    rows = tuple(_read_rows(connection))
    if head.of_rows([row.checksum for row in rows]) != head:
        raise _Damage(f"it has {len(rows)} records instead of {head.records}")
    return StoredState(head=head, rows=rows, is_marked=is_marked)


def _number(connection: sqlite3.Connection, query: str) -> int:
    (number,) = connection.execute(query).fetchone()
    return int(number)


def _read_head(connection: sqlite3.Connection) -> Head:
    match connection.execute("SELECT * FROM log").fetchall():
        case [(str(log_id), int(transactions), int(records), int(checksums), int(checksum))]:
            head = Head(log_id, transactions, records, checksums)
            if head.checksum == checksum:
                return head
        case _:
            pass
    raise _Damage("its head does not match its checksum")


def _read_rows(connection: sqlite3.Connection) -> Iterator[StoredRow]:
    query = "SELECT position, group_id, key, value, checksum FROM records ORDER BY position"
    for row in connection.execute(query):
        yield _check_row(row)


def _check_row(row: Any) -> StoredRow:
    # A start reads every record of every group here.
    position, group_id, key, value, checksum = row
    if (type(position), type(group_id), type(key), type(value), type(checksum)) != _COLUMN_TYPES:
        raise _Damage(f"record {position!r} is malformed")
    entry = Entry(key, value)
    if checksum_of(position, group_id, entry) != checksum:
        raise _Damage(f"record {position}, of {group_id!r}, does not match its checksum")
    return StoredRow(position, group_id, entry, checksum)


_COLUMN_TYPES = (int, str, bytes, bytes, int)


def _compare(head: Head, mark: Mark) -> None:
    remedy = f"{_PUT_BACK}. If it is the right file, remove {{path}}-mark"
    if mark.log_id != head.log_id:
        raise _Damage(f"{commit_mark.FILE_NAME} next to it belongs to another log", remedy)
    if head.transactions < mark.transaction:
        lost = mark.transaction - head.transactions
        raise _Damage(f"the last {lost} of {mark.transaction} transactions are missing", remedy)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the error comes from the contents of the file, not from a lock or a permission."""
    if not isinstance(error, sqlite3.OperationalError):
        return True
    # An error about text that is not UTF-8 has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR_SHORT_READ)
