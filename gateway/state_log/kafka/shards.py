"""The shards of a fleet as partitions of one topic, each with a transactional id of its own."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.topics import request_operations, topics_in
from gateway.fleet.member import SHARDS, FleetMember
from gateway.state_log.kafka.content import FIRST_SHARD, RUNS_PER_CLAIM, check_cluster, content_of
from gateway.state_log.kafka.kafka_log import (
    KafkaLog,
    LogShard,
    log_config,
    lost_part,
)
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.kafka.topic import add_partitions, count_partitions, make_or_check
from gateway.state_log.kafka.transactions import transactional_id
from gateway.state_log.log import StateLog
from gateway.state_log.sharded import ShardedLog, open_shards
from kafka_codecs.apis import ApiKey

LEAVE_TIMEOUT_S = 3.0


def count_shards(upstream: Sequence[Address], topic: str, access: Access) -> int:
    """How many shards the topic has; 0 if it has the groups of a single process, or none. Blocks.
    Raises StateLogError, StateLogUnusable."""
    config = log_config(upstream, access)
    partitions = count_partitions(config, topic)
    if partitions <= 1:
        return 0
    first = content_of(read_all(config, topic=topic, partitions=(FIRST_SHARD,)))
    if first.shard is not None:
        return first.shard.shards
    others = read_all(config, topic=topic, partitions=range(1, partitions))
    if content_of(others).groups.group_ids():
        raise lost_part(topic, FIRST_SHARD)
    return 0


def writers_of(topic: str) -> tuple[str, ...]:
    """The transactional ids of all shards. A single process may have them too."""
    return tuple(transactional_id(topic, shard) for shard in range(SHARDS))


async def find_writers(
    connection: BrokerConnection, topic: str, processes: int | None
) -> tuple[str, ...]:
    """The transactional ids that a gateway of so many processes needs, None for a single one: that
    goes on with shards if the topic has them. Raises UpstreamError."""
    request = request_operations([topic], connection.highest_version(ApiKey.METADATA))
    known = topics_in(await connection.ask(*request)).get(topic)
    has_shards = processes is not None or (known is not None and known.partition_count >= SHARDS)
    return writers_of(topic) if has_shards else (transactional_id(topic),)


@dataclass(frozen=True, slots=True)
class _Open:
    log: KafkaLog
    scope: trio.CancelScope


class ShardPartitions:
    """A partition for each shard; see `Shards`."""

    are_locked = False

    def __init__(
        self,
        upstream: Sequence[Address],
        topic: str,
        access: Access,
        *,
        cluster_id: str | None,
        count: int,
        log_id: str | None,
        run_id: int,
        nursery: trio.Nursery,
    ) -> None:
        """`log_id`: None if nobody has claimed the first shard for this fleet yet. `nursery` fails
        with StateLogTaken once another gateway has taken a shard."""
        self._upstream, self._topic, self._access = upstream, topic, access
        self._cluster_id = cluster_id
        self._count = count
        self._log_id, self._run_id = log_id, run_id
        self._nursery = nursery
        self._record_bytes_max = 0
        self._open: dict[int, _Open] = {}

    async def make_or_check_topic(self) -> None:
        """Do this once before shards are opened. Raises StateLogUnusable, StateLogError."""
        self._record_bytes_max = await trio.to_thread.run_sync(
            self._make_or_check_topic, abandon_on_cancel=True
        )

    def _make_or_check_topic(self) -> int:
        """Returns the size of the largest record. The state of a single process gets room for the
        shards into which the first one is divided as it is opened. Blocks."""
        config = log_config(self._upstream, self._access)
        if self._log_id is None and count_partitions(config, self._topic) == 1:
            content = content_of(read_all(config, topic=self._topic, partitions=(FIRST_SHARD,)))
            check_cluster(content.cluster_id, self._cluster_id, topic=self._topic)
            if content.log_id is not None:
                add_partitions(config, self._topic, self._count)
        return make_or_check(config, self._topic, self._count)

    async def open(self, shard: int) -> StateLog:
        """See `Shards`."""
        part = LogShard(
            shard=shard,
            shards=self._count,
            log_id=self._log_id,
            run_id=self._run_id,
            record_bytes_max=self._record_bytes_max,
        )
        log = KafkaLog(
            self._upstream, self._topic, self._access, cluster_id=self._cluster_id, part=part
        )
        opened = _Open(log, trio.CancelScope())
        await self._nursery.start(_run, opened)
        if self._log_id is None:
            self._log_id, self._run_id = log.id, log.run_id * RUNS_PER_CLAIM
        self._open[shard] = opened
        return log

    async def close(self, shard: int) -> None:
        """See `Shards`."""
        opened = self._open.pop(shard)
        with trio.move_on_after(LEAVE_TIMEOUT_S):  # the next owner fences what is not over then
            await opened.log.leave()
        opened.scope.cancel()


async def _run(opened: _Open, task_status: trio.TaskStatus[None]) -> None:
    with opened.scope:
        await opened.log.run(task_status)


@asynccontextmanager
async def open_partitions(
    upstream: Sequence[Address],
    topic: str,
    access: Access,
    member: FleetMember,
    shards: Collection[int],
    *,
    cluster_id: str | None,
    log_id: str | None = None,
    run_id: int = 0,
    needs_all: bool = False,
) -> AsyncIterator[ShardedLog]:
    """Own these shards during the block, which is cancelled if another gateway takes one of them.
    `log_id`: None in the first or only process, which claims the log, and so makes `run_id`.
    `needs_all`: see `open_shards`.

    Raises StateLogUnusable, StateLogError, StateLogTaken.
    """
    async with trio.open_nursery() as nursery:
        partitions = ShardPartitions(
            upstream,
            topic,
            access,
            cluster_id=cluster_id,
            count=member.shards,
            log_id=log_id,
            run_id=run_id,
            nursery=nursery,
        )
        await partitions.make_or_check_topic()
        log = ShardedLog(partitions, member.shards, log_id or "", run_id)
        try:
            if log_id is None:
                first = await log.open_shard(FIRST_SHARD)
                log.id, log.run_id = first.id, first.run_id * RUNS_PER_CLAIM
            others = [shard for shard in shards if shard not in log.open_shards]
            await open_shards(log, others, needs_all=needs_all)
            member.serving = set(log.open_shards)
            yield log
        finally:
            with trio.CancelScope(shield=True):
                await log.close()
        nursery.cancel_scope.cancel()
