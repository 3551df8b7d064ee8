"""A state log that lasts as long as the process: for the demo and for tests."""

from collections.abc import Collection, Sequence
from uuid import uuid4

from coordinator.records import DurableRecord
from gateway.state_log.compacted import CompactedLog


class MemoryLog:
    """Nothing but what every log has in memory; nobody else can have it."""

    outlives_process = False
    may_answer = True

    def __init__(self) -> None:
        self.id = uuid4().hex
        self._records = CompactedLog()

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return self._records.read(group_id)

    async def group_ids(self) -> Collection[str]:
        return self._records.group_ids()

    async def append(self, group_id: str, batch: Sequence[DurableRecord]) -> None:
        self._records.put(group_id, batch)
