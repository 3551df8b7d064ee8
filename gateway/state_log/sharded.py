"""The state log of one process of a fleet: a log of its own for each of its shards.

Each shard is a folder that the process locks, or a partition of the state topic whose last writer
it fences. The fleet has one id for all shards, and each process a run of its own.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import trio

from coordinator.interface.records import DurableRecord
from gateway.fleet.fleet_state import shard_folder
from gateway.fleet.member import FleetMember, shard_of
from gateway.state_folder import StateFolderError, lock_folder
from gateway.state_log.last_events import GATEWAY_RECORD, LastEvents, LogRecord
from gateway.state_log.log import StateLog, StateLogError, StateLogUnusable
from gateway.state_log.sqlite import open_sqlite_log

NOT_OPENED = (StateFolderError, StateLogUnusable, StateLogError)
"""What keeps a shard from being opened."""


class Shards(Protocol):
    """Where the shards of a fleet are."""

    are_locked: bool
    """Whether no other fleet can have a shard that this one is about to open."""

    async def open(self, shard: int, run_id: int) -> StateLog:
        """Become the only owner of a shard and read it, in a run that is greater than that of any
        other process that has had it. Raises one of NOT_OPENED, StateLogTaken."""
        ...

    async def close(self, shard: int) -> None:
        """Leave a shard to the next owner. Nothing of it may be on its way."""
        ...


class ShardFolders:
    """A folder with a SQLite log for each shard. The fleet has locked the folder around them."""

    are_locked = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, AsyncExitStack] = {}

    async def open(self, shard: int, run_id: int) -> StateLog:  # noqa: ARG002
        """See `Shards`."""
        folder = shard_folder(self._folder, shard)
        async with AsyncExitStack() as resources:
            resources.enter_context(lock_folder(folder))
            log = await resources.enter_async_context(open_sqlite_log(folder))
            self._open[shard] = resources.pop_all()
        return log

    async def close(self, shard: int) -> None:
        """See `Shards`."""
        await self._open.pop(shard).aclose()


class ShardedLog:
    """The shards of one process. A group of any other is refused with StateLogError."""

    outlives_process = True

    def __init__(self, shards: Shards, count: int, log_id: str, run_id: int) -> None:
        self.id = log_id
        self.run_id = run_id
        self._shards = shards
        self._count = count
        self._own: dict[int, StateLog] = {}
        self.unopened: dict[int, str] = {}
        """The shards that could not be opened at the start, and why."""

    @property
    def may_answer(self) -> bool:
        return all(log.may_answer for log in self._own.values())

    def may_answer_for(self, group_id: str) -> bool:
        log = self._find_shard(group_id)
        # Of a shard that is about to be opened, heartbeats are answered that all is well.
        return self._shards.are_locked if log is None else log.may_answer

    async def open_shard(self, shard: int, run_id: int | None = None) -> StateLog:
        """Open a shard, in this run if it is not that of the process. Raises one of NOT_OPENED,
        StateLogTaken."""
        log = await self._shards.open(shard, self.run_id if run_id is None else run_id)
        try:
            await _check_shard(log, shard, self._count)
        except StateLogUnusable:
            await self._shards.close(shard)
            raise
        self._own[shard] = log
        return log

    @property
    def open_shards(self) -> Set[int]:
        """The shards that are open."""
        return self._own.keys()

    async def close_shard(self, shard: int) -> None:
        """Leave a shard to the process that opens it next. Nothing of it may be on its way."""
        del self._own[shard]
        await self._shards.close(shard)

    async def close(self) -> None:
        """Close all shards at the same time: one that the cluster does not answer does not delay
        the others."""
        async with trio.open_nursery() as nursery:
            for shard in tuple(self._own):
                nursery.start_soon(self.close_shard, shard)

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
        return [group_id for log in self._logs() for group_id in await log.group_ids()]

    async def unreadable_groups(self) -> Mapping[str, str]:
        unreadable: dict[str, str] = {}
        for log in self._logs():
            unreadable |= await log.unreadable_groups()
        return unreadable

    async def configs_alone(self) -> Set[str]:
        return {name for log in self._logs() for name in await log.configs_alone()}

    async def told_group_ids(self) -> Collection[str]:
        return [group_id for log in self._logs() for group_id in await log.told_group_ids()]

    def _logs(self) -> Sequence[StateLog]:
        return tuple(self._own.values())  # others may be opened meanwhile

    def _find_shard(self, group_id: str) -> StateLog | None:
        return self._own.get(shard_of(group_id, self._count))

    def _shard(self, group_id: str) -> StateLog:
        log = self._find_shard(group_id)
        if group_id == GATEWAY_RECORD:  # what a process says of itself stands in its first shard
            log = self._own[min(self._own)] if self._own else None
        if log is None:
            raise StateLogError("another process of the fleet has the group")
        return log


@asynccontextmanager
async def open_sharded_log(
    folder: Path,
    member: FleetMember,
    shards: Collection[int] | None = None,
    *,
    log_id: str,
    run_id: int,
    needs_all: bool = True,
) -> AsyncIterator[ShardedLog]:
    """Open or create these shards in a state folder, or all that the process owns, and lock each.
    It serves no others until it opens them. `needs_all`: see `open_shards`.

    Raises StateFolderError, StateLogUnusable. The files are closed at the end of the block.
    """
    log = ShardedLog(ShardFolders(folder), member.shards, log_id, run_id)
    shards = member.own_shards if shards is None else shards
    try:
        await open_shards(log, shards, needs_all=needs_all)
        member.serving = set(log.open_shards)
        yield log
    finally:
        with trio.CancelScope(shield=True):
            await log.close()


async def open_shards(log: ShardedLog, shards: Collection[int], *, needs_all: bool = False) -> None:
    """Open these shards, at the same time. `needs_all`: whether one that cannot be opened ends the
    process; otherwise it does if none can. Raises one of NOT_OPENED, StateLogTaken."""
    failures: list[Exception] = []

    async def open_one(shard: int) -> None:
        try:
            await log.open_shard(shard)
        except NOT_OPENED as error:
            log.unopened[shard] = str(error)
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for shard in shards:
            nursery.start_soon(open_one, shard)
    if failures and (needs_all or not log.open_shards):
        raise failures[0]


async def _check_shard(log: StateLog, shard: int, shards: int) -> None:
    """Raises StateLogUnusable if it is another one."""
    for group_id in {*await log.group_ids(), *await log.told_group_ids()}:
        if (right := shard_of(group_id, shards)) != shard:
            raise StateLogUnusable(
                f"shard {shard} has the group {group_id}, which belongs to shard {right}: put the"
                " folders of the shards, or the records of the topic, back in their places"
            )
