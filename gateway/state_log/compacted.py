"""The compacted content of a log: the newest record of each key, without deleted ones.

Its size follows the live state, not the history. Every log has one in memory and answers from it.
It shares its values with the engines.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence

from coordinator.interface.records import DurableRecord, GroupConfigs, is_tombstone
from gateway.state_log.last_events import FORGOTTEN, LastEvents, LogRecord
from gateway.state_log.log import StateLogUnreadable


class CompactedLog:
    """The records of all groups, each group's in the order of writing."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Hashable, DurableRecord]] = {}
        self._last_events: dict[str, LastEvents] = {}
        self.configs_alone: set[str] = set()
        """The names that have configs but no group."""
        self.unreadable: dict[str, str] = {}
        """The groups with an unreadable record, and the reason."""

    def read(self, group_id: str) -> Sequence[DurableRecord]:
        """The records of one group; empty if it does not exist. Raises StateLogUnreadable if one of
        them cannot be read."""
        if group_id in self.unreadable:
            raise StateLogUnreadable(self.unreadable[group_id])
        return tuple(self._groups.get(group_id, {}).values())

    def group_ids(self) -> Collection[str]:
        """The groups that have records, without unreadable ones."""
        return tuple(each for each in self._groups if each not in self.unreadable)

    def last_events(self, group_id: str) -> LastEvents | None:
        """The events of the group's last batch with events."""
        return self._last_events.get(group_id)

    def told_group_ids(self) -> Collection[str]:
        """The groups that have last events, perhaps nothing else."""
        return tuple(self._last_events)

    def put(self, group_id: str, batch: Iterable[LogRecord]) -> None:
        """Add a batch."""
        records = self._groups.setdefault(group_id, {})
        for record in batch:
            if record == FORGOTTEN:
                self._last_events.pop(group_id, None)
                continue
            if isinstance(record, LastEvents):
                self._last_events[group_id] = record
                continue
            records.pop(record.key, None)  # the newest comes last, as in a compacted log
            if not is_tombstone(record):
                records[record.key] = record
        if not records:
            del self._groups[group_id]
        if len(records) == 1 and isinstance(next(iter(records.values())), GroupConfigs):
            self.configs_alone.add(group_id)
        else:
            self.configs_alone.discard(group_id)
