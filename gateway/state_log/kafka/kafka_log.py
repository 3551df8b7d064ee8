"""The state log in the cluster: one partition of a compacted topic, one writer at a time.

Owns the life cycle of the log: claim it from the previous owner, read it back completely, write it
while it is ours, and recover if only the cluster aborted our writer. Blocking calls run in a
thread, one at a time.
"""

import math
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import uuid4

import structlog
import trio

from coordinator.records import DurableRecord
from gateway.cluster.broker_connection import Address
from gateway.cluster.librdkafka import client_config
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.kafka.content import (
    Content,
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
"""A quiet log is written as often, to see that it is still ours."""
TRANSACTION_WRITES_MAX = 256
TRANSACTION_BYTES_MAX = 4 << 20
"""Batches go together into a transaction until there are so many, or so much of them."""
RETAKE_S = 1.0
GIVE_WAY_S = 2.0
"""How long we write nothing when somebody claims the log. librdkafka asks for it twice a second,
and in vain while a transaction of ours ends: it could miss the moments between them for long."""
ABANDONED_AFTER_S = 2 * OPEN_TIMEOUT_S
"""Whoever claimed the log so long ago and has not fenced us is not going to. Then we claim it
anew: the cluster may give up our writer one day, and the last claim must be our own."""

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
    """The log in our hands: it was ours when `asked_ms` (`now_ms`) was asked."""

    writer: TransactionalWriter
    content: Content
    asked_ms: int


class KafkaLog:
    """`run` keeps it; until that reports that it has started, nothing can be read or written."""

    outlives_process = True

    def __init__(self, upstream: Sequence[Address], topic: str) -> None:
        self.id = ""
        self._topic = topic
        self._config = client_config(upstream, CLIENT_ID)
        self._owner = LogOwnerValue(
            owner_id=uuid4().hex,
            host=socket.gethostname(),
            process_id=os.getpid(),
            since=time.time_ns() // 1_000_000,
        )
        self._lease = Lease()
        self._content: Content | None = None
        self._record_bytes_max = 0
        # At most one of each group, so the number of hosted groups is its limit.
        self._waiting: list[_Write] = []
        self._wanted = trio.Event()
        self._thread = trio.CapacityLimiter(1)

    @property
    def may_answer(self) -> bool:
        """Whether the log was ours a moment ago, so that nobody can have gone on without us."""
        return self._lease.is_running

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return self._groups.read(group_id)

    async def group_ids(self) -> Collection[str]:
        return self._groups.group_ids()

    async def configs_alone(self) -> Collection[str]:
        return self._groups.configs_alone

    async def last_events(self, group_id: str) -> LastEvents | None:
        return self._groups.last_events(group_id)

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
                f"topic {self._topic} takes records of {self._record_bytes_max} bytes,"
                f" and this one has {largest}"
            )
        if self._content is None:
            raise StateLogError(f"topic {self._topic} is being read")
        write = _Write(group_id=group_id, batch=batch, entries=entries)
        self._waiting.append(write)
        self._wanted.set()
        await write.done.wait()
        if write.error is not None:
            raise write.error

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Keep the log until cancelled. Reports when it can be read and written.

        Raises StateLogUnusable or StateLogError if it cannot be had, StateLogTaken when another
        gateway has it.
        """
        await self._in_thread(self._claim)
        taken = await self._take_now()
        self.id = taken.content.log_id or ""
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
            raise StateLogError(f"topic {self._topic} is being read")
        return self._content.groups

    # -- while it is open ------------------------------------------------------------------------

    async def _serve(self, taken: _Taken) -> None:
        """Write what waits, and now and then that we are still here. Raises Fenced,
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
                    write.end(StateLogUnsure("the log was lost while it was written"))
                raise
            else:
                self._lease.renew(asked_ms)
                for write in writes:
                    content.groups.put(write.group_id, write.batch)
                    write.end()
                if claims_again:
                    claim_again_at_s = math.inf
                if is_claimed:  # by somebody who may still fail to take it: then we go on
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
        """Nothing can be read or written, nor answered, until it is open again."""
        writer.close()
        self._content = None
        self._lease.end()
        for write in self._waiting:
            write.end(StateLogError(f"topic {self._topic} is being read"))
        self._waiting = []

    # -- taking it -------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Blocks. Say that the log is ours from now on: the last claim holds. It comes before we
        fence anybody, so that whoever is fenced can see why; and after we saw that we can read
        what is there, so that nobody is fenced for nothing."""
        self._record_bytes_max = make_or_check(self._config, self._topic)
        content_of(read_all(self._config, topic=self._topic, partition=PARTITION))
        write_at_once(
            self._config, owner_entry(self._owner), topic=self._topic, partition=PARTITION
        )

    async def _take_now(self) -> _Taken:
        while True:
            try:
                return await self._in_thread(self._take)
            except Fenced:
                await trio.sleep(RETAKE_S)
            # By somebody who began earlier, unless he has claimed it since: then let him be.
            await self._in_thread(self._check_claim)

    async def _take_again(self) -> _Taken:
        """From ourselves: the cluster gives up a writer that it does not hear of."""
        while True:
            try:
                await self._in_thread(self._check_claim)
                return await self._take_now()
            except StateLogError as error:
                log.warning("state_log_delayed", topic=self._topic, reason=str(error))
            await trio.sleep(RETAKE_S)

    def _take(self) -> _Taken:
        """Blocks. Raises StateLogTaken if somebody has claimed it since we did."""
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
        writer.write([id_entry(content.log_id)])
        return _Taken(writer, content, asked_ms)

    def _check_claim(self) -> Content:
        """Blocks. What is in the log. Raises StateLogTaken if the last claim is not ours,
        StateLogUnusable if the log is another one, or a part of one."""
        content = content_of(read_all(self._config, topic=self._topic, partition=PARTITION))
        owner = content.owner
        if owner is not None and owner.owner_id != self._owner.owner_id:
            raise StateLogTaken(
                f"the gateway on {owner.host} (process {owner.process_id}) has taken the state log,"
                f" topic {self._topic}: this one ends"
            )
        is_nameless = content.log_id is None and bool(content.groups.group_ids())
        if is_nameless or self.id not in ("", content.log_id):
            raise StateLogUnusable(
                f"topic {self._topic} is not the whole state log: it was deleted, or lost its"
                " beginning, while a gateway ran. Delete it; its groups are forgotten then, and"
                " their members join anew"
            )
        return content

    async def _in_thread(self, work: Callable[..., R], *args: object) -> R:
        # Left alone when we are cancelled: it ends by itself once its writer is closed.
        return await trio.to_thread.run_sync(
            partial(work, *args), abandon_on_cancel=True, limiter=self._thread
        )


def _size(entry: Entry) -> int:
    return len(entry.key) + len(entry.value or b"")


@asynccontextmanager
async def open_kafka_log(upstream: Sequence[Address], topic: str) -> AsyncIterator[KafkaLog]:
    """Have the log for the length of the block, which is cancelled when another gateway takes it.

    Raises StateLogUnusable, StateLogError, StateLogTaken.
    """
    kafka_log = KafkaLog(upstream, topic)
    async with trio.open_nursery() as nursery:
        await nursery.start(kafka_log.run)
        yield kafka_log
        nursery.cancel_scope.cancel()
