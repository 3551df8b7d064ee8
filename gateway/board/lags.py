"""How far the consumers of each group are behind: a fold of the commits that events report, and of
the partitions' ends that the gateway asks for. Pure; `lag_watch.py` asks.

The number of partitions that are asked for at a time has a limit, so the groups have turns. A sum
follows each change, whatever the size of the group.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.events.event import Envelope
from gateway.events.group_events import GroupDeleted, TopicsDeleted
from gateway.events.offset_events import OffsetsCommitted, OffsetsDeleted, OffsetsFetched

PARTITIONS_MAX = 100_000
"""Partitions with a committed offset in memory. Of more, those of the group that has committed
nothing for the longest time are forgotten."""
HISTORY_MAX = 60
"""Measurements of one group that are remembered."""
FRESH_MS = 120_000
"""How long a lag counts after its measurement."""
ENDS_MAX = 8
"""Ends of a partition that are remembered with their times. Of more, every second one is
forgotten, so that they reach further back and lie further apart."""

Partition = tuple[str, int]
UnreportedCommits = Callable[[str], Mapping[Partition, int]]
"""The offsets of a group that are committed, and that no event reports yet."""


class _End(NamedTuple):
    offset: int
    at_ms: int


class PartitionLag(NamedTuple):
    """One partition, as of the latest measurement of its end."""

    committed: int
    end: int
    behind_ms: int | None
    """The greatest possible age of the oldest record that is not committed; None if it was there
    before the first measurement that is remembered."""
    at_ms: int
    """When its end was measured."""


@dataclass(slots=True)
class GroupLag:
    """One group."""

    committed: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    """The ends of the partitions that have been asked for."""
    total: int = 0
    """The records between commit and end, over these partitions."""
    rescoped: int = 0
    """The lag that partitions had when they came to be counted, or no longer were: what has changed
    `total` though no consumer did. The end at the latest measurement, like the history."""
    consumed: int = 0
    """The records by which commits have advanced since this process watches the group."""
    measured_ms: int | None = None
    """When the last turn was complete: the cluster had told the end of each of its partitions."""
    history: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    """The total after each measurement, the oldest first."""
    behind_ms: int | None = None
    """How far behind the furthest partition was at the latest measurement; None if that is not
    known."""
    _end_history: dict[Partition, list[_End]] = field(default_factory=dict)
    """The ends of each partition, the oldest first: the last one at or before the commit, which
    tells since when the next record has waited, and those after it."""
    _committed_at_end: dict[Partition, int] = field(default_factory=dict)
    """What was committed when the end of a partition was measured last."""
    _rescoped: int = 0
    """`rescoped` since the latest measurement."""
    _turn: list[Partition] = field(default_factory=list)
    """The partitions that this measurement has yet to reach."""
    _answered: set[Partition] = field(default_factory=set)
    """The partitions whose ends this measurement has learnt."""

    def commit(self, partition: Partition, offset: int) -> None:
        """The offset is committed."""
        before = self.committed.get(partition)
        if before is not None:
            self.consumed += max(0, offset - before)
        self.total -= self._lag(partition)
        self.committed[partition] = offset
        self.total += self._lag(partition)

    def end(self, partition: Partition, offset: int, now_ms: int) -> None:
        """The partition ends there."""
        if partition in self.committed:
            self._remember_end(partition, _End(offset, now_ms))
            self._answered.add(partition)
            is_new = partition not in self.ends
            self.total -= self._lag(partition)
            self.ends[partition] = offset
            self._committed_at_end[partition] = self.committed[partition]
            self.total += self._lag(partition)
            if is_new:
                self._rescoped += self._lag(partition)

    def drop(self, partition: Partition) -> None:
        """The group has no committed offset there any more."""
        self.total -= self._lag(partition)
        self._rescoped -= self._lag(partition)
        self.ends.pop(partition, None)
        self._end_history.pop(partition, None)
        self._committed_at_end.pop(partition, None)
        self._answered.discard(partition)
        self.committed.pop(partition, None)

    def partition(self, partition: Partition) -> PartitionLag | None:
        """One partition; None if its end is not known."""
        committed, history = self._committed_at_end.get(partition), self._end_history.get(partition)
        if committed is None or not history:
            return None
        last = history[-1]
        if last.offset <= committed:
            return PartitionLag(committed, max(last.offset, committed), 0, last.at_ms)
        before = bisect_right(history, committed, key=_offset_of)
        behind_ms = last.at_ms - history[before - 1].at_ms if before else None
        return PartitionLag(committed, last.offset, behind_ms, last.at_ms)

    def _remember_end(self, partition: Partition, end: _End) -> None:
        history = self._end_history.setdefault(partition, [])
        if history and end.offset < history[-1].offset:
            history.clear()  # the topic was made again, or records were lost
        history.append(end)
        before = bisect_right(history, self.committed[partition], key=_offset_of)
        del history[: max(0, before - 1)]
        if len(history) > ENDS_MAX:
            del history[1:-1:2]

    def of(self, partitions: Iterable[Partition]) -> int | None:
        """The lag of some partitions at their latest measurements, as far as known; None if of none
        it is."""
        lags = [
            max(0, self.ends[partition] - self._committed_at_end[partition])
            for partition in partitions
            if partition in self.ends
        ]
        return sum(lags) if lags else None

    def take_turn(self, partitions_max: int) -> Collection[Partition]:
        """The next partitions to ask for."""
        if not self._turn:
            self._turn = list(self.committed)
            self._answered.clear()
        taken, self._turn = self._turn[:partitions_max], self._turn[partitions_max:]
        return taken

    def record_measurement(self, now_ms: int) -> None:
        """The partitions of the turn have been asked for. While the leader of one is away, its end
        is as old as the measurement before."""
        if not self._turn and self.ends and self.ends.keys() <= self._answered:
            self.measured_ms = now_ms
            self.history.append(self.total)
            self.rescoped = self._rescoped
            self.behind_ms = self._find_behind()

    def _find_behind(self) -> int | None:
        furthest = 0
        for partition in self.committed:
            lag = self.partition(partition)
            if lag is None or lag.behind_ms is None:
                return None
            furthest = max(furthest, lag.behind_ms)
        return furthest

    def _lag(self, partition: Partition) -> int:
        end = self.ends.get(partition)
        return 0 if end is None else max(0, end - self.committed[partition])


def _offset_of(end: _End) -> int:
    return end.offset


class ShownLag(NamedTuple):
    """How far a group is behind, as of the latest measurement."""

    records: int
    behind_ms: int | None
    """The greatest possible age of its oldest record that is not committed; None if that is not
    known."""
    at_ms: int
    """When that was so."""


class Lags:
    """All groups that commit."""

    def __init__(
        self, subscribed_topics: Callable[[str], Collection[str]] = lambda _group_id: ()
    ) -> None:
        """`subscribed_topics`: of a group, as far as known; none if it has no members."""
        self._subscribed_topics = subscribed_topics
        self._groups: dict[str, GroupLag] = {}
        """The one that has committed last is the last."""
        self._turns: dict[str, None] = {}
        """The groups, the one that was looked at last at the end."""
        self._partitions = 0

    def take(self, envelope: Envelope) -> None:
        """See an event."""
        if (group_id := envelope.group_id) is None:
            return
        match envelope.fields:
            case OffsetsCommitted(offsets=offsets):
                last = {
                    (topic, commits.partition): commits.last
                    for topic, partitions in offsets.items()
                    for commits in partitions
                }
                self._commit(group_id, last)
            case OffsetsFetched(starts=starts):
                started = {
                    (topic, start.partition): start.offset
                    for topic, partitions in starts.items()
                    for start in partitions
                    if start.offset >= 0
                }
                self._commit(group_id, started)
            case OffsetsDeleted(partitions=partitions):
                gone = [
                    (topic, number) for topic, numbers in partitions.items() for number in numbers
                ]
                self._drop(group_id, gone)
            case TopicsDeleted(topics=topics):
                group = self._groups.get(group_id)
                known = () if group is None else tuple(group.committed)
                self._drop(group_id, [partition for partition in known if partition[0] in topics])
            case GroupDeleted():
                self._forget(group_id)
            case _:
                pass

    def of(self, group_id: str) -> GroupLag | None:
        """One group; None if it has committed nothing."""
        return self._groups.get(group_id)

    def total(self, group_id: str, now_ms: int) -> int | None:
        """The lag of a group when its ends were known last; None if it is not known, or too old.
        Commits since then would make it smaller than it is."""
        group = self._groups.get(group_id)
        if group is None or group.measured_ms is None or now_ms - group.measured_ms > FRESH_MS:
            return None
        return group.history[-1]

    def show(self, group_id: str, now_ms: int) -> ShownLag | None:
        """The lag of a group with its time."""
        records, group = self.total(group_id, now_ms), self._groups.get(group_id)
        if records is None or group is None or group.measured_ms is None:
            return None
        return ShownLag(records, group.behind_ms, group.measured_ms)

    def take_turns(
        self, partitions_max: int, first: Iterable[str] = ()
    ) -> Mapping[str, Collection[Partition]]:
        """The next partitions to ask for, of the groups whose turn it is. `first` are groups that
        need not wait for theirs."""
        left, turns = partitions_max, {}
        for group_id in (*first, *tuple(self._turns)[:partitions_max]):
            self._drop_unsubscribed(group_id)
            group = self._groups.get(group_id)
            if group is None or group_id in turns:
                continue
            partitions = group.take_turn(left)
            turns[group_id] = partitions
            left -= len(partitions)
            self._turns.pop(group_id)
            self._turns[group_id] = None
            if left <= 0:
                break
        return turns

    def take_ends(
        self,
        turns: Mapping[str, Collection[Partition]],
        ends: Mapping[Partition, int],
        now_ms: int,
        unreported_commits: UnreportedCommits = lambda _group_id: {},
    ) -> None:
        """What the cluster has said of these partitions. Of some it may have said nothing."""
        for group_id, partitions in turns.items():
            group = self._groups.get(group_id)
            if group is None:
                continue
            # Offsets may have been deleted while the cluster was asked.
            known = [part for part in partitions if part in ends and part in group.committed]
            unreported = unreported_commits(group_id)
            for partition in known:
                if partition in unreported:
                    group.commit(partition, unreported[partition])
                group.end(partition, ends[partition], now_ms)
            if known or not partitions:
                group.record_measurement(now_ms)

    def _commit(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        if not offsets:  # a start without a committed offset
            return
        group = self._groups.pop(group_id, None) or GroupLag()
        self._groups[group_id] = group
        self._turns.setdefault(group_id)
        before = len(group.committed)
        for partition, offset in offsets.items():
            group.commit(partition, offset)
        self._partitions += len(group.committed) - before
        while self._partitions > PARTITIONS_MAX:
            self._forget(next(iter(self._groups)))

    def _drop_unsubscribed(self, group_id: str) -> None:
        """Forget the partitions of topics that no member subscribes to any more. One that returns
        fetches its offsets first."""
        group, topics = self._groups.get(group_id), self._subscribed_topics(group_id)
        if group is not None and topics:
            known = tuple(group.committed)
            self._drop(group_id, [partition for partition in known if partition[0] not in topics])

    def _drop(self, group_id: str, partitions: Iterable[Partition]) -> None:
        group = self._groups.get(group_id)
        if group is None:
            return
        before = len(group.committed)
        for partition in partitions:
            if partition in group.committed:
                group.drop(partition)
        self._partitions += len(group.committed) - before
        if not group.committed:
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        self._turns.pop(group_id, None)
        self._partitions -= 0 if group is None else len(group.committed)
