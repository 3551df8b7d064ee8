"""The log in SQLite: durable before it says so, and suspicious of what it finds."""

import errno
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from coordinator.records import DurableRecord, TargetAssignmentMetadata
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.last_events import LastEvents
from gateway.state_log.log import StateLogError, StateLogUnsure, StateLogUnusable
from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite import BATCHES_MAX, SqliteLog, open_sqlite_log
from gateway.state_log.sqlite_layout import FORMAT
from gateway.state_log.sqlite_reader import read_state
from gateway.state_log.sqlite_writer import Batch
from tests.support.durable_records import FIRST_VERSION, GROUP, RECORDS, TOMBSTONES
from tests.support.failing_sync import without_sync

GOLDEN = Path(__file__).parents[2] / "golden"

WRITE_AND_DIE = """
import os, signal, sys, trio
from pathlib import Path
from coordinator.records import TargetAssignmentMetadata
from gateway.state_log.sqlite import open_sqlite_log

async def main():
    async with open_sqlite_log(Path(sys.argv[1])) as log:
        for epoch in range(int(sys.argv[2])):
            await log.append("g%d" % (epoch % 7), [TargetAssignmentMetadata(epoch=epoch)])
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


def epoch(number: int) -> DurableRecord:
    """A small record, another one for each number."""
    return TargetAssignmentMetadata(epoch=number)


async def stored(folder: Path) -> dict[str, tuple[DurableRecord, ...]]:
    """What a gateway that starts now would find."""
    async with open_sqlite_log(folder) as log:
        return {each: tuple(await log.read(each)) for each in await log.group_ids()}


def killed_writer(folder: Path, transactions: int) -> None:
    """Leave the files of a gateway that was killed after so many transactions."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE_AND_DIE, str(folder), str(transactions)], check=False
    )
    assert done.returncode == -signal.SIGKILL


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """No file of this process can grow: to SQLite as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(each.stat().st_size for each in folder.iterdir() if each.suffix != ".sqlite-shm")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- what it keeps -------------------------------------------------------------------------------


async def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    """Every kind of record, newest last; the log is the same one."""
    async with open_sqlite_log(tmp_path) as log:
        first_id = log.id
        for record in RECORDS.values():
            await log.append(GROUP, [record])
        before = await log.read(GROUP)
    async with open_sqlite_log(tmp_path) as log:
        assert log.id == first_id
        assert log.outlives_process
        assert await log.read(GROUP) == before
        assert set(await log.group_ids()) == {GROUP}


async def test_it_holds_what_every_log_holds(tmp_path: Path) -> None:
    """Replaced and deleted records are gone, whatever a batch does to one key."""
    expected = CompactedLog()
    async with open_sqlite_log(tmp_path) as log:
        batches = [
            ("a", [epoch(1), RECORDS["native_member"], epoch(2)]),
            ("b", [*RECORDS.values()]),
            ("a", [epoch(3)]),
            ("b", [*TOMBSTONES.values(), RECORDS["group_configs"]]),
            ("c", [epoch(1)]),
            ("c", [TOMBSTONES["target_metadata"], epoch(2), TOMBSTONES["target_metadata"]]),
            ("d", [TOMBSTONES["member"]]),
        ]
        for group_id, batch in batches:
            await log.append(group_id, batch)
            expected.put(group_id, batch)
    assert await stored(tmp_path) == {each: expected.read(each) for each in expected.group_ids()}


async def test_its_size_follows_the_live_state(tmp_path: Path) -> None:
    """Not the history: a thousand epochs of a group take the room of one."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(0)])
        for number in range(1_000):
            await log.append(GROUP, [epoch(number)])
    assert (tmp_path / "state.sqlite").stat().st_size <= 8 * 4096
    async with open_sqlite_log(tmp_path) as log:
        for number in range(200):
            await log.append(f"g{number}", list(RECORDS.values()))
        for number in range(200):
            await log.append(f"g{number}", list(TOMBSTONES.values()))
    assert (tmp_path / "state.sqlite").stat().st_size > 100_000
    await stored(tmp_path)
    assert (tmp_path / "state.sqlite").stat().st_size < 100_000


async def test_the_first_version_of_the_file_is_read_for_ever(tmp_path: Path) -> None:
    """An upgrade of groupferry must not forget a group: that file never changes."""
    shutil.copy(GOLDEN / "state_v1.sqlite", tmp_path / "state.sqlite")
    async with open_sqlite_log(tmp_path) as log:
        assert log.id == "0af7651916cd43dd8448eb211c80319c"
        found = {record.key: record for record in await log.read(GROUP)}
        assert found == {record.key: record for record in FIRST_VERSION}


async def test_an_older_file_becomes_one_of_this_format(tmp_path: Path) -> None:
    """The older groupferry would refuse it as damaged otherwise, and not say why."""
    shutil.copy(GOLDEN / "state_v1.sqlite", tmp_path / "state.sqlite")
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [LastEvents(sequence=2, lines=("one", "two"))])
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    async with open_sqlite_log(tmp_path) as log:
        assert await log.last_events(GROUP) == LastEvents(sequence=2, lines=("one", "two"))
        assert len(await log.read(GROUP)) == len({record.key for record in FIRST_VERSION})


async def test_the_last_events_of_a_group_outlive_it(tmp_path: Path) -> None:
    """And make no group: nobody would know what to show of it."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1), LastEvents(sequence=1, lines=("one",))])
        gone = TargetAssignmentMetadata(epoch=None)
        await log.append(GROUP, [gone, LastEvents(sequence=2, lines=("two",))])
        assert await log.group_ids() == ()
    async with open_sqlite_log(tmp_path) as log:
        assert (await log.group_ids(), await log.read(GROUP)) == ((), ())
        assert await log.told_group_ids() == (GROUP,)
        assert await log.last_events(GROUP) == LastEvents(sequence=2, lines=("two",))
        assert await log.last_events("other") is None


# -- who waits for what --------------------------------------------------------------------------


async def test_groups_that_write_together_share_a_transaction(tmp_path: Path) -> None:
    """However many wait while one is written: the disk syncs for all of them at once."""
    async with open_sqlite_log(tmp_path) as log:
        before = log._writer.head.transactions
        async with trio.open_nursery() as nursery:
            for number in range(BATCHES_MAX + 1):
                nursery.start_soon(log.append, f"g{number}", [epoch(number)])
        assert log._writer.head.transactions - before <= 3
        assert len(await log.group_ids()) == BATCHES_MAX + 1
    assert len(await stored(tmp_path)) == BATCHES_MAX + 1


async def test_a_batch_that_cannot_be_written_harms_no_other(tmp_path: Path) -> None:
    """Neither one without bytes nor one that SQLite refuses."""
    outcomes: dict[str, str] = {}

    async def append(log: SqliteLog, group_id: str, record: DurableRecord) -> None:
        try:
            await log.append(group_id, [record])
        except StateLogError as error:
            outcomes[group_id] = str(error)
        else:
            outcomes[group_id] = "written"

    async with open_sqlite_log(tmp_path) as log:
        log._writer._connection.execute(
            "CREATE TEMP TRIGGER no BEFORE INSERT ON records"
            " WHEN NEW.group_id = 'refused' BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
        async with trio.open_nursery() as nursery:
            for group_id in ("first", "second", "refused", "third"):
                nursery.start_soon(append, log, group_id, epoch(1))
            nursery.start_soon(append, log, "wide", TargetAssignmentMetadata(epoch=2**31))
        assert outcomes.pop("refused").endswith("not this one")
        assert outcomes.pop("wide").startswith("a record cannot be written")
        assert outcomes == dict.fromkeys(["first", "second", "third"], "written")
        assert set(await log.group_ids()) == {"first", "second", "third"}
        assert await log.read("refused") == ()
    assert set(await stored(tmp_path)) == {"first", "second", "third"}


async def test_who_is_cancelled_knows_how_it_ended(tmp_path: Path) -> None:
    """What is on its way to the disk arrives, and the memory says the same."""
    async with open_sqlite_log(tmp_path) as log:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(log.append, f"g{number}", [epoch(1)])
            nursery.cancel_scope.cancel()
        in_memory = {each: tuple(await log.read(each)) for each in await log.group_ids()}
    assert await stored(tmp_path) == in_memory


# -- trouble while it runs -----------------------------------------------------------------------


async def test_a_batch_whose_sync_failed_is_in_doubt_until_something_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is killed then comes back with it; one that lives on writes over it before it
    says what the group is, and says nothing as long as it cannot."""
    folder, of_the_dead = tmp_path / "log", tmp_path / "dead"
    folder.mkdir()

    async def found_if_killed() -> dict[str, tuple[DurableRecord, ...]]:
        shutil.rmtree(of_the_dead, ignore_errors=True)
        shutil.copytree(folder, of_the_dead, ignore=shutil.ignore_patterns("*-shm"))
        return await stored(of_the_dead)

    async with open_sqlite_log(folder) as log:
        await log.append(GROUP, [epoch(1)])
        with monkeypatch.context() as patched:
            for name in ("write", "settle"):
                failing = partial(without_sync, getattr(log._writer, name))
                patched.setattr(log._writer, name, failing)
            with pytest.raises(StateLogUnsure, match="disk I/O error"):
                await log.append(GROUP, [epoch(2)])
            assert await found_if_killed() == {GROUP: (epoch(2),)}
            with pytest.raises(StateLogUnsure):
                await log.append("another", [epoch(3)])
            with pytest.raises(StateLogError, match="disk I/O error"):
                await log.read(GROUP)
        assert await log.read(GROUP) == (epoch(1),)
        assert await found_if_killed() == {GROUP: (epoch(1),)}
        await log.append(GROUP, [epoch(4)])
        assert await found_if_killed() == {GROUP: (epoch(4),)}


async def test_a_full_disk_is_an_error_until_there_is_room(tmp_path: Path) -> None:
    """Nothing of the batch is in the log, then it goes on by itself."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        with full_disk(tmp_path):
            for number in range(2, 5):
                with pytest.raises(StateLogError, match=r"state\.sqlite: .*(full|disk I/O)"):
                    await log.append(GROUP, [epoch(number), *RECORDS.values()])
            assert await log.read(GROUP) == (epoch(1),)
        await log.append(GROUP, [epoch(5)])
        assert await log.read(GROUP) == (epoch(5),)
    assert await stored(tmp_path) == {GROUP: (epoch(5),)}


@pytest.mark.parametrize("written", [None, 0, 10])
async def test_a_first_mark_that_cannot_be_written_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int | None
) -> None:
    """What is wrong and where is said, and the next start is not refused over half a mark."""
    pwrite = os.pwrite

    def no_space(descriptor: int, data: bytes, offset: int) -> int:
        if written is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data[:written], offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", no_space)
        assert await refusal(tmp_path) == (
            f"cannot write {tmp_path / 'state.sqlite-mark'}: No space left on device"
        )
    assert await stored(tmp_path) == {}


async def test_after_a_bug_in_the_writer_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it came before or after the commit: the group is read anew, once it is known."""

    def write(_batches: Sequence[Batch]) -> list[StateLogError | None]:
        raise RuntimeError("a bug")

    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        with monkeypatch.context() as patched:
            patched.setattr(log._writer, "write", write)
            with pytest.raises(StateLogUnsure, match="a bug"):
                await log.append(GROUP, [epoch(2)])
        before = log._writer.head.transactions
        assert await log.read(GROUP) == (epoch(1),)
        assert log._writer.head.transactions == before + 1
    assert await stored(tmp_path) == {GROUP: (epoch(1),)}


@pytest.mark.parametrize("name", ["state.sqlite", "state.sqlite-wal"])
async def test_a_file_that_was_deleted_or_replaced_is_noticed(tmp_path: Path, name: str) -> None:
    """SQLite itself would go on writing where nobody will ever read."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(StateLogError, match=f"{name} was deleted or replaced meanwhile"):
            await log.append(GROUP, [epoch(2)])
        shutil.copy(tmp_path / "away", tmp_path / name)
        with pytest.raises(StateLogError, match=f"{name} was deleted or replaced meanwhile"):
            await log.append(GROUP, [epoch(2)])
        (tmp_path / "away").rename(tmp_path / name)
        await log.append(GROUP, [epoch(3)])
    assert await stored(tmp_path) == {GROUP: (epoch(3),)}


async def test_a_file_that_was_cut_is_noticed(tmp_path: Path) -> None:
    """What is written behind the cut would be worth nothing."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        os.truncate(tmp_path / "state.sqlite-wal", 1_000)
        with pytest.raises(StateLogError, match="sqlite-wal was cut meanwhile"):
            await log.append(GROUP, [epoch(2)])


async def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    """The folder's lock keeps them apart; if somebody removes it, the file does."""
    async with open_sqlite_log(tmp_path) as log, open_sqlite_log(tmp_path) as other:
        await other.append(GROUP, [epoch(2)])
        with pytest.raises(StateLogError, match="somebody else has written into it"):
            await log.append(GROUP, [epoch(1)])
        assert await other.read(GROUP) == (epoch(2),)


# -- what it refuses -----------------------------------------------------------------------------


async def refusal(folder: Path) -> str:
    """Why a gateway does not start: one line."""
    with pytest.raises(StateLogUnusable) as refused:
        await stored(folder)
    (line,) = str(refused.value).splitlines()
    assert str(folder) in line
    return line


def change(folder: Path, sql: str) -> None:
    """Do something to the file that no gateway does."""
    connection = sqlite3.connect(folder / "state.sqlite")
    with connection:
        connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM records WHERE position = 3", "holds 9 records, not the 10"),
        (
            "UPDATE records SET value = CAST(value || x'00' AS BLOB) WHERE position = 3",
            "record 3, of 'orders'",
        ),
        ("UPDATE records SET value = 'é' WHERE position = 3", "record 3 is none"),
        ("UPDATE records SET group_id = CAST(x'ff' AS TEXT)", "Could not decode to UTF-8"),
        ("UPDATE records SET position = 40 WHERE position = 3", "record 40, of 'orders'"),
        ("UPDATE records SET key = 7 WHERE position = 3", "record 3 is none"),
        ("UPDATE log SET transactions = 5", "its head does not match its checksum"),
        ("DELETE FROM log", "its head does not match its checksum"),
        ("DROP TABLE records", "its tables are not those of a state log"),
        ("PRAGMA application_id = 7", "it is not a state log of groupferry"),
        (f"PRAGMA user_version = {FORMAT + 1}", "it was made by a newer groupferry"),
    ],
)
async def test_a_changed_file_is_refused(tmp_path: Path, sql: str, why: str) -> None:
    """One line says what is wrong and what to do; the file stays as it is."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, list(RECORDS.values()))
    change(tmp_path, sql)
    before = (tmp_path / "state.sqlite").read_bytes()
    line = await refusal(tmp_path)
    assert why in line
    assert f"move {tmp_path / 'state.sqlite'}* away" in line
    assert (tmp_path / "state.sqlite").read_bytes() == before


async def test_a_record_that_a_later_groupferry_wrote_costs_its_group(tmp_path: Path) -> None:
    """It is whole, but nobody here knows what it means."""
    async with open_sqlite_log(tmp_path) as log:
        log._writer.write([Batch(GROUP, [Entry(b"\x7f\x00", b"\x00\x00")])])
        await log.append("other", [epoch(1)])
    why = "record 1 of state.sqlite cannot be read: record type 32512 is not known"
    async with open_sqlite_log(tmp_path) as log:
        assert await log.unreadable_groups() == {GROUP: why}
        assert await log.read("other") == (epoch(1),)


async def test_the_end_of_the_write_ahead_log_cannot_get_lost(tmp_path: Path) -> None:
    """SQLite forgets what stood behind a cut, and says nothing."""
    killed_writer(tmp_path, 20)
    wal = tmp_path / "state.sqlite-wal"
    os.truncate(wal, wal.stat().st_size - 10)
    before = wal.read_bytes()
    assert "the last 1 of 21 transactions are missing" in await refusal(tmp_path)
    assert wal.read_bytes() == before
    wal.unlink()
    assert "the last 21 of 21 transactions are missing" in await refusal(tmp_path)


async def test_an_empty_or_missing_file_is_refused_where_there_was_one(tmp_path: Path) -> None:
    """Nobody asked for its groups to be forgotten; who does removes the mark too."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
    (tmp_path / "state.sqlite").write_bytes(b"")
    assert "it is gone or empty, after 2 transactions" in await refusal(tmp_path)
    (tmp_path / "state.sqlite").unlink()
    assert "it is gone or empty, after 2 transactions" in await refusal(tmp_path)
    (tmp_path / "state.sqlite-mark").unlink()
    assert await stored(tmp_path) == {}


async def test_another_log_in_its_place_is_refused(tmp_path: Path) -> None:
    """A backup of another gateway, for one; the remedy says how to have it all the same."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        async with open_sqlite_log(folder) as log:
            await log.append(folder.name, [epoch(1)])
    shutil.copy(there / "state.sqlite", here / "state.sqlite")
    line = await refusal(here)
    assert "state.sqlite-mark beside it is of another log" in line
    assert f"remove {here / 'state.sqlite-mark'}" in line
    (here / "state.sqlite-mark").unlink()
    assert await stored(here) == {"there": (epoch(1),)}


async def test_a_damaged_mark_is_refused(tmp_path: Path) -> None:
    """It would no longer tell what is missing."""
    await stored(tmp_path)
    mark = tmp_path / "state.sqlite-mark"
    mark.write_bytes(mark.read_bytes().replace(b"1", b"2"))
    assert "is damaged" in await refusal(tmp_path)


@pytest.mark.parametrize("transactions", [0, 3, 400])
async def test_a_killed_writer_loses_nothing(tmp_path: Path, transactions: int) -> None:
    """What was appended is there, and the next gateway goes on with it."""
    killed_writer(tmp_path, transactions)
    found = await stored(tmp_path)
    assert sum(map(len, found.values())) == min(transactions, 7)
    epochs = {record for records in found.values() for record in records}
    assert epochs == set(map(epoch, range(max(0, transactions - 7), transactions)))


async def test_a_read_only_folder_is_refused(read_only_folder: Path) -> None:
    """At the start, not with the first member."""
    with pytest.raises(StateLogUnusable, match=r"cannot write .*unable to open database file"):
        await stored(read_only_folder)


async def test_reading_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    """So somebody can look while the gateway writes."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        state = read_state(tmp_path)
        assert state is not None
        assert [row.record for row in state.rows] == [epoch(1)]
        await log.append(GROUP, [epoch(2)])
    assert read_state(tmp_path / "nowhere") is None
