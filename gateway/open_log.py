"""Opens the state log that the settings choose, of a single gateway or of a process of a fleet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gateway.cluster.access import Access
from gateway.fleet.fleet_state import (
    open_state,
    read_state,
    write_state,
)
from gateway.fleet.member import FleetMember
from gateway.fleet.process import FleetProcess
from gateway.ownership_driver import OwnershipDriver
from gateway.settings import Settings
from gateway.state_log.kafka.kafka_log import open_kafka_log
from gateway.state_log.kafka.shards import (
    count_shards,
    open_partitions,
)
from gateway.state_log.log import (
    StateLog,
)
from gateway.state_log.memory import MemoryLog
from gateway.state_log.sharded import open_sharded_log
from gateway.state_log.sqlite import open_sqlite_log


@asynccontextmanager
async def open_log_of_process(
    settings: Settings,
    access: Access,
    cluster_id: str | None,
    process: FleetProcess | None,
    fleet: OwnershipDriver | None,
) -> AsyncIterator[StateLog]:
    """The state log of this process during the block. Raises as `open_state_log` does."""
    if fleet is not None:
        async with open_partitions(
            settings.upstream,
            settings.state_topic,
            access,
            fleet.member,
            (),
            cluster_id=cluster_id,
            log_id=fleet.table.log_id,
            run_id=fleet.run_id,
            on_taken=fleet.on_taken,
            lease_ms=settings.owner_lease_ms,
        ) as kafka_log:
            yield kafka_log
    elif process is None or process.shards is None:
        async with open_state_log(settings, access, cluster_id) as state_log:
            yield state_log
    elif settings.state == "kafka":
        async with open_partitions(
            settings.upstream,
            settings.state_topic,
            access,
            process.shards.member,
            process.shards.at_start,
            cluster_id=cluster_id,
            log_id=None if process.is_first else process.shards.log_id,
            run_id=process.shards.run_id,
            lease_ms=settings.owner_lease_ms,
        ) as kafka_log:
            if process.is_first:
                process.link.say_log_claimed(kafka_log.id, kafka_log.run_id)
            yield kafka_log
    else:
        async with open_sharded_log(
            settings.state_dir,
            process.shards.member,
            process.shards.at_start,
            log_id=process.shards.log_id,
            run_id=process.shards.run_id,
            needs_all=False,
        ) as sharded_log:
            yield sharded_log


@asynccontextmanager
async def open_state_log(
    settings: Settings, access: Access, cluster_id: str | None
) -> AsyncIterator[StateLog]:
    """The state log of a single process during the block. `cluster_id`: that of the cluster, None
    if it has none. Raises StateFolderError, StateLogError, StateLogTaken, StateLogUnusable."""
    match settings.state:
        case "memory":
            yield MemoryLog()
        case "sqlite" if read_state(settings.state_dir) is not None:
            async with _open_all_shards(settings.state_dir) as sharded_log:
                yield sharded_log
        case "sqlite":
            async with open_sqlite_log(settings.state_dir) as sqlite_log:
                yield sqlite_log
        case "kafka":
            topic = (settings.upstream, settings.state_topic, access)
            lease_ms = settings.owner_lease_ms
            if shards := await trio.to_thread.run_sync(
                count_shards, *topic, abandon_on_cancel=True
            ):
                member = FleetMember(slot=0, slots=1, shards=shards)
                async with open_partitions(
                    *topic,
                    member,
                    member.own_shards,
                    cluster_id=cluster_id,
                    needs_all=True,
                    lease_ms=lease_ms,
                ) as sharded_log:
                    yield sharded_log
            else:
                async with open_kafka_log(
                    *topic, cluster_id=cluster_id, lease_ms=lease_ms
                ) as kafka_log:
                    yield kafka_log


@asynccontextmanager
async def _open_all_shards(folder: Path) -> AsyncIterator[StateLog]:
    """What a fleet has left, as the log of a single gateway. Raises StateFolderError,
    StateLogUnusable."""
    state = open_state(folder, 0).with_run()
    write_state(folder, state)
    member = FleetMember(slot=0, slots=1, shards=state.shards)
    async with open_sharded_log(
        folder, member, log_id=state.log_id, run_id=state.runs
    ) as sharded_log:
        yield sharded_log
