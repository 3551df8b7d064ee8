"""The compacted content of a log: the newest record of each key, without deleted ones.

Its size follows the live state, not the history. Every log has one in memory and answers from it.
It shares its values with the engines. What was found in storage stays in bytes until its group is
asked for, because a gateway serves before it has decoded thousands of groups.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from coordinator.interface.records import (
    AdoptionRecord,
    DurableRecord,
    GroupConfigs,
    ReleaseRecord,
    is_tombstone,
)
from gateway.state_log.last_events import FORGOTTEN, GATEWAY_RECORD, LastEvents, LogRecord
from gateway.state_log.log import StateLogUnreadable
from gateway.state_log.record_format import Entry, StoredEntry, decode_record
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import RecordType, key_start

_LAST_EVENTS = key_start(RecordType.LAST_EVENTS)
_CONFIGS = key_start(RecordType.GROUP_CONFIGS)
_CONFIGS_KEY = GroupConfigs(overrides={}).key
_MOVE_KEYS = (key_start(RecordType.GROUP_ADOPTION), key_start(RecordType.GROUP_RELEASE))


class CompactedLog:
    """The records of all groups, each group's in the order of writing."""

    def __init__(self, place: Callable[[int], str] = str) -> None:
        """`place`: how messages name the record at an offset."""
        self._place = place
        self._stored: dict[str, list[StoredEntry]] = {}
        """The groups that have not been decoded."""
        self._groups: dict[str, dict[Hashable, DurableRecord]] = {}
        """Groups with records other than last events; empty until they are decoded."""
        self._last_events: dict[str, LastEvents | None] = {}
        """None until the group is decoded."""
        self.configs_alone: set[str] = set()
        """The names that have configs but no group."""
        self.moving: set[str] = set()
        """The groups with an adoption or a release under way, or with a release not decoded yet."""
        self.unreadable: dict[str, str] = {}
        """The groups with an unreadable record, and the reason, as far as they are decoded."""

    def read(self, group_id: str) -> Sequence[DurableRecord]:
        """The records of one group; empty if it does not exist. Raises StateLogUnreadable if one of
        them cannot be read."""
        self._decode(group_id)
        if group_id in self.unreadable:
            raise StateLogUnreadable(self.unreadable[group_id])
        return tuple(self._groups.get(group_id, {}).values())

    def config_overrides(self, group_id: str) -> Mapping[str, int]:
        """The group's own configs, as far as they can be read."""
        self._decode(group_id)
        record = self._groups.get(group_id, {}).get(_CONFIGS_KEY)
        return record.overrides if isinstance(record, GroupConfigs) else {}

    def group_ids(self) -> Collection[str]:
        """The groups that have records, without unreadable ones."""
        return tuple(group_id for group_id in self._groups if group_id not in self.unreadable)

    def last_events(self, group_id: str) -> LastEvents | None:
        """The events of the group's last batch with events."""
        self._decode(group_id)
        return self._last_events.get(group_id)

    def told_group_ids(self) -> Collection[str]:
        """The groups that have last events, perhaps nothing else."""
        return tuple(group_id for group_id in self._last_events if group_id != GATEWAY_RECORD)

    def put_stored(self, group_id: str, entry: StoredEntry) -> None:
        """Add a record from storage, where each key is once. The value is not empty."""
        self._stored.setdefault(group_id, []).append(entry)
        if entry.key.startswith(_LAST_EVENTS):
            self._last_events[group_id] = None
            return
        if entry.key.startswith(_MOVE_KEYS):
            self.moving.add(group_id)
        if group_id not in self._groups and entry.key.startswith(_CONFIGS):
            self.configs_alone.add(group_id)
        else:
            self.configs_alone.discard(group_id)
        self._groups.setdefault(group_id, {})

    def put(self, group_id: str, batch: Iterable[LogRecord]) -> None:
        """Add a batch."""
        self._decode(group_id)
        records = self._groups.setdefault(group_id, {})
        for record in batch:
            if record == FORGOTTEN:
                self._last_events.pop(group_id, None)
                continue
            if isinstance(record, LastEvents):
                self._last_events[group_id] = record
                continue
            if isinstance(record, AdoptionRecord | ReleaseRecord):
                (self.moving.add if _is_under_way(record) else self.moving.discard)(group_id)
            records.pop(record.key, None)  # the newest comes last, as in a compacted log
            if not is_tombstone(record):
                records[record.key] = record
        if not records:
            del self._groups[group_id]
        if len(records) == 1 and isinstance(next(iter(records.values())), GroupConfigs):
            self.configs_alone.add(group_id)
        else:
            self.configs_alone.discard(group_id)

    def _decode(self, group_id: str) -> None:
        """Decode what storage has of the group. An unreadable record leaves its last events."""
        stored = self._stored.pop(group_id, None)
        if stored is None:
            return
        batch = []
        for offset, key, value in stored:
            try:
                batch.append(decode_record(Entry(key, value))[1])
            except WireError as error:
                reason = f"{self._place(offset)} cannot be read: {error}"
                self.unreadable.setdefault(group_id, reason)
        self.put(group_id, batch)
        if self._last_events.get(group_id) is None:  # it was unreadable, or there is none
            self._last_events.pop(group_id, None)


def _is_under_way(record: AdoptionRecord | ReleaseRecord) -> bool:
    """Whether the group is about to change its coordinator. It does so in one way at a time."""
    if isinstance(record, ReleaseRecord):
        return record.value is not None and record.value.is_under_way
    return record.value is not None
