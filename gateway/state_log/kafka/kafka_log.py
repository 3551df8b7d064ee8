"""The state log in the cluster: one partition of a compacted topic, one writer at a time.

Owns the life cycle of the log: claim it from the previous owner, read it back completely, write it
while it is ours, and recover if only the cluster aborted our writer. Blocking calls run in a
thread, one at a time.
"""

import math
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import structlog
import trio

from coordinator.interface.records import DurableRecord
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_topics import LOOK_INTERVAL_S
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.kafka.content import (
    LOG_SHARD_KEY,
    NO_RUN,
    RUNS_PER_CLAIM,
    Content,
    check_cluster,
    check_part,
    content_of,
    divide_by_shard,
    id_entry,
    is_of_earlier_claim,
    owner_entry,
    renewal_entry,
    shard_entry,
)
from gateway.state_log.kafka.former_writer import fence_former_writer
from gateway.state_log.kafka.lease import LEASE_MS, Lease, now_ms
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.kafka.topic import has_partition, make_or_check
from gateway.state_log.kafka.transactions import (
    TRANSACTION_TIMEOUT_MS,
    Fenced,
    TransactionalWriter,
    transactional_id,
    write_at_once,
)
from gateway.state_log.last_events import LastEvents, LogRecord
from gateway.state_log.log import (
    StateLogError,
    StateLogLost,
    StateLogRefused,
    StateLogTaken,
    StateLogUnsure,
    StateLogUnusable,
)
from gateway.state_log.record_format import Entry, StoredEntry, encode_record
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import LogOwnerValue, LogShardValue

CLIENT_ID = "groupferry-state-log"
PARTITION = 0
OPEN_TIMEOUT_S = 30.0
RENEWALS_PER_LEASE = 4
"""How often a quiet log is written per lease, to confirm that it is still ours."""
TRANSACTION_WRITES_MAX = 256
TRANSACTION_BYTES_MAX = 4 << 20
"""A transaction takes waiting batches up to this number, or up to this size."""
RETAKE_S = 1.0
GONE_AFTER_S = 5.0
"""A topic that the cluster has not had for this long is gone. One broker may not know it for a
moment."""
GIVE_WAY_S = 2.0
"""How long to pause writing when another gateway claims the log. librdkafka retries its request
twice a second and fails while a transaction of ours ends, so it could miss the gaps between
them."""
ABANDONED_AFTER_S = 2 * OPEN_TIMEOUT_S
"""A claim that has not fenced us for this long is abandoned. We then claim the log again: if the
cluster gives up our writer one day, the last claim must be ours."""

log = structlog.get_logger()
R = TypeVar("R")


@dataclass(slots=True, kw_only=True, eq=False)
class _Write:
    """A batch of one group that waits for its transaction."""

    group_id: str
    batch: Sequence[LogRecord]
    entries: Sequence[Entry]
    done: trio.Event = field(default_factory=trio.Event)
    error: StateLogError | None = None

    def end(self, error: StateLogError | None = None) -> None:
        self.error = error
        self.done.set()


@dataclass(frozen=True, slots=True)
class _Taken:
    """The log in our possession, confirmed by a request sent at `asked_ms` (`now_ms`)."""

    writer: TransactionalWriter
    content: Content
    asked_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShard:
    """One partition's part of a log in several partitions."""

    shard: int
    """The number of the partition as well."""
    shards: int
    log_id: str | None
    """The id that all parts share; None if the log has not been claimed for this gateway yet."""
    run_id: int
    """The run of the process, as far as the log has been claimed for this gateway."""
    record_bytes_max: int
    """The largest record that the topic accepts, which was checked before."""

    @property
    def mark(self) -> LogShardValue:
        """What the part says of itself."""
        return LogShardValue(shard=self.shard, shards=self.shards)


def lost_part(topic: str, partition: int) -> StateLogUnusable:
    """The error of a log with shards, one of which has lost its records."""
    return StateLogUnusable(
        f"topic {topic} has lost the records of partition {partition}: restore them, or delete the"
        " topic; its groups are then forgotten, and their members rejoin"
    )


class KafkaLog:
    """The log is usable once `run` has reported that it has started."""

    outlives_process = True

    def __init__(
        self,
        upstream: Sequence[Address],
        topic: str,
        access: Access = PLAIN_ACCESS,
        *,
        cluster_id: str | None = None,
        part: LogShard | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`part`: which part of a log in several partitions; None for a log in one. `lease_ms`: how
        long it may answer after a write."""
        self.id = "" if part is None else part.log_id or ""
        self.run_id = NO_RUN
        self._topic = topic
        self._cluster_id = cluster_id
        self._part = part
        self._partition = PARTITION if part is None else part.shard
        self._leaving = False
        self._upstream, self._access = upstream, access
        self._config = log_config(upstream, access)
        self._owner = LogOwnerValue(
            owner_id=uuid4().hex,
            host=socket.gethostname(),
            process_id=os.getpid(),
            since=time.time_ns() // 1_000_000,
            run_id=NO_RUN if part is None or part.log_id is None else part.run_id,
        )
        self._lease = Lease(lease_ms)
        self._content: Content | None = None
        self._record_bytes_max = 0 if part is None else part.record_bytes_max
        # Bounded by the number of hosted groups: each has at most one waiting batch.
        self._waiting: list[_Write] = []
        self._wanted = trio.Event()
        self._thread = trio.CapacityLimiter(1)
        self._has_left = trio.Event()
        self._taking = trio.CancelScope()

    @property
    def may_answer(self) -> bool:
        """Whether the lease is running: no other gateway can have continued without us."""
        return self._lease.is_running

    def may_answer_for(self, group_id: str) -> bool:  # noqa: ARG002
        return self.may_answer

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return self._groups.read(group_id)

    async def group_ids(self) -> Collection[str]:
        return self._groups.group_ids()

    async def configs_alone(self) -> Set[str]:
        return self._groups.configs_alone

    def last_events(self, group_id: str) -> LastEvents | None:
        return self._groups.last_events(group_id)

    def may_be_moving(self, group_id: str) -> bool:
        return self._content is None or group_id in self._content.groups.moving

    def config_overrides(self, group_id: str) -> Mapping[str, int] | None:
        content = self._content
        return None if content is None else content.groups.config_overrides(group_id)

    async def unreadable_groups(self) -> Mapping[str, str]:
        return self._groups.unreadable

    async def told_group_ids(self) -> Collection[str]:
        return self._groups.told_group_ids()

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        try:
            entries = [encode_record(group_id, record) for record in batch]
        except WireError as error:
            raise StateLogRefused(f"a record cannot be written: {error}") from None
        largest = max(map(_size, entries), default=0)
        if largest > self._record_bytes_max:
            raise StateLogRefused(
                f"topic {self._topic} accepts records of up to {self._record_bytes_max} bytes,"
                f" but this one has {largest}"
            )
        if self._content is None:
            raise StateLogError(f"topic {self._topic} is still being read")
        write = _Write(group_id=group_id, batch=batch, entries=entries)
        self._waiting.append(write)
        self._wanted.set()
        await write.done.wait()
        if write.error is not None:
            raise write.error

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep the log until cancelled. Reports when it can be read and written.

        Raises StateLogUnusable or StateLogError if it cannot be opened, StateLogTaken if another
        gateway owns it.
        """
        try:
            await self._in_thread(self._claim)
            taken = await self._take_now()
            self.id = taken.content.log_id or ""
            # The last claim wins, so the next owner's is behind ours.
            self.run_id = taken.content.owner_offset
            task_status.started()
            await self._keep(taken)
        finally:
            self._has_left.set()

    async def _keep(self, taken: _Taken) -> None:
        """Serve until told to leave, and take the log again after each loss of it."""
        while True:
            try:
                await self._serve(taken)
            except Fenced as fenced:
                log.warning("state_log_lost", topic=self._topic, reason=str(fenced))
            finally:
                self._shut(taken.writer)
            if self._leaving:
                return
            with trio.CancelScope() as self._taking:
                taken = await self._take_again()
            if self._taking.cancelled_caught:
                return

    async def leave(self) -> None:
        """End `run` once what is being written is written. Nothing else may be waiting."""
        self._leaving = True
        self._taking.cancel()
        self._wanted.set()
        await self._has_left.wait()

    @property
    def _groups(self) -> CompactedLog:
        if self._content is None:
            raise StateLogError(f"topic {self._topic} is still being read")
        return self._content.groups

    # -- while it is open ------------------------------------------------------------------------

    async def _serve(self, taken: _Taken) -> None:
        """Write waiting batches, and regularly a record that confirms our ownership. Raises Fenced,
        StateLogLost."""
        writer, content = taken.writer, taken.content
        for offset, reason in content.ignored.items():
            log.error("state_record_ignored", topic=self._topic, offset=offset, reason=reason)
        self._content = content
        self._lease.renew(taken.asked_ms)
        claim_again_at_s = math.inf
        while not self._leaving:
            if not self._waiting:
                with trio.move_on_after(self._lease.length_ms / 1000 / RENEWALS_PER_LEASE):
                    await self._wanted.wait()
            self._wanted = trio.Event()
            writes = self._next_writes()
            entries = [entry for write in writes for entry in write.entries]
            if claims_again := trio.current_time() >= claim_again_at_s:
                entries.append(owner_entry(self._owner))
            asked_ms = now_ms()
            try:
                is_claimed = await self._in_thread(
                    writer.write, entries or [renewal_entry(self._owner)]
                )
            except StateLogError as error:
                log.warning("state_log_failed", topic=self._topic, reason=str(error))
                for write in writes:
                    write.end(StateLogError(str(error)))
                await self._in_thread(self._check_topic)
            except BaseException:  # fenced, lost, or cancelled
                for write in writes:
                    write.end(StateLogUnsure("the log was lost during the write"))
                raise
            else:
                self._lease.renew(asked_ms)
                for write in writes:
                    content.groups.put(write.group_id, write.batch)
                    write.end()
                if claims_again:
                    claim_again_at_s = math.inf
                if is_claimed:  # the other gateway may still fail to take the log
                    log.info("state_log_claimed", topic=self._topic, pause_s=GIVE_WAY_S)
                    claim_again_at_s = trio.current_time() + ABANDONED_AFTER_S
                    await trio.sleep(GIVE_WAY_S)

    def _next_writes(self) -> Sequence[_Write]:
        size, count = 0, 0
        for write in self._waiting[:TRANSACTION_WRITES_MAX]:
            size += sum(map(_size, write.entries))
            if count and size > TRANSACTION_BYTES_MAX:
                break
            count += 1
        writes, self._waiting = self._waiting[:count], self._waiting[count:]
        return writes

    def _shut(self, writer: TransactionalWriter) -> None:
        """Close the log: until it is open again, nothing is read, written or answered."""
        writer.close()
        self._content = None
        self._lease.end()
        for write in self._waiting:
            write.end(StateLogError(f"topic {self._topic} is still being read"))
        self._waiting = []

    # -- taking it -------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Claim the log; the last claim wins, but one of a gateway that another has followed. The
        claim is written before the previous owner is fenced, so that it can see who fenced it. The
        log is read first, so that no owner is fenced for a log that we cannot read, or that is
        another cluster's. Blocks."""
        if self._part is None:
            self._record_bytes_max = make_or_check(self._config, self._topic)
        content = self._read_content()
        if content.owner is not None and is_of_earlier_claim(self._owner, content.owner):
            raise self._taken_by(content.owner)  # else both would end
        write_at_once(
            self._config, {self._partition: [owner_entry(self._owner)]}, topic=self._topic
        )

    async def _take_now(self) -> _Taken:
        while True:
            await fence_former_writer(
                self._upstream,
                self._access,
                transactional_id(self._topic, self._partition),
                timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
            try:
                # Awaited also when we are cancelled: a writer that is opened after that would fence
                # the next owner.
                writer = await trio.to_thread.run_sync(self._open_writer, limiter=self._thread)
                try:
                    return await self._in_thread(self._take, writer)
                except BaseException:
                    writer.close()
                    raise
            except Fenced as fenced:
                reason = str(fenced)
            await trio.sleep(RETAKE_S)
            # Fenced by a gateway that began earlier, or by one that has claimed the log since.
            await self._in_thread(self._check_claim)
            log.warning("state_log_delayed", topic=self._topic, reason=reason)

    async def _take_again(self) -> _Taken:
        """Take the log back after the cluster gave up our writer, which it does after long
        silence."""
        while True:
            try:
                await self._in_thread(self._check_claim)
                return await self._take_now()
            except StateLogError as error:
                log.warning("state_log_delayed", topic=self._topic, reason=str(error))
                await self._in_thread(self._check_topic)
            await trio.sleep(RETAKE_S)

    def _open_writer(self) -> TransactionalWriter:
        """Fence the previous owner. Blocks until it is done, or cancelled."""
        writer = TransactionalWriter(
            self._config,
            topic=self._topic,
            partition=self._partition,
            record_bytes_max=self._record_bytes_max,
        )
        writer.open(OPEN_TIMEOUT_S, trio.from_thread.check_cancelled)
        return writer

    def _take(self, writer: TransactionalWriter) -> _Taken:
        """Take the log with a writer that has fenced the previous owner. Raises StateLogTaken if
        another gateway has claimed it since we did. Blocks."""
        content = self._check_claim()
        log_id = content.log_id = content.log_id or uuid4().hex
        asked_ms = now_ms()
        if self._part is None:
            writer.write(self._head(log_id, None))
            return _Taken(writer, content, asked_ms)
        if self._owner.run_id == NO_RUN:  # it is known only now
            self._owner = replace(self._owner, run_id=content.owner_offset * RUNS_PER_CLAIM)
        # Compaction may have left only the claim of an earlier gateway, which came later.
        head = (*self._head(log_id, self._part), owner_entry(self._owner))
        if content.shard is not None:
            writer.write(head)
            return _Taken(writer, content, asked_ms)
        moved, others = self._found_parts(log_id, self._part)
        try:
            writer.write((*head, *moved), others)
        except Fenced as error:
            if not moved:
                raise
            self._check_claim()
            raise StateLogError(
                f"topic {self._topic} was not divided for several processes, and is as before:"
                f" {error}; start again, without --processes if this comes again"
            ) from None
        self._await_parts(self._part.shards)
        if moved:
            log.info("state_log_divided", topic=self._topic, shards=self._part.shards)
            content.groups = self._check_claim().groups
        return _Taken(writer, content, asked_ms)

    def _await_parts(self, shards: int) -> None:
        """Wait until all parts of the log can be read: the answer to a commit comes before its end
        is in every partition. Blocks. Raises StateLogError."""
        give_up_at = time.monotonic() + OPEN_TIMEOUT_S
        while sum(entry.key == LOG_SHARD_KEY for entry in self._read(*range(shards))) < shards:
            if time.monotonic() > give_up_at:
                raise StateLogError(f"topic {self._topic} cannot be read completely: start again")
            time.sleep(LOOK_INTERVAL_S)

    def _found_parts(
        self, log_id: str, first: LogShard
    ) -> tuple[Sequence[Entry], Mapping[int, Sequence[Entry]]]:
        """What a log without parts has to get so that it has them: what goes from the first part,
        and what all others get, by partition. From then on, a part without the log's id has been
        lost. Blocks. Raises StateLogUnusable if it is the first part that has been lost: the others
        have groups."""
        parts = divide_by_shard(self._read(first.shard), first.shards)
        moved: list[Entry] = []
        others: dict[int, Sequence[Entry]] = {}
        other_shards = set(range(first.shards)) - {first.shard}
        if content_of(self._read(*other_shards)).groups.group_ids():
            raise lost_part(self._topic, first.shard)
        for shard in other_shards:
            entries = parts.get(shard, ())
            moved += (Entry(entry.key, None) for entry in entries)
            others[shard] = (*self._head(log_id, replace(first, shard=shard)), *entries)
        return moved, others

    def _head(self, log_id: str, part: LogShard | None) -> Sequence[Entry]:
        """The records that say which log it is."""
        entry = id_entry(log_id, self._cluster_id)
        return (entry,) if part is None else (entry, shard_entry(part.mark))

    def _check_claim(self) -> Content:
        """Read the log. Raises StateLogTaken if the last claim is not ours, StateLogLost if it is
        another log or an incomplete one. Blocks."""
        content = content_of(self._read(self._partition))
        owner = content.owner
        if (
            owner is not None
            and owner.owner_id != self._owner.owner_id
            and not is_of_earlier_claim(owner, self._owner)
        ):
            raise self._taken_by(owner)
        self._check_content(content)
        is_nameless = content.log_id is None and bool(content.groups.group_ids())
        if is_nameless or self.id not in ("", content.log_id):
            raise StateLogLost(
                f"topic {self._topic} is not the complete state log: it was deleted, or lost its"
                " beginning, while a gateway ran. Delete it; its groups are then forgotten, and"
                " their members rejoin"
            )
        return content

    def _taken_by(self, owner: LogOwnerValue) -> StateLogTaken:
        return StateLogTaken(
            f"the gateway on {owner.host} (process {owner.process_id}) has taken the state log,"
            f" topic {self._topic}"
        )

    def _read_content(self) -> Content:
        """Read the log. Raises StateLogUnusable if it is the log of another cluster, or of another
        part of the groups. Blocks."""
        content = content_of(self._read(self._partition))
        self._check_content(content)
        return content

    def _read(self, *partitions: int) -> Iterator[StoredEntry]:
        return read_all(self._config, topic=self._topic, partitions=partitions)

    def _check_content(self, content: Content) -> None:
        check_cluster(content.cluster_id, self._cluster_id, topic=self._topic)
        check_part(content, None if self._part is None else self._part.mark, topic=self._topic)

    def _check_topic(self) -> None:
        """Raises StateLogLost if the topic is gone. Blocks."""
        gone_at = time.monotonic() + GONE_AFTER_S
        while not has_partition(self._config, self._topic, self._partition):
            if time.monotonic() > gone_at:
                raise StateLogLost(
                    f"topic {self._topic} was deleted while a gateway ran: start the gateway again,"
                    " which makes a new one; its groups are then forgotten, and their members"
                    " rejoin"
                )
            time.sleep(LOOK_INTERVAL_S)

    async def _in_thread(self, work: Callable[..., R], *args: object) -> R:
        # Not awaited when we are cancelled: it ends by itself once its writer is closed.
        return await trio.to_thread.run_sync(
            partial(work, *args), abandon_on_cancel=True, limiter=self._thread
        )


def log_config(upstream: Sequence[Address], access: Access) -> Mapping[str, Any]:
    """How the log's clients reach the cluster."""
    return client_config(upstream, CLIENT_ID, access)


def _size(entry: Entry) -> int:
    return len(entry.key) + len(entry.value or b"")


@asynccontextmanager
async def open_kafka_log(
    upstream: Sequence[Address],
    topic: str,
    access: Access = PLAIN_ACCESS,
    *,
    cluster_id: str | None = None,
    lease_ms: int = LEASE_MS,
) -> AsyncIterator[KafkaLog]:
    """Own the log during the block, which is cancelled if another gateway takes the log.
    `cluster_id`: that of the cluster, None if it has none; `lease_ms`: see `KafkaLog`.

    Raises StateLogUnusable, StateLogError, StateLogTaken.
    """
    kafka_log = KafkaLog(upstream, topic, access, cluster_id=cluster_id, lease_ms=lease_ms)
    async with trio.open_nursery() as nursery:
        await nursery.start(kafka_log.run)
        yield kafka_log
        nursery.cancel_scope.cancel()
