"""The state log of one process of a fleet: a SQLite log for each of its shards.

Each shard has a folder of its own, and is locked by the process that has it. The fleet has one id
for all shards, and each process a run of its own.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from coordinator.interface.records import DurableRecord
from gateway.fleet.fleet_state import shard_folder
from gateway.fleet.member import FleetMember, shard_of
from gateway.state_folder import locked
from gateway.state_log.last_events import OF_GATEWAY, LastEvents, LogRecord
from gateway.state_log.log import StateLogError, StateLogUnusable
from gateway.state_log.sqlite import SqliteLog, open_sqlite_log


class ShardedLog:
    """The shards of one process. A group of any other is refused with StateLogError."""

    outlives_process = True
    may_answer = True
    """Always true: the shards are locked."""

    def __init__(self, log_id: str, run_id: int, shards: int, own: Mapping[int, SqliteLog]) -> None:
        self.id = log_id
        self.run_id = run_id
        self._shards = shards
        self._own = own

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return await self._shard(group_id).read(group_id)

    def last_events(self, group_id: str) -> LastEvents | None:
        return self._shard(group_id).last_events(group_id)

    def may_be_moving(self, group_id: str) -> bool:
        log = self._find_shard(group_id)
        return log is not None and log.may_be_moving(group_id)

    def config_overrides(self, group_id: str) -> Mapping[str, int] | None:
        log = self._find_shard(group_id)
        return None if log is None else log.config_overrides(group_id)

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        await self._shard(group_id).append(group_id, batch)

    async def group_ids(self) -> Collection[str]:
        return [group_id for log in self._own.values() for group_id in await log.group_ids()]

    async def unreadable_groups(self) -> Mapping[str, str]:
        unreadable: dict[str, str] = {}
        for log in self._own.values():
            unreadable |= await log.unreadable_groups()
        return unreadable

    async def configs_alone(self) -> Set[str]:
        return {name for log in self._own.values() for name in await log.configs_alone()}

    async def told_group_ids(self) -> Collection[str]:
        return [group_id for log in self._own.values() for group_id in await log.told_group_ids()]

    def _find_shard(self, group_id: str) -> SqliteLog | None:
        return self._own.get(shard_of(group_id, self._shards))

    def _shard(self, group_id: str) -> SqliteLog:
        if group_id == OF_GATEWAY:  # what a process says of itself stands in its first shard
            return next(iter(self._own.values()))
        log = self._find_shard(group_id)
        if log is None:
            raise StateLogError("another process of the fleet has the group")
        return log


@asynccontextmanager
async def open_sharded_log(
    folder: Path, member: FleetMember, *, log_id: str, run_id: int
) -> AsyncIterator[ShardedLog]:
    """Open or create the shards of this process in a state folder, and lock each.

    Raises StateFolderError, StateLogUnusable. The files are closed at the end of the block.
    """
    own: dict[int, SqliteLog] = {}
    async with AsyncExitStack() as resources:
        for shard in member.own_shards:
            own_folder = shard_folder(folder, shard)
            resources.enter_context(locked(own_folder))
            own[shard] = await resources.enter_async_context(open_sqlite_log(own_folder))
            await _check_shard(own[shard], shard, member.shards, own_folder)
        yield ShardedLog(log_id, run_id, member.shards, own)


async def _check_shard(log: SqliteLog, shard: int, shards: int, folder: Path) -> None:
    """Raises StateLogUnusable if the folder has been taken for another one's."""
    for group_id in {*await log.group_ids(), *await log.told_group_ids()}:
        if (right := shard_of(group_id, shards)) != shard:
            raise StateLogUnusable(
                f"{folder} has the group {group_id}, which belongs to shard {right}: put the"
                " folders of the shards back in their places"
            )
