"""The state log in the cluster: one partition of a compacted topic, one writer at a time.

Owns the life cycle of the log: claim it from the previous owner, read it back completely, write it
while it is ours, and recover if only the cluster aborted our writer. Blocking calls run in a
thread, one at a time.
"""

import math
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import uuid4

import structlog
import trio

from coordinator.interface.records import DurableRecord
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.librdkafka import client_config
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.kafka.content import (
    Content,
    check_cluster,
    content_of,
    id_entry,
    owner_entry,
    renewal_entry,
)
from gateway.state_log.kafka.lease import LEASE_MS, Lease, now_ms
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.kafka.topic import make_or_check
from gateway.state_log.kafka.transactions import Fenced, TransactionalWriter, write_at_once
from gateway.state_log.last_events import LastEvents, LogRecord
from gateway.state_log.log import (
    StateLogError,
    StateLogRefused,
    StateLogTaken,
    StateLogUnsure,
    StateLogUnusable,
)
from gateway.state_log.record_format import Entry, encode_record
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import LogOwnerValue

CLIENT_ID = "groupferry-state-log"
PARTITION = 0
OPEN_TIMEOUT_S = 30.0
RENEWALS_PER_LEASE = 4
"""How often a quiet log is written per lease, to confirm that it is still ours."""
TRANSACTION_WRITES_MAX = 256
TRANSACTION_BYTES_MAX = 4 << 20
"""A transaction takes waiting batches up to this number, or up to this size."""
RETAKE_S = 1.0
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
    ) -> None:
        self.id = ""
        self.run_id = -1
        self._topic = topic
        self._cluster_id = cluster_id
        self._config = client_config(upstream, CLIENT_ID, access)
        self._owner = LogOwnerValue(
            owner_id=uuid4().hex,
            host=socket.gethostname(),
            process_id=os.getpid(),
            since=time.time_ns() // 1_000_000,
        )
        self._lease = Lease()
        self._content: Content | None = None
        self._record_bytes_max = 0
        # Bounded by the number of hosted groups: each has at most one waiting batch.
        self._waiting: list[_Write] = []
        self._wanted = trio.Event()
        self._thread = trio.CapacityLimiter(1)

    @property
    def may_answer(self) -> bool:
        """Whether the lease is running: no other gateway can have continued without us."""
        return self._lease.is_running

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
        await self._in_thread(self._claim)
        taken = await self._take_now()
        self.id = taken.content.log_id or ""
        # The last claim wins, so the next owner's is behind ours.
        self.run_id = taken.content.owner_offset
        task_status.started()
        while True:
            try:
                await self._serve(taken)
            except Fenced as fenced:
                log.warning("state_log_lost", topic=self._topic, reason=str(fenced))
            finally:
                self._shut(taken.writer)
            taken = await self._take_again()

    @property
    def _groups(self) -> CompactedLog:
        if self._content is None:
            raise StateLogError(f"topic {self._topic} is still being read")
        return self._content.groups

    # -- while it is open ------------------------------------------------------------------------

    async def _serve(self, taken: _Taken) -> None:
        """Write waiting batches, and regularly a record that confirms our ownership. Raises Fenced,
        StateLogUnusable."""
        writer, content = taken.writer, taken.content
        for offset, why in content.ignored.items():
            log.error("state_record_ignored", topic=self._topic, offset=offset, reason=why)
        self._content = content
        self._lease.renew(taken.asked_ms)
        claim_again_at_s = math.inf
        while True:
            if not self._waiting:
                with trio.move_on_after(LEASE_MS / 1000 / RENEWALS_PER_LEASE):
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
            except (Fenced, StateLogUnusable):
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
        """Claim the log; the last claim wins. The claim is written before the previous owner is
        fenced, so that it can see who fenced it. The log is read first, so that no owner is fenced
        for a log that we cannot read, or that is another cluster's. Blocks."""
        self._record_bytes_max = make_or_check(self._config, self._topic)
        self._read_content()
        write_at_once(
            self._config, owner_entry(self._owner), topic=self._topic, partition=PARTITION
        )

    async def _take_now(self) -> _Taken:
        while True:
            try:
                return await self._in_thread(self._take)
            except Fenced:
                await trio.sleep(RETAKE_S)
            # Fenced by a gateway that began earlier, or by one that has claimed the log since.
            await self._in_thread(self._check_claim)

    async def _take_again(self) -> _Taken:
        """Take the log back after the cluster gave up our writer, which it does after long
        silence."""
        while True:
            try:
                await self._in_thread(self._check_claim)
                return await self._take_now()
            except StateLogError as error:
                log.warning("state_log_delayed", topic=self._topic, reason=str(error))
            await trio.sleep(RETAKE_S)

    def _take(self) -> _Taken:
        """Take the log. Raises StateLogTaken if another gateway has claimed it since we did.
        Blocks."""
        writer = TransactionalWriter(
            self._config,
            topic=self._topic,
            partition=PARTITION,
            record_bytes_max=self._record_bytes_max,
        )
        writer.open(OPEN_TIMEOUT_S)
        content = self._check_claim()
        if content.log_id is None:
            content.log_id = uuid4().hex
        asked_ms = now_ms()
        writer.write([id_entry(content.log_id, self._cluster_id)])
        return _Taken(writer, content, asked_ms)

    def _check_claim(self) -> Content:
        """Read the log. Raises StateLogTaken if the last claim is not ours, StateLogUnusable if it
        is another log or an incomplete one. Blocks."""
        content = self._read_content()
        owner = content.owner
        if owner is not None and owner.owner_id != self._owner.owner_id:
            raise StateLogTaken(
                f"the gateway on {owner.host} (process {owner.process_id}) has taken the state log,"
                f" topic {self._topic}: this gateway exits"
            )
        is_nameless = content.log_id is None and bool(content.groups.group_ids())
        if is_nameless or self.id not in ("", content.log_id):
            raise StateLogUnusable(
                f"topic {self._topic} is not the complete state log: it was deleted, or lost its"
                " beginning, while a gateway ran. Delete it; its groups are then forgotten, and"
                " their members rejoin"
            )
        return content

    def _read_content(self) -> Content:
        """Read the log. Raises StateLogUnusable if it is the log of another cluster. Blocks."""
        content = content_of(read_all(self._config, topic=self._topic, partition=PARTITION))
        check_cluster(content.cluster_id, self._cluster_id, topic=self._topic)
        return content

    async def _in_thread(self, work: Callable[..., R], *args: object) -> R:
        # Not awaited when we are cancelled: it ends by itself once its writer is closed.
        return await trio.to_thread.run_sync(
            partial(work, *args), abandon_on_cancel=True, limiter=self._thread
        )


def _size(entry: Entry) -> int:
    return len(entry.key) + len(entry.value or b"")


@asynccontextmanager
async def open_kafka_log(
    upstream: Sequence[Address],
    topic: str,
    access: Access = PLAIN_ACCESS,
    *,
    cluster_id: str | None = None,
) -> AsyncIterator[KafkaLog]:
    """Own the log during the block, which is cancelled if another gateway takes the log.
    `cluster_id`: that of the cluster, None if it has none.

    Raises StateLogUnusable, StateLogError, StateLogTaken.
    """
    kafka_log = KafkaLog(upstream, topic, access, cluster_id=cluster_id)
    async with trio.open_nursery() as nursery:
        await nursery.start(kafka_log.run)
        yield kafka_log
        nursery.cancel_scope.cancel()
