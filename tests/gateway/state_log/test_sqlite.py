"""The SQLite log is durable before it acknowledges, and agrees with its memory after any
failure."""

import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from coordinator.interface.records import DurableRecord, TargetAssignmentMetadata
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.last_events import FORGOTTEN, LastEvents
from gateway.state_log.log import StateLogError, StateLogUnreadable, StateLogUnsure
from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite import BATCHES_MAX, SqliteLog, open_sqlite_log
from gateway.state_log.sqlite_writer import GroupWrite, SqliteWriter
from tests.gateway.state_log.failing_sync import without_sync
from tests.gateway.state_log.state_folders import epoch, stored_groups
from tests.support.durable_records import GROUP, RECORDS, TOMBSTONES

# -- content ---------------------------------------------------------------------------------------


async def test_appended_records_survive_a_restart(tmp_path: Path) -> None:
    """This covers every kind of record, in order. The log keeps its id."""
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


async def test_each_opening_has_a_greater_run_id(tmp_path: Path) -> None:
    """A gateway recognises the anchors of earlier ones, whether those wrote anything or not."""
    run_ids = []
    for batch in ([epoch(1)], [], []):
        async with open_sqlite_log(tmp_path) as log:
            run_ids.append(log.run_id)
            await log.append(GROUP, batch)
    assert run_ids == sorted(set(run_ids))


async def test_it_has_the_content_of_every_log(tmp_path: Path) -> None:
    """Replaced and deleted records are gone, even within one batch."""
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
    assert await stored_groups(tmp_path) == {
        group_id: expected.read(group_id) for group_id in expected.group_ids()
    }


async def test_the_last_events_of_a_group_outlive_it_until_they_are_forgotten(
    tmp_path: Path,
) -> None:
    """The events make no group, because there would be nothing to show of it."""
    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1), LastEvents(sequence=1, lines=("one",))])
        gone = TargetAssignmentMetadata(epoch=None)
        await log.append(GROUP, [gone, LastEvents(sequence=2, lines=("two",))])
        assert await log.group_ids() == ()
    async with open_sqlite_log(tmp_path) as log:
        assert (await log.group_ids(), await log.read(GROUP)) == ((), ())
        assert await log.told_group_ids() == (GROUP,)
        assert log.last_events(GROUP) == LastEvents(sequence=2, lines=("two",))
        assert log.last_events("other") is None
        await log.append(GROUP, [FORGOTTEN])
    async with open_sqlite_log(tmp_path) as log:
        assert await log.told_group_ids() == ()


# -- waiting ---------------------------------------------------------------------------------------


async def test_groups_that_write_together_share_a_transaction(tmp_path: Path) -> None:
    """All batches that wait during a write need only one sync."""
    async with open_sqlite_log(tmp_path) as log:
        before = log._writer.head.transactions
        async with trio.open_nursery() as nursery:
            for number in range(BATCHES_MAX + 1):
                nursery.start_soon(log.append, f"g{number}", [epoch(number)])
        assert log._writer.head.transactions - before <= 3
        assert len(await log.group_ids()) == BATCHES_MAX + 1
    assert len(await stored_groups(tmp_path)) == BATCHES_MAX + 1


async def test_a_batch_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    """Its records cannot be encoded, or SQLite refuses them."""
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
    assert set(await stored_groups(tmp_path)) == {"first", "second", "third"}


async def test_a_cancelled_writer_learns_the_outcome(tmp_path: Path) -> None:
    """A write in progress completes, and the memory agrees with it."""
    async with open_sqlite_log(tmp_path) as log:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(log.append, f"g{number}", [epoch(1)])
            nursery.cancel_scope.cancel()
        in_memory = {
            group_id: tuple(await log.read(group_id)) for group_id in await log.group_ids()
        }
    assert await stored_groups(tmp_path) == in_memory


async def test_the_file_is_closed_behind_a_write_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be slow. Two threads in one connection could end the process."""
    steps: list[str] = []
    real_write, real_close = SqliteWriter.write, SqliteWriter.close

    def write(writer: SqliteWriter, batches: Sequence[GroupWrite]) -> Any:
        time.sleep(0.1)  # in a thread
        outcomes = real_write(writer, batches)
        steps.append("written")
        return outcomes

    def close(writer: SqliteWriter) -> None:
        steps.append("closed")
        real_close(writer)

    monkeypatch.setattr(SqliteWriter, "write", write)
    monkeypatch.setattr(SqliteWriter, "close", close)
    async with trio.open_nursery() as nursery:
        async with open_sqlite_log(tmp_path) as log:
            nursery.start_soon(log.append, GROUP, [epoch(1)])
            await trio.testing.wait_all_tasks_blocked()
    assert steps == ["written", "closed"]


# -- failures while running ------------------------------------------------------------------------


async def test_a_batch_whose_sync_failed_is_uncertain_until_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is killed then may restart with it. One that continues overwrites it before it
    reports the group's content, and reports nothing while that fails."""
    folder, of_the_dead = tmp_path / "log", tmp_path / "dead"
    folder.mkdir()

    async def found_if_killed() -> dict[str, tuple[DurableRecord, ...]]:
        shutil.rmtree(of_the_dead, ignore_errors=True)
        shutil.copytree(folder, of_the_dead, ignore=shutil.ignore_patterns("*-shm"))
        return await stored_groups(of_the_dead)

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


async def test_a_bug_in_the_writer_leaves_the_batch_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug may have occurred before or after the commit. The group is read again once that is
    known."""

    def write(_batches: Sequence[GroupWrite]) -> list[StateLogError | None]:
        raise RuntimeError("a bug")

    async with open_sqlite_log(tmp_path) as log:
        await log.append(GROUP, [epoch(1)])
        with monkeypatch.context() as patched:
            patched.setattr(log._writer, "write", write)
            with pytest.raises(StateLogUnsure, match="a bug"), capture_logs() as lines:
                await log.append(GROUP, [epoch(2)])
        assert [line["event"] for line in lines] == ["state_log_failed"]
        before = log._writer.head.transactions
        assert await log.read(GROUP) == (epoch(1),)
        assert log._writer.head.transactions == before + 1
    assert await stored_groups(tmp_path) == {GROUP: (epoch(1),)}


# -- refusals --------------------------------------------------------------------------------------


async def test_a_record_of_a_later_groupferry_makes_its_group_unreadable(tmp_path: Path) -> None:
    """The record is intact, but its meaning is unknown."""
    async with open_sqlite_log(tmp_path) as log:
        log._writer.write([GroupWrite(GROUP, [Entry(b"\x7f\x00", b"\x00\x00")])])
        await log.append("other", [epoch(1)])
    reason = "record 1 of state.sqlite cannot be read: record type 32512 is not known"
    async with open_sqlite_log(tmp_path) as log:
        with pytest.raises(StateLogUnreadable, match=reason):
            await log.read(GROUP)
        assert await log.unreadable_groups() == {GROUP: reason}
        assert await log.read("other") == (epoch(1),)
