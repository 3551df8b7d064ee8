"""Damaged or foreign state files are refused, because a gateway would lose groups with them."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from gateway.state_log.record_format import Entry, encode_record
from gateway.state_log.sqlite import open_sqlite_log
from gateway.state_log.sqlite_layout import FORMAT
from gateway.state_log.sqlite_reader import read_state
from gateway.state_log.sqlite_writer import GroupWrite, SqliteWriter
from tests.gateway.state_log.state_folders import epoch, killed_writer, refusal, stored_groups
from tests.support.durable_records import FIRST_VERSION, GROUP, RECORDS

GOLDEN = Path(__file__).parents[2] / "golden"


def change(folder: Path, sql: str) -> None:
    """Change the file as no gateway does."""
    connection = sqlite3.connect(folder / "state.sqlite")
    with connection:
        connection.execute(sql)
    connection.close()


async def test_the_first_version_of_the_file_stays_readable(tmp_path: Path) -> None:
    """An upgrade must not lose a group. That file never changes."""
    shutil.copy(GOLDEN / "state_v1.sqlite", tmp_path / "state.sqlite")
    async with open_sqlite_log(tmp_path) as log:
        assert log.id == "0af7651916cd43dd8448eb211c80319c"
        records = {record.key: record for record in await log.read(GROUP)}
        assert records == {record.key: record for record in FIRST_VERSION}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DELETE FROM records WHERE position = 3", "has 14 records instead of 15"),
        (
            "UPDATE records SET value = CAST(value || x'00' AS BLOB) WHERE position = 3",
            "record 3, of 'orders'",
        ),
        ("UPDATE records SET value = 'é' WHERE position = 3", "record 3 is malformed"),
        ("UPDATE records SET group_id = CAST(x'ff' AS TEXT)", "Could not decode to UTF-8"),
        ("UPDATE records SET position = 40 WHERE position = 3", "record 40, of 'orders'"),
        ("UPDATE records SET key = 7 WHERE position = 3", "record 3 is malformed"),
        ("UPDATE log SET transactions = 5", "its head does not match its checksum"),
        ("DELETE FROM log", "its head does not match its checksum"),
        ("DROP TABLE records", "its tables are not those of a state log"),
        ("PRAGMA application_id = 7", "it is not a state log of groupferry"),
        (f"PRAGMA user_version = {FORMAT + 1}", "it was written by a newer groupferry"),
    ],
)
async def test_a_changed_file_is_refused(tmp_path: Path, sql: str, reason: str) -> None:
    """One line names the damage and the remedy. The file stays unchanged."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, list(RECORDS.values()))
    change(tmp_path, sql)
    before = (tmp_path / "state.sqlite").read_bytes()
    line = await refusal(tmp_path)
    assert reason in line
    assert f"move {tmp_path / 'state.sqlite'}* away" in line
    assert (tmp_path / "state.sqlite").read_bytes() == before


async def test_a_truncated_write_ahead_log_is_detected(tmp_path: Path) -> None:
    """SQLite silently ignores everything behind the cut."""
    killed_writer(tmp_path, 20)
    wal = tmp_path / "state.sqlite-wal"
    os.truncate(wal, wal.stat().st_size - 10)
    before = wal.read_bytes()
    assert "the last 1 of 21 transactions are missing" in await refusal(tmp_path)
    assert wal.read_bytes() == before
    wal.unlink()
    assert "the last 21 of 21 transactions are missing" in await refusal(tmp_path)


async def test_a_missing_or_empty_file_is_refused_next_to_a_mark(tmp_path: Path) -> None:
    """To drop the groups on purpose, an operator removes the mark as well."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
    (tmp_path / "state.sqlite").write_bytes(b"")
    assert "it is missing or empty after 2 transactions" in await refusal(tmp_path)
    (tmp_path / "state.sqlite").unlink()
    assert "it is missing or empty after 2 transactions" in await refusal(tmp_path)
    (tmp_path / "state.sqlite-mark").unlink()
    assert await stored_groups(tmp_path) == {}


async def test_another_log_in_its_place_is_refused(tmp_path: Path) -> None:
    """The other log may be a backup of another gateway. The remedy says how to use it."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        async with open_sqlite_log(folder) as log:
            await log.append(folder.name, [epoch(1)])
    shutil.copy(there / "state.sqlite", here / "state.sqlite")
    line = await refusal(here)
    assert "state.sqlite-mark next to it belongs to another log" in line
    assert f"remove {here / 'state.sqlite-mark'}" in line
    (here / "state.sqlite-mark").unlink()
    assert await stored_groups(here) == {"there": (epoch(1),)}


async def test_a_damaged_mark_is_refused(tmp_path: Path) -> None:
    """A damaged mark cannot show whether transactions are missing."""
    await stored_groups(tmp_path)
    mark = tmp_path / "state.sqlite-mark"
    mark.write_bytes(mark.read_bytes().replace(b"1", b"2"))
    assert "is damaged" in await refusal(tmp_path)


async def test_reading_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    """A person can read the log while the gateway writes."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        state = read_state(tmp_path)
        assert state is not None
        assert [row.entry for row in state.rows] == [encode_record(GROUP, epoch(1))]
        await log.append(GROUP, [epoch(2)])
    assert read_state(tmp_path / "nowhere") is None


def test_a_record_of_a_later_groupferry_is_read_in_bytes(tmp_path: Path) -> None:
    """`groupferry state` shows it raw."""
    writer = SqliteWriter.open(tmp_path, None)
    unknown = Entry(b"\x7f\x00", b"\x00\x00")
    assert writer.write([GroupWrite(GROUP, [unknown])]) == [None]
    writer.close()
    state = read_state(tmp_path)
    assert state is not None
    (row,) = state.rows
    assert (row.group_id, row.entry) == (GROUP, unknown)
