"""The state file is written in whole, synced transactions."""

import errno
import os
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.state_folder import LOOK_AT_FILE
from gateway.state_log import sqlite_writer
from gateway.state_log.last_events import FORGOTTEN, LastEvents
from gateway.state_log.log import StateLogError, StateLogUnusable
from gateway.state_log.record_format import encode_record
from gateway.state_log.sqlite import open_sqlite_log
from gateway.state_log.sqlite_layout import FORMAT
from gateway.state_log.sqlite_reader import read_state
from gateway.state_log.sqlite_writer import GroupWrite, SqliteWriter
from tests.gateway.state_log.state_folders import epoch, killed_writer, refusal, stored_groups
from tests.support.durable_records import FIRST_VERSION, GROUP, RECORDS, TOMBSTONES

GOLDEN = Path(__file__).parents[2] / "golden"


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """No file of this process can grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(file.stat().st_size for file in folder.iterdir() if file.suffix != ".sqlite-shm")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_batches_written_together_are_one_transaction(tmp_path: Path) -> None:
    """The batches share one sync and one mark."""
    writer = SqliteWriter.open(tmp_path, None)
    before = writer.head
    batches = [GroupWrite(group, [encode_record(group, epoch(1))]) for group in ("a", "b", "c")]
    assert writer.write(batches) == [None, None, None]
    assert writer.head.transactions == before.transactions + 1
    assert writer.head.records == before.records + 3
    writer.close()
    state = read_state(tmp_path)
    assert state is not None
    assert state.head == writer.head
    assert [row.group_id for row in state.rows] == ["a", "b", "c"]


async def test_an_older_file_gets_the_present_format(tmp_path: Path) -> None:
    """The older groupferry would refuse an unmarked file as damaged, without the reason."""
    shutil.copy(GOLDEN / "state_v1.sqlite", tmp_path / "state.sqlite")
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [LastEvents(sequence=2, lines=("one", "two"))])
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    async with open_sqlite_log(tmp_path) as log:
        assert log.last_events(GROUP) == LastEvents(sequence=2, lines=("one", "two"))
        assert len(await log.read(GROUP)) == len({record.key for record in FIRST_VERSION})


async def test_its_size_follows_the_live_state(tmp_path: Path) -> None:
    """A thousand epochs of a group take the space of one."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(0)])
        for number in range(1_000):
            await log.append(GROUP, [epoch(number)])
    assert (tmp_path / "state.sqlite").stat().st_size <= 8 * 4096
    async with open_sqlite_log(tmp_path) as log:
        for number in range(200):
            await log.append(f"g{number}", FIRST_VERSION)
        for number in range(200):
            await log.append(f"g{number}", list(TOMBSTONES.values()))
    assert (tmp_path / "state.sqlite").stat().st_size > 100_000
    await stored_groups(tmp_path)
    assert (tmp_path / "state.sqlite").stat().st_size < 100_000


async def test_free_space_goes_back_while_the_log_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it with each write, so that no write takes long. A reserve stays."""
    monkeypatch.setattr(sqlite_writer, "FREE_PAGES_MAX", 16)
    monkeypatch.setattr(sqlite_writer, "PAGES_PER_WRITE_MAX", 32)
    path = tmp_path / "state.sqlite"
    large = LastEvents(sequence=1, lines=("x" * 4_000,))
    async with open_sqlite_log(tmp_path) as log:
        for number in range(500):
            await log.append(f"g{number}", [large])
        peak_bytes = path.stat().st_size
        assert peak_bytes > 2_000_000
        sizes = [peak_bytes]
        for number in range(500):
            await log.append(f"g{number}", [FORGOTTEN])
            sizes.append(path.stat().st_size)
        assert sizes[-1] < peak_bytes / 10
        assert len(set(sizes)) > 2, "it shrinks step by step"
        await log.append("g", [epoch(1)])
    assert await stored_groups(tmp_path) == {"g": (epoch(1),)}


async def test_space_that_cannot_be_given_back_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is stored already."""
    monkeypatch.setattr(sqlite_writer, "FREE_PAGES_MAX", 0)
    monkeypatch.setattr(sqlite_writer, "PAGES_PER_WRITE_MAX", "1)x")
    async with open_sqlite_log(tmp_path) as log:
        await log.append("g", [LastEvents(sequence=1, lines=("x" * 400_000,))])
        with capture_logs() as lines:
            await log.append("g", [FORGOTTEN, epoch(1)])
    assert {line["event"] for line in lines} == {"state_log_not_shrunk"}
    assert await stored_groups(tmp_path) == {"g": (epoch(1),)}


async def test_free_space_that_cannot_be_counted_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure would be told of a batch that the file has."""

    def number(_writer: SqliteWriter, _pragma: str) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SqliteWriter, "_number", number)
    async with open_sqlite_log(tmp_path) as log:
        await log.append("g", [epoch(1)])
    assert await stored_groups(tmp_path) == {"g": (epoch(1),)}


async def test_a_full_disk_is_an_error_until_space_is_free(tmp_path: Path) -> None:
    """Nothing of the batch is in the log. Then writing continues."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        with full_disk(tmp_path):
            for number in range(2, 5):
                with pytest.raises(StateLogError, match=r"state\.sqlite: .*(full|disk I/O)"):
                    await log.append(GROUP, [epoch(number), *RECORDS.values()])
            assert await log.read(GROUP) == (epoch(1),)
        await log.append(GROUP, [epoch(5)])
        assert await log.read(GROUP) == (epoch(5),)
    assert await stored_groups(tmp_path) == {GROUP: (epoch(5),)}


@pytest.mark.parametrize("written", [None, 0, 10])
async def test_a_failed_first_mark_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int | None
) -> None:
    """The error names the problem and the file. The next start finds no partial mark."""
    pwrite = os.pwrite

    def no_space(descriptor: int, data: bytes, offset: int) -> int:
        if written is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data[:written], offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", no_space)
        assert await refusal(tmp_path) == (
            f"cannot write {tmp_path / 'state.sqlite-mark'}: No space left on device;"
            f" {LOOK_AT_FILE}"
        )
    assert await stored_groups(tmp_path) == {}


@pytest.mark.parametrize("name", ["state.sqlite", "state.sqlite-wal"])
async def test_a_deleted_or_replaced_file_is_noticed(tmp_path: Path, name: str) -> None:
    """SQLite would continue to write into a file without a name."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(StateLogError, match=f"{name} was deleted or replaced"):
            await log.append(GROUP, [epoch(2)])
        shutil.copy(tmp_path / "away", tmp_path / name)
        with pytest.raises(StateLogError, match=f"{name} was deleted or replaced"):
            await log.append(GROUP, [epoch(2)])
        (tmp_path / "away").rename(tmp_path / name)
        await log.append(GROUP, [epoch(3)])
    assert await stored_groups(tmp_path) == {GROUP: (epoch(3),)}


async def test_a_truncated_file_is_noticed(tmp_path: Path) -> None:
    """Records written behind the cut would be lost."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        os.truncate(tmp_path / "state.sqlite-wal", 1_000)
        with pytest.raises(StateLogError, match="sqlite-wal was truncated"):
            await log.append(GROUP, [epoch(2)])


async def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    """The folder's lock prevents it. If a user removes the lock, the file detects it."""
    async with open_sqlite_log(tmp_path) as log, open_sqlite_log(tmp_path) as other:
        await other.append(GROUP, [epoch(2)])
        with pytest.raises(StateLogError, match="another process has written to it"):
            await log.append(GROUP, [epoch(1)])
        assert await other.read(GROUP) == (epoch(2),)


@pytest.mark.parametrize("transactions", [0, 3, 400])
async def test_a_killed_writer_loses_no_records(tmp_path: Path, transactions: int) -> None:
    """Appended records are present, and the next gateway continues."""
    killed_writer(tmp_path, transactions)
    restored = await stored_groups(tmp_path)
    assert sum(map(len, restored.values())) == min(transactions, 7)
    epochs = {record for records in restored.values() for record in records}
    assert epochs == set(map(epoch, range(max(0, transactions - 7), transactions)))


async def test_a_read_only_folder_is_refused(read_only_folder: Path) -> None:
    """The folder is refused at the start, not with the first member."""
    with pytest.raises(StateLogUnusable, match=r"cannot write .*unable to open database file"):
        await stored_groups(read_only_folder)
