"""The state log of a single gateway: one SQLite file, synced before an answer leaves.

Groups that write at the same time share a transaction. The file is read once, at the start; from
then on the log answers from memory.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import trio

from coordinator.interface.records import DurableRecord
from gateway.loading import without_garbage_collection
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.last_events import LastEvents, LogRecord
from gateway.state_log.log import StateLogError, StateLogRefused, StateLogUnsure
from gateway.state_log.record_format import StoredEntry, encode_record
from gateway.state_log.sqlite_reader import place_of, read_state
from gateway.state_log.sqlite_writer import GroupWrite, SqliteWriter
from kafka_codecs.errors import WireError

log = structlog.get_logger()

BATCHES_MAX = 256
"""The limit of batches per transaction. Each group has at most one waiting."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """A batch that waits to be written."""

    batch: GroupWrite
    turn: trio.Event = field(default_factory=trio.Event)
    """Set when the batch was written, or when its task has to write it."""
    is_done: bool = False
    error: StateLogError | None = None


class SqliteLog:
    """One file for all groups; see `open_sqlite_log`."""

    outlives_process = True
    may_answer = True
    """Always true: the folder is locked."""

    def __init__(self, writer: SqliteWriter, records: CompactedLog) -> None:
        self.id = writer.head.log_id
        self.run_id = writer.head.transactions
        """Opening the file is a transaction."""
        self._writer = writer
        self._records = records
        self._waiting: list[_Waiting] = []
        self._is_writing = False
        self._one_thread = trio.CapacityLimiter(1)

    def may_answer_for(self, group_id: str) -> bool:  # noqa: ARG002
        return self.may_answer

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        """See `StateLog`. A failed transaction that may be in the file is first overwritten, so
        that file and memory agree."""
        if self._writer.is_in_doubt:
            await trio.to_thread.run_sync(self._writer.settle, limiter=self._one_thread)
        return self._records.read(group_id)

    async def group_ids(self) -> Collection[str]:
        return self._records.group_ids()

    async def configs_alone(self) -> Set[str]:
        return self._records.configs_alone

    def last_events(self, group_id: str) -> LastEvents | None:
        return self._records.last_events(group_id)

    def may_be_moving(self, group_id: str) -> bool:
        return group_id in self._records.moving

    def config_overrides(self, group_id: str) -> Mapping[str, int]:
        return self._records.config_overrides(group_id)

    async def unreadable_groups(self) -> Mapping[str, str]:
        return self._records.unreadable

    async def told_group_ids(self) -> Collection[str]:
        return self._records.told_group_ids()

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        """See `StateLog`. A caller that finds no writer active writes all waiting batches."""
        if not batch:
            return
        try:
            entries = [encode_record(group_id, record) for record in batch]
        except WireError as error:
            raise StateLogRefused(f"a record cannot be written: {error}") from None
        waiting = _Waiting(batch=GroupWrite(group_id, entries))
        self._waiting.append(waiting)
        with trio.CancelScope(shield=True):
            if self._is_writing:
                await waiting.turn.wait()
            if not waiting.is_done:
                await self._write()
        if waiting.error is not None:
            raise waiting.error
        self._records.put(group_id, batch)

    async def _write(self) -> None:
        """Write waiting batches, and leave the rest to the task of the first of them."""
        self._is_writing = True
        taken, self._waiting = self._waiting[:BATCHES_MAX], self._waiting[BATCHES_MAX:]
        try:
            outcomes = await trio.to_thread.run_sync(
                self._writer.write, [waiting.batch for waiting in taken], limiter=self._one_thread
            )
        except Exception as error:  # a bug must not leave callers waiting for ever
            log.exception("state_log_failed")
            self._writer.is_in_doubt = True
            outcomes = [StateLogUnsure(repr(error)) for _ in taken]
        for waiting, outcome in zip(taken, outcomes, strict=True):
            waiting.error, waiting.is_done = outcome, True
            waiting.turn.set()
        self._is_writing = bool(self._waiting)
        if self._waiting:
            self._waiting[0].turn.set()


@asynccontextmanager
async def open_sqlite_log(folder: Path) -> AsyncIterator[SqliteLog]:
    """Open or create the log in this folder, which no other process may have open.

    Raises StateLogUnusable. The file is closed at the end of the block.
    """
    opened = await trio.to_thread.run_sync(_open, folder)
    try:
        yield opened
    finally:
        with trio.CancelScope(shield=True):
            # Behind a write that is under way: SQLite's connections are no place for two threads.
            await trio.to_thread.run_sync(opened._writer.close, limiter=opened._one_thread)


def _open(folder: Path) -> SqliteLog:
    with without_garbage_collection():
        stored = read_state(folder)
        records = CompactedLog(place_of)
        for position, group_id, entry, _checksum in stored.rows if stored else ():
            records.put_stored(group_id, StoredEntry(position, *entry))
    if stored is not None and not stored.is_marked:
        log.warning("state_log_unmarked", folder=str(folder))
    return SqliteLog(SqliteWriter.open(folder, stored), records)
