"""A state log in memory."""

from collections.abc import Collection, Mapping, Sequence, Set
from uuid import uuid4

from coordinator.interface.records import DurableRecord
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.last_events import LastEvents, LogRecord


class MemoryLog:
    """The in-memory part of every log, without storage."""

    outlives_process = False
    may_answer = True
    run_id = 0

    def __init__(self) -> None:
        self.id = uuid4().hex
        self.records = CompactedLog()

    def may_answer_for(self, group_id: str) -> bool:  # noqa: ARG002
        return self.may_answer

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        return self.records.read(group_id)

    async def group_ids(self) -> Collection[str]:
        return self.records.group_ids()

    async def configs_alone(self) -> Set[str]:
        return self.records.configs_alone

    def last_events(self, group_id: str) -> LastEvents | None:
        return self.records.last_events(group_id)

    def may_be_moving(self, group_id: str) -> bool:
        return group_id in self.records.moving

    def config_overrides(self, group_id: str) -> Mapping[str, int]:
        return self.records.config_overrides(group_id)

    async def unreadable_groups(self) -> Mapping[str, str]:
        return self.records.unreadable

    async def told_group_ids(self) -> Collection[str]:
        return self.records.told_group_ids()

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        self.records.put(group_id, batch)
