"""The state log of one process of a fleet."""

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.fleet.fleet_state import shard_folder
from gateway.fleet.member import SHARDS, FleetMember, shard_of
from gateway.journal.runs import record_run
from gateway.state_folder import StateFolderInUse, lock_folder
from gateway.state_log.last_events import LastEvents
from gateway.state_log.log import StateLog, StateLogError, StateLogUnusable
from gateway.state_log.sharded import ShardedLog, open_sharded_log

GROUP_IDS = [f"group-{number}" for number in range(40)]
LOG_ID = "5" * 32


def events(number: int) -> LastEvents:
    """A record that any group may have."""
    return LastEvents(sequence=number, lines=(), began_ms=1, at_ms=2)


async def open_fleet(resources: AsyncExitStack, folder: Path, slots: int) -> list[ShardedLog]:
    """The logs of all processes of a fleet."""
    return [
        await resources.enter_async_context(
            open_sharded_log(
                folder,
                FleetMember(slot=slot, slots=slots, shards=SHARDS),
                log_id=LOG_ID,
                run_id=slot + 1,
            )
        )
        for slot in range(slots)
    ]


def owner(logs: list[ShardedLog], group_id: str) -> ShardedLog:
    """The log that has the group."""
    member = FleetMember(slot=0, slots=len(logs), shards=SHARDS)
    return logs[member.slot_of(group_id)]


async def test_another_number_of_processes_finds_every_group(tmp_path: Path) -> None:
    """The shards are dealt out again, and stay as they are."""
    async with AsyncExitStack() as resources:
        logs = await open_fleet(resources, tmp_path, 3)
        for number, group_id in enumerate(GROUP_IDS):
            await owner(logs, group_id).append(group_id, [events(number + 1)])
    async with AsyncExitStack() as resources:
        logs = await open_fleet(resources, tmp_path, 2)
        for number, group_id in enumerate(GROUP_IDS):
            assert owner(logs, group_id).last_events(group_id) == events(number + 1)
        group_ids = [group_id for log in logs for group_id in await log.told_group_ids()]
        assert sorted(group_ids) == sorted(GROUP_IDS)


async def test_all_processes_have_one_log_and_runs_of_their_own(tmp_path: Path) -> None:
    """Anchors carry both: those of a fleet are taken over only by a later process of it."""
    async with AsyncExitStack() as resources:
        logs: list[ShardedLog] = await open_fleet(resources, tmp_path, 2)
        fulfils: StateLog = logs[0]
        assert {log.id for log in logs} == {fulfils.id} == {LOG_ID}
        assert [log.run_id for log in logs] == [1, 2]
        assert await fulfils.group_ids() == []
        assert await fulfils.unreadable_groups() == {}
        assert await fulfils.configs_alone() == set()


async def test_another_process_s_group_is_refused(tmp_path: Path) -> None:
    """A caller that asks for it here is wrong, and must not believe that it is empty."""
    async with AsyncExitStack() as resources:
        logs = await open_fleet(resources, tmp_path, 2)
        for group_id in GROUP_IDS:
            (other,) = (log for log in logs if log is not owner(logs, group_id))
            with pytest.raises(StateLogError):
                await other.read(group_id)
            with pytest.raises(StateLogError):
                await other.append(group_id, [events(1)])
            assert other.config_overrides(group_id) is None
            assert not other.may_be_moving(group_id)
            assert other.may_answer_for(group_id)  # once it is about to be opened
            assert not await owner(logs, group_id).read(group_id)
            assert not owner(logs, group_id).may_be_moving(group_id)
            assert owner(logs, group_id).config_overrides(group_id) == {}


async def test_two_processes_never_have_the_same_shard(tmp_path: Path) -> None:
    """The second one ends before it reads anything."""
    async with AsyncExitStack() as resources:
        await open_fleet(resources, tmp_path, 2)
        with pytest.raises(StateFolderInUse):
            await open_fleet(resources, tmp_path, 3)


async def test_a_shard_that_cannot_be_opened_costs_no_other(tmp_path: Path) -> None:
    """A process of a fleet serves what it can, unless that is nothing."""
    member = FleetMember(slot=0, slots=1, shards=2)
    with lock_folder(shard_folder(tmp_path, 1)):
        async with open_sharded_log(
            tmp_path, member, log_id=LOG_ID, run_id=1, needs_all=False
        ) as log:
            assert log.open_shards == {0} == member.serving
            assert "in use" in log.unopened[1]
        with pytest.raises(StateFolderInUse):
            async with open_sharded_log(
                tmp_path, member, (1,), log_id=LOG_ID, run_id=1, needs_all=False
            ):
                pass


async def test_a_misplaced_shard_is_refused(tmp_path: Path) -> None:
    """Its groups would look as if no process had them."""
    member = FleetMember(slot=0, slots=1, shards=SHARDS)
    group_id = GROUP_IDS[0]
    async with open_sharded_log(tmp_path, member, log_id=LOG_ID, run_id=1) as log:
        await log.append(group_id, [events(1)])
    place = shard_of(group_id, SHARDS)
    right = shard_folder(tmp_path, place)
    wrong = shard_folder(tmp_path, (place + 1) % SHARDS)
    shutil.rmtree(wrong)
    right.rename(wrong)
    with pytest.raises(StateLogUnusable, match=f"belongs to shard {place}"):
        async with open_sharded_log(tmp_path, member, log_id=LOG_ID, run_id=2):
            pass


async def test_each_process_records_its_own_runs(tmp_path: Path) -> None:
    """A reader of events learns which run had the shards before, as with a single process."""
    async with AsyncExitStack() as resources:
        logs = await open_fleet(resources, tmp_path, 2)
        assert [await record_run(log, 1) for log in logs] == [None, None]
    async with AsyncExitStack() as resources:
        logs = await open_fleet(resources, tmp_path, 2)
        assert [await record_run(log, 2) for log in logs] == [1, 2]
        assert [list(await log.told_group_ids()) for log in logs] == [[], []]
