"""The shards of a fleet as partitions of one topic, each with a transactional id of its own."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.topics import request_operations, topics_in
from gateway.fleet.member import SHARDS, FleetMember
from gateway.state_log.kafka.content import (
    FIRST_SHARD,
    NO_RUN,
    RUNS_PER_CLAIM,
    check_cluster,
    content_of,
)
from gateway.state_log.kafka.kafka_log import (
    KafkaLog,
    LogShard,
    log_config,
    lost_part,
)
from gateway.state_log.kafka.lease import LEASE_MS
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.kafka.topic import add_partitions, count_partitions, make_or_check
from gateway.state_log.kafka.transactions import transactional_id
from gateway.state_log.log import StateLog, StateLogError, StateLogTaken
from gateway.state_log.sharded import ShardedLog, open_shards
from kafka_codecs.apis import ApiKey

LEAVE_TIMEOUT_S = 3.0


class OnTaken(Protocol):
    """Learns that another gateway has taken a shard."""

    def __call__(self, shard: int, reason: str, *, was_open: bool) -> None:
        """`reason`: who has taken it. `was_open`: whether the shard was open, and is still to be
        closed; otherwise the other gateway has come later than this one, or has a later run."""


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
    connection: BrokerConnection, topic: str, *, has_shards: bool
) -> tuple[str, ...]:
    """The transactional ids that a gateway needs. `has_shards`: whether it has shards in any case;
    a single one keeps them if the topic has them. Raises UpstreamError."""
    request = request_operations([topic], connection.highest_version(ApiKey.METADATA))
    known = topics_in(await connection.ask(*request)).get(topic)
    has_shards |= known is not None and known.partition_count >= SHARDS
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
        nursery: trio.Nursery,
        on_taken: OnTaken | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`log_id`: None if the first shard has not been claimed for this fleet yet. `nursery`
        fails with StateLogTaken once another gateway has taken a shard, unless there is
        `on_taken`. `lease_ms`: see `KafkaLog`."""
        self._upstream, self._topic, self._access = upstream, topic, access
        self._cluster_id = cluster_id
        self._count = count
        self._log_id = log_id
        self._nursery, self._on_taken = nursery, on_taken
        self._lease_ms = lease_ms
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

    async def open(self, shard: int, run_id: int) -> StateLog:
        """See `Shards`."""
        part = LogShard(
            shard=shard,
            shards=self._count,
            log_id=self._log_id,
            run_id=run_id,
            record_bytes_max=self._record_bytes_max,
        )
        log = KafkaLog(
            self._upstream,
            self._topic,
            self._access,
            cluster_id=self._cluster_id,
            part=part,
            lease_ms=self._lease_ms,
        )
        opened = _Open(log, trio.CancelScope())
        await self._nursery.start(self._run, shard, opened)
        self._log_id = log.id
        self._open[shard] = opened
        return log

    async def _run(self, shard: int, opened: _Open, task_status: trio.TaskStatus[None]) -> None:
        try:
            with opened.scope:
                await opened.log.run(task_status)
        except StateLogTaken as error:
            if self._on_taken is None:
                raise
            was_open = opened.log.run_id != NO_RUN
            self._on_taken(shard, str(error), was_open=was_open)
            if not was_open:
                raise StateLogError(str(error)) from None

    async def close(self, shard: int) -> None:
        """See `Shards`."""
        opened = self._open.pop(shard)
        with trio.move_on_after(LEAVE_TIMEOUT_S):  # the next owner fences what is not over then
            await opened.log.leave()
        opened.scope.cancel()


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
    on_taken: OnTaken | None = None,
    lease_ms: int = LEASE_MS,
) -> AsyncIterator[ShardedLog]:
    """Own these shards during the block, which is cancelled if another gateway takes one of them
    and there is no `on_taken`. `log_id`: None in the first or only process, which claims the log,
    and so makes `run_id`. `needs_all`: see `open_shards`; `lease_ms`: see `KafkaLog`.

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
            nursery=nursery,
            on_taken=on_taken,
            lease_ms=lease_ms,
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


async def claim_log(
    upstream: Sequence[Address], topic: str, access: Access, *, cluster_id: str | None
) -> tuple[str, int]:
    """Take the log from its owner, and make it if there is none. Returns its id, and a run that is
    greater than any before. Raises StateLogUnusable, StateLogError, StateLogTaken."""
    member = FleetMember(slot=0, slots=1, shards=SHARDS)
    async with open_partitions(
        upstream, topic, access, member, (FIRST_SHARD,), cluster_id=cluster_id
    ) as log:
        return log.id, log.run_id
