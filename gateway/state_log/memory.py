"""A state log that lasts as long as the process: for the demo and for tests."""

from collections.abc import Collection, Hashable, Sequence
from uuid import uuid4

from coordinator.records import DurableRecord, is_tombstone


class MemoryLog:
    """Compacted as it is written: its size follows the live state, not the history."""

    outlives_process = False

    def __init__(self) -> None:
        self.id = uuid4().hex
        self._groups: dict[str, dict[Hashable, DurableRecord]] = {}

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return tuple(self._groups.get(group_id, {}).values())

    async def group_ids(self) -> Collection[str]:
        return tuple(self._groups)

    async def append(self, group_id: str, batch: Sequence[DurableRecord]) -> None:
        records = self._groups.setdefault(group_id, {})
        for record in batch:
            records.pop(record.key, None)  # the newest comes last, as in a compacted log
            if not is_tombstone(record):
                records[record.key] = record
        if not records:
            del self._groups[group_id]
