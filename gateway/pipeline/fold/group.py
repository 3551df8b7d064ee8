"""The fold of one group: its ordered lines in, the rows of all tables out.

Ownership comes from `partitions_assigned`, `grant_ended` and `group_loaded` alone. Every grant has
a stated end, so a grant that another one meets is a fault, unless lines are missing. The engine's
own figures (`rebalance_ended`, `step_ended`, `readiness_changed`) become rows as they are; no
verdict depends on them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.events.offset_events import NO_MEMBER, CommittedOffsets
from gateway.pipeline.fold.lines import NUMBER_MAX, Line
from gateway.pipeline.fold.members import MemberFold
from gateway.pipeline.fold.order import (
    CLOCKS_DIFFER_MS_MAX,
    NO_HOSTINGS,
    Hostings,
    Placed,
)
from gateway.pipeline.fold.partition import (
    IN_FLIGHT_MS_MAX,
    Fault,
    GrantPeriod,
    Handover,
    PartitionHistory,
    Source,
    StoredOffset,
    source_of,
)
from gateway.pipeline.fold.rows import (
    FindingRow,
    GroupRow,
    HandoverRow,
    NotCompared,
    OffsetRow,
    OwnershipRow,
    RebalanceRow,
    StepRow,
    Tables,
)
from gateway.pipeline.fold.sequences import GroupSequences

DELETED_MS_MAX = 30_000
"""How long after a topic was deleted a gateway may notice it."""
CLOSED_EVERY = 8_192
"""Lines between two times at which rows are handed out."""

T = TypeVar("T")


@dataclass(slots=True)
class TopicHistory:
    """The partitions of one topic."""

    topic_id: str | None
    partitions: dict[int, PartitionHistory] = field(default_factory=dict)


@dataclass(slots=True)
class LogState:
    """What a group's fold keeps of one log."""

    run: int
    needs_load: bool = False
    """Whether another run has begun, whose `group_loaded` has not come yet."""
    last_ms: int = 0
    """The latest time of a line."""


class GroupFold:
    """The fold of one group in one cluster."""

    def __init__(self, cluster_id: str, group_id: str, hostings: Hostings = NO_HOSTINGS) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._hostings = hostings
        self._is_alone = hostings is NO_HOSTINGS
        """Whether there is one log, so that rows can be handed out early."""
        self.tables = Tables()
        self._sequences = GroupSequences(cluster_id, group_id)
        self._members = MemberFold(cluster_id, group_id, self.tables)
        self._topics: dict[str, TopicHistory] = {}
        self._retired: set[str] = set()
        """Ids of topics that were deleted."""
        self._retired_names: set[str] = set()
        """Their names, which members may state until they learn of that."""
        self._logs: dict[str, LogState] = {}
        self._grants: list[tuple[PartitionHistory, GrantPeriod]] = []
        """All grants, if there are several logs."""
        self._faults: list[tuple[PartitionHistory, Fault]] = []
        """Faults that a deletion of the topic may still explain."""
        self._transactions: dict[str, set[tuple[str, int]]] = {}
        """The partitions with offsets in each open transaction."""
        self._apart: set[tuple[str, str]] = set()
        """Gateways the first of which came first, whatever the clocks say: an offset came back from
        the cluster before it was stored, or the second one began with what the first one had."""
        self._is_whole = False
        """Whether the group's beginning is among the lines."""
        self._stated_ms: int | None = None
        """Since when all grants are stated; null if they are not."""
        self._is_forwarded = False
        self._has_version_1 = False
        self._first_ms: int | None = None
        self._last_ms = 0
        self._lines = 0
        self._faults_by_kind: Counter[str] = Counter()
        self._doubts: Counter[str] = Counter()
        self._not_compared: Counter[str] = Counter()
        self._first_grants = self._handovers = self._compared = self._unread = 0
        self._costs: Counter[str] = Counter()
        self._readiness: Any = None
        self._steps: tuple[str | None, int, int] = (None, 0, 0)
        """The direction, the migration and the number of the latest step."""

    def take(self, placed: Placed) -> Tables | None:
        """Take the next line. Returns rows that no later line changes, now and then."""
        at_ms, line, _hosting = placed
        if self._first_ms is None:
            self._first_ms = at_ms
        self._last_ms = at_ms
        if not self._sequences.take(line):
            return None  # a repeated line
        self._lines += 1
        if line.version == 1:
            self._has_version_1 = True
        if self._sequences.has_new_beginning:
            self._sequences.has_new_beginning = False
            self._begin_sequence(line)
        if self._sequences.has_hole:
            self._sequences.has_hole = False
            if line.event != "group_loaded":
                self._doubt_grants(line.gateway_id)
        if line.fields is None:
            self._doubt_grants(line.gateway_id)
            return None
        log = self._logs.get(line.gateway_id)
        if log is None:
            log = self._logs[line.gateway_id] = LogState(line.run)
        elif line.run != log.run:
            if line.run < log.run or line.at_ms < log.last_ms:
                self._sequences.add_shared_run(line)
            log.run = line.run
            log.needs_load = self._has_grants(line.gateway_id)
        log.last_ms = max(log.last_ms, line.at_ms)
        handler = _HANDLERS.get(line.event)
        if handler is not None:
            handler(self, placed, line.fields)
        self._members.take(placed)
        if self._lines % CLOSED_EVERY == 0 and self._is_alone:
            return self._hand_out()
        return None

    def finish(self, unread: int = 0) -> Tables:
        """All other rows, as if nothing followed."""
        made = self.tables
        if not self._is_alone:
            self._compare_logs()
        for partition in self._all_partitions():
            self._close_partition(partition)
        self._tell_faults(None)
        for row in self._sequences.finish(self._last_ms):
            made.unread.append(row)
        if self._has_version_1:
            made.unread.append(self._sequences.version_1_row(self._first_ms or 0))
        self._unread += len(made.unread) + unread
        self._members.finish(self._last_ms)
        made.groups.append(self._group_row())
        return made

    def _hand_out(self) -> Tables:
        """The rows so far."""
        self._tell_faults(self._last_ms)
        made, self.tables = self.tables, Tables()
        self._members.tables = self.tables
        self._unread += len(made.unread)
        return made

    # Ownership

    def _partition(
        self, topic: str, number: int, topic_id: str | None, source: Source
    ) -> PartitionHistory:
        its = self._topic(topic, topic_id, source)
        partition = its.partitions.get(number)
        if partition is None:
            partition = PartitionHistory(topic, number, its.topic_id, self._is_whole)
            its.partitions[number] = partition
        return partition

    def _topic(self, name: str, topic_id: str | None, source: Source) -> TopicHistory:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicHistory(topic_id)
        elif topic_id is not None and topic.topic_id != topic_id:
            if topic.topic_id is None:
                topic.topic_id = topic_id
            else:
                self._retire(name, source)
                topic = self._topics[name] = TopicHistory(topic_id)
        return topic

    def _not_retired(
        self, of_topics: Mapping[str, T], topic_ids: Mapping[str, str]
    ) -> Iterator[tuple[str, str | None, T]]:
        """Topics with their ids, without deleted ones. What was on its way to a deleted topic does
        not concern the next one of its name."""
        for name, value in of_topics.items():
            topic_id = topic_ids.get(name)
            if topic_id not in self._retired:
                yield name, topic_id, value

    def _retire(self, name: str, source: Source) -> None:
        """A topic is gone: its partitions have no owner, and its offsets mean nothing."""
        self._retired_names.add(name)
        topic = self._topics.pop(name, None)
        if topic is None:
            return
        if topic.topic_id is not None:
            self._retired.add(topic.topic_id)
        for partition in topic.partitions.values():
            for grant in list(partition.open):
                self._end(partition, grant, source, "topic_deleted")
            self._close_partition(partition)
        for place, (partition, fault) in enumerate(self._faults):
            if partition.topic == name and _may_be_explained(fault, source.at_ms):
                self._faults[place] = partition, fault._replace(is_certain=False)

    def _on_assigned(self, placed: Placed, event: Any) -> None:
        self._check_load(placed)
        source = source_of(placed)
        for topic, topic_id, numbers in self._not_retired(event.partitions, event.topic_ids):
            for number in numbers:
                partition = self._partition(topic, number, topic_id, source)
                self._grant(partition, event.member_id, source, source.at_ms)

    def _grant(
        self, partition: PartitionHistory, member_id: str, source: Source, from_ms: int | None
    ) -> None:
        gateway_id = source.hosting.gateway_id
        for grant in list(partition.open):
            if grant.source.hosting.gateway_id != gateway_id:
                continue  # compared at the end
            if grant.member_id == member_id:
                return
            is_certain = grant.is_certain and not self._has_version_1
            before_id = grant.member_id
            self._find(
                partition, _owned_twice(is_certain, member_id, before_id, source, grant.source)
            )
            if not grant.is_certain:
                self._end(partition, grant, source, None)
        before = partition.latest
        grant = GrantPeriod(member_id, source, from_ms)
        was_forwarded = partition.was_forwarded
        self._close_handover(partition)
        if before is None:
            self._first_grants += 1
        else:
            if before.to_ms is not None and before.to_ms < source.at_ms and not partition.open:
                self.tables.ownership.append(
                    self._owner_row(partition, None, before.to_ms, source.at_ms, gateway_id)
                )
            if before.member_id != member_id:
                reason: NotCompared | None = None
                if not before.is_certain:
                    reason = "lines missing"
                    if before.ended_by is None and before.end not in (None, source):
                        # It was gone before, and no line states when it ended.
                        ids = member_id, before.member_id
                        self._find(partition, _owned_twice(False, *ids, source, before.source))
                elif not self._is_ordered(before, source):
                    reason = "clocks"
                partition.handover = Handover(before, grant, reason, was_forwarded)
        partition.begin_grant(grant)
        if not self._is_alone:
            self._grants.append((partition, grant))

    def _is_ordered(self, before: GrantPeriod, source: Source) -> bool:
        end = before.end or before.source
        return self._hostings.is_certain(end.hosting, end.at_ms, source.hosting, source.at_ms)

    def _on_ended(self, placed: Placed, event: Any) -> None:
        self._check_load(placed)
        source, gateway_id = source_of(placed), placed.line.gateway_id
        for topic, topic_id, numbers in self._not_retired(event.partitions, event.topic_ids):
            for number in numbers:
                partition = self._partition(topic, number, topic_id, source)
                grant = _grant_of(partition, event.member_id, gateway_id)
                if grant is None:
                    # Its beginning was not seen: nothing says since when.
                    grant = GrantPeriod(event.member_id, source, None, is_certain=False)
                    if partition.latest is not None:
                        continue
                    partition.begin_grant(grant)
                    self._first_grants += 1
                self._end(partition, grant, source, event.cause)

    def _end(
        self, partition: PartitionHistory, grant: GrantPeriod, source: Source, cause: str | None
    ) -> None:
        partition.end_grant(grant, source, cause)
        self.tables.ownership.append(
            self._owner_row(
                partition,
                grant.member_id,
                grant.from_ms,
                grant.to_ms,
                grant.source.hosting.gateway_id,
                ended_by=cause,
                is_certain=grant.is_certain,
            )
        )

    def _on_loaded(self, placed: Placed, event: Any) -> None:
        """Everything that a gateway holds is stated."""
        source, gateway_id = source_of(placed), placed.line.gateway_id
        log = self._logs[gateway_id]
        log.needs_load = False
        is_stated = all(member.partitions is not None for member in event.members)
        self._stated_ms = source.at_ms if is_stated else None
        holders = _holders(event)
        if not self._is_alone:
            self._take_over(placed, holders)
        for partition in self._all_partitions():
            for grant in list(partition.open):
                if grant.source.hosting.gateway_id != gateway_id:
                    continue
                if grant.member_id in holders.get((partition.topic, partition.number), ()):
                    grant.is_certain, grant.last_hosting = True, placed.hosting
                else:
                    # No line states when it ended.
                    grant.is_certain = False
                    self._end(partition, grant, source, None)
        from_ms = None if self._lines == 1 else source.at_ms
        for (topic, number), member_ids in holders.items():
            if (topic_id := event.topic_ids.get(topic)) in self._retired:
                continue
            partition = self._partition(topic, number, topic_id, source)
            for member_id in sorted(member_ids):
                self._grant(partition, member_id, source, from_ms)

    def _take_over(self, placed: Placed, holders: Mapping[tuple[str, int], set[str]]) -> None:
        """Another log goes on with the group. If it begins with what an earlier one had at its end,
        clocks that contradict that differ."""
        left: dict[str, dict[tuple[str, int], set[str]]] = {}
        for partition in self._all_partitions():
            last = [partition.latest] if partition.latest is not None else []
            for grant in {id(grant): grant for grant in (*partition.open, *last)}.values():
                hosting = grant.held_in
                is_left = grant.end is None or grant.ended_by == "group_moved"
                if is_left and self._hostings.relation(hosting, placed.hosting) == "before":
                    place = partition.topic, partition.number
                    of_log = left.setdefault(hosting.gateway_id, {})
                    of_log.setdefault(place, set()).add(grant.member_id)
                    if grant.end is None and hosting.gateway_id != placed.hosting.gateway_id:
                        last_ms = hosting.last_ms
                        end = grant.source._replace(at_ms=last_ms, clock_ms=last_ms)
                        self._end(partition, grant, end, None)
        for gateway_id, had in left.items():
            if had == holders:
                self._apart.add((gateway_id, placed.hosting.gateway_id))

    def _on_cluster_members(self, placed: Placed, event: Any) -> None:
        """The cluster has the group. What it shows comes from several answers and requests."""
        source = source_of(placed)
        for (topic, number), member_ids in _holders(event).items():
            partition = self._partition(topic, number, None, source)
            holders = sorted(member_ids | {grant.member_id for grant in partition.open})
            if len(holders) > 1:
                one, other, *_others = holders
                self._find(partition, _owned_twice(False, one, other, source, None))

    def _check_load(self, placed: Placed) -> None:
        """A run that states no `group_loaded` before it grants leaves the end of older grants
        open."""
        log = self._logs[placed.line.gateway_id]
        if log.needs_load:
            log.needs_load = False
            self._doubt_grants(placed.line.gateway_id)

    def _doubt_grants(self, gateway_id: str) -> None:
        for partition in self._all_partitions():
            for grant in partition.open:
                if grant.source.hosting.gateway_id == gateway_id:
                    grant.is_certain = False

    def _begin_sequence(self, line: Line) -> None:
        """The group was deleted and is back. Grants that have not ended show that the end of its
        earlier sequence is missing, and with it what became of the offsets."""
        if not self._has_grants(line.gateway_id):
            return
        self._sequences.miss_end(line)
        self._doubt_grants(line.gateway_id)
        for partition in self._all_partitions():
            partition.forget_offset()

    def _has_grants(self, gateway_id: str) -> bool:
        return any(
            grant.source.hosting.gateway_id == gateway_id
            for partition in self._all_partitions()
            for grant in partition.open
        )

    def _on_topics_deleted(self, placed: Placed, event: Any) -> None:
        for name in event.topics:
            topic, topic_id = self._topics.get(name), event.topic_ids.get(name)
            if topic_id is None or (topic is not None and topic.topic_id == topic_id):
                self._retire(name, source_of(placed))
            else:
                self._retired.add(topic_id)

    def _on_created(self, placed: Placed, _event: Any) -> None:
        self._is_whole, self._stated_ms = True, placed.at_ms

    def _on_deleted(self, placed: Placed, _event: Any) -> None:
        source = source_of(placed)
        for name in list(self._topics):
            self._retire_offsets(name, source)

    def _retire_offsets(self, name: str, source: Source) -> None:
        """The group is gone with its offsets; its topics are still there."""
        for partition in self._topics[name].partitions.values():
            for grant in list(partition.open):
                if grant.source.hosting.gateway_id == source.hosting.gateway_id:
                    self._end(partition, grant, source, "group_deleted")
            partition.delete_offset(source)

    def _on_forwarded(self, placed: Placed, _event: Any) -> None:
        self._is_forwarded, self._is_whole, self._stated_ms = True, False, None
        self._end_unstated(source_of(placed))
        for partition in self._all_partitions():
            partition.was_forwarded, partition.is_whole = True, False

    def _on_hosting_started(self, _placed: Placed, _event: Any) -> None:
        self._is_forwarded = False

    def _on_hosting_ended(self, placed: Placed, event: Any) -> None:
        source = source_of(placed)
        if event.cause != "gateway_ended":
            self._end_unstated(source)
        if event.cause in _LOST_TO_OTHERS:
            self._doubt_lost(source)

    def _on_lost(self, placed: Placed, _event: Any) -> None:
        self._doubt_lost(source_of(placed))

    def _doubt_lost(self, source: Source) -> None:
        """Others have had the group in the cluster before the members here knew. Unless another log
        shows who, they may have had the same partitions."""
        if self._hostings.has_successor(source.hosting):
            return
        for partition in self._all_partitions():
            latest = partition.latest
            if latest is None or latest.is_shared or latest.held_in is not source.hosting:
                continue
            if latest.end is None or latest.ended_by == "group_moved":
                latest.is_shared = True
                ids = NO_MEMBER, latest.member_id
                self._find(partition, _owned_twice(False, *ids, source, latest.source))

    def _end_unstated(self, source: Source) -> None:
        """The gateway no longer has the group. A grant that has not ended by then has no stated
        end, unless it ended with its process."""
        hosting = source.hosting
        for partition in self._all_partitions():
            for grant in list(partition.open):
                held_in = grant.held_in
                if (held_in.gateway_id, held_in.run) == (hosting.gateway_id, hosting.run):
                    grant.is_certain = False
                    self._end(partition, grant, source, None)

    def _compare_logs(self) -> None:
        """Compare the grants of different logs. Within a log that was done one after another."""
        of_partitions: dict[int, list[tuple[PartitionHistory, GrantPeriod]]] = {}
        for partition, grant in self._grants:
            of_partitions.setdefault(id(partition), []).append((partition, grant))
        for grants in of_partitions.values():
            for place, (partition, grant) in enumerate(grants):
                for _partition, other in grants[place + 1 :]:
                    self._compare_grants(partition, grant, other)

    def _compare_grants(
        self, partition: PartitionHistory, grant: GrantPeriod, other: GrantPeriod
    ) -> None:
        one, two = grant.source.hosting, other.source.hosting
        if one.gateway_id == two.gateway_id or grant.member_id == other.member_id:
            return
        how = self._hostings.relation(one, two)
        if self._hostings.relation(grant.held_in, two) == "before":
            how = "before"
        elif self._hostings.relation(other.held_in, one) == "before":
            how = "after"
        first, second = (other, grant) if how in ("after", "starts after") else (grant, other)
        gateways = first.source.hosting.gateway_id, second.source.hosting.gateway_id
        overlap_ms = min(_end_ms(grant), _end_ms(other)) - max(_start_ms(grant), _start_ms(other))
        is_stated = grant.is_certain and other.is_certain and not self._has_version_1
        if how in ("before", "after"):
            # Only the gateways state the order, against their clocks.
            if overlap_ms <= 0 or gateways in self._apart:
                return
            is_certain = False
        elif overlap_ms < -CLOCKS_DIFFER_MS_MAX:
            return
        elif how == "unknown":
            is_certain = is_stated and overlap_ms > CLOCKS_DIFFER_MS_MAX
        else:
            # A log that stops, as of a gateway that was killed, says nothing of what followed.
            is_known = first.end is not None or first.committed_ms > _start_ms(second)
            least_ms = 0 if is_known else CLOCKS_DIFFER_MS_MAX
            is_certain = is_stated and overlap_ms > least_ms and gateways not in self._apart
        ids = second.member_id, first.member_id
        end = first.end or first.source
        self._find(partition, _owned_twice(is_certain, *ids, second.source, end))

    # Offsets

    def _on_committed(self, placed: Placed, event: Any) -> None:
        if event.is_transactional:
            self._on_committed_in_transaction(placed, event)
            return
        source = source_of(placed)
        member_id, is_hosted = event.member_id, placed.line.hosting is not None
        for name, topic_id, entries in self._not_retired(event.offsets, event.topic_ids):
            topic = self._topic(name, topic_id, source)
            partitions = topic.partitions
            for entry in entries:
                partition = partitions.get(entry.partition)
                if partition is None:
                    partition = self._partition(name, entry.partition, None, source)
                if is_hosted and member_id not in (NO_MEMBER, partition.owner_id):
                    self._check_commit(partition, event, entry, source)
                elif is_hosted and member_id == NO_MEMBER:
                    self._check_reset(partition, entry, source)
                elif not is_hosted:
                    self._check_cluster_commit(partition, member_id, source)
                if not self._is_alone:
                    self._compare_early(partition, entry, event.from_ms, source)
                for fault in partition.commit(member_id, entry, event.from_ms, source):
                    self._find(partition, fault)

    def _compare_early(
        self, partition: PartitionHistory, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> None:
        """Compare clocks: another gateway has told this offset before it was stored."""
        for grant in partition.open:
            if grant.source.hosting.gateway_id == source.hosting.gateway_id:
                grant.committed_ms = source.clock_ms
        early = partition.early
        if early is None or early.offset is None or early.source.clock_ms >= from_ms:
            return
        if entry.first <= early.offset <= entry.last:
            self._apart.add((source.hosting.gateway_id, early.source.hosting.gateway_id))

    def _on_committed_in_transaction(self, placed: Placed, event: Any) -> None:
        source, transactional_id = source_of(placed), event.transactional_id
        is_hosted = placed.line.hosting is not None
        for name, topic_id, entries in self._not_retired(event.offsets, event.topic_ids):
            for entry in entries:
                partition = self._partition(name, entry.partition, topic_id, source)
                if transactional_id is None:
                    partition.is_open_transaction = True
                    continue
                if is_hosted and event.member_id not in (NO_MEMBER, partition.owner_id):
                    self._check_commit(partition, event, entry, source)
                partition.pending[transactional_id] = entry, event.member_id, source
                in_transaction = self._transactions.setdefault(transactional_id, set())
                in_transaction.add((name, entry.partition))

    def _on_transaction_ended(self, placed: Placed, event: Any) -> None:
        """The offsets of a committed transaction count from now on."""
        source = source_of(placed)
        for name, number in sorted(self._transactions.pop(event.transactional_id, ())):
            topic = self._topics.get(name)
            partition = topic.partitions.get(number) if topic is not None else None
            if partition is None or event.transactional_id not in partition.pending:
                continue
            entry, member_id, stored = partition.pending.pop(event.transactional_id)
            if not event.is_committed:
                continue
            # A producer may omit the member id.
            member_id = member_id or event.member_id or partition.owner_id or event.transactional_id
            for fault in partition.commit(member_id, entry, stored.at_ms, source):
                self._find(partition, fault)

    def _on_fetched(self, placed: Placed, event: Any) -> None:
        source = source_of(placed)
        for name, topic_id, entries in self._not_retired(event.starts, event.topic_ids):
            for entry in entries:
                partition = self._partition(name, entry.partition, topic_id, source)
                fetched = entry.offset if entry.offset >= 0 else None
                if not self._is_alone and partition.stored is not None:
                    self._compare_clocks(partition.stored, fetched, source)
                for fault in partition.fetch(event.member_id, fetched, source):
                    self._find(partition, fault)

    def _compare_clocks(self, stored: StoredOffset, fetched: int | None, source: Source) -> None:
        if stored.offset == fetched and stored.since_ms > source.clock_ms:
            self._apart.add((stored.source.hosting.gateway_id, source.hosting.gateway_id))

    def _on_offsets_deleted(self, placed: Placed, event: Any) -> None:
        source = source_of(placed)
        for name, topic_id, numbers in self._not_retired(event.partitions, event.topic_ids):
            for number in numbers:
                self._partition(name, number, topic_id, source).delete_offset(source)

    def _on_stated(self, placed: Placed, event: Any) -> None:
        if placed.line.hosting is None or event.member_id == NO_MEMBER:
            return
        source = source_of(placed)
        for name, topic_id, numbers in self._not_retired(event.partitions, event.topic_ids):
            for number in numbers:
                partition = self._partition(name, number, topic_id, source)
                self._check_claim(partition, event.member_id, source.at_ms, source)

    def _check_commit(
        self, partition: PartitionHistory, event: Any, entry: CommittedOffsets, source: Source
    ) -> None:
        """A member commits, which claims the partition. Of several commits only the first one's
        request is stated."""
        requested_ms, member_id = event.requested_ms, event.member_id
        if requested_ms is None:
            requested_ms = event.from_ms - IN_FLIGHT_MS_MAX
        if self._check_claim(partition, member_id, requested_ms, source) or entry.commits == 1:
            return
        requested_ms = event.to_ms - IN_FLIGHT_MS_MAX
        self._check_claim(partition, member_id, requested_ms, source, is_stated=False)

    def _check_reset(
        self, partition: PartitionHistory, entry: CommittedOffsets, source: Source
    ) -> None:
        """A client without a member id goes back although a member has the partition. The cluster
        takes a reset while the group is empty."""
        stored = partition.stored
        if not partition.open or stored is None or stored.offset is None:
            return
        if entry.lowest < stored.offset:
            ids = NO_MEMBER, stored.member_id
            offsets = entry.lowest, stored.offset
            fault = Fault("commit_went_back", False, *ids, *offsets, source, stored.source)
            self._find(partition, fault)

    def _check_cluster_commit(
        self, partition: PartitionHistory, member_id: str, source: Source
    ) -> None:
        """A member in the cluster commits. The latest owner here must have ended before, also at
        another gateway."""
        latest = partition.latest
        if latest is None or member_id in (NO_MEMBER, latest.member_id):
            return
        if latest.end is None:
            is_possible = source.at_ms < latest.held_in.last_ms
        else:
            is_possible = latest.ended_by is None and not latest.is_certain
        if is_possible:
            ids = member_id, latest.member_id
            self._find(partition, _owned_twice(False, *ids, source, latest.source))

    def _check_claim(
        self,
        partition: PartitionHistory,
        member_id: str,
        requested_ms: int,
        source: Source,
        *,
        is_stated: bool = True,
    ) -> bool:
        """A member claims a partition, which it may do until it learns that another one has it.
        Returns whether that is a fault. `is_stated`: whether the time of the request is."""
        latest = partition.latest
        if any(grant.member_id == member_id for grant in partition.open):
            return False
        if latest is None:
            if self._stated_ms is None or requested_ms <= self._stated_ms:
                return False
            if partition.topic in self._retired_names:
                return False
        elif latest.member_id == member_id or partition.was_forwarded:
            return False
        elif requested_ms <= max(partition.ended_ms.get(member_id, -1), latest.source.at_ms):
            return False  # on its way while the partition passed on
        is_certain = is_stated and not self._has_version_1
        is_certain = is_certain and (self._is_whole if latest is None else latest.is_certain)
        holder_id = latest.member_id if latest is not None else None
        granted = latest.source if latest is not None else None
        fault = Fault(
            "claim_without_grant", is_certain, member_id, holder_id, None, None, source, granted
        )
        self._find(partition, fault)
        return True

    def _find(self, partition: PartitionHistory, fault: Fault) -> None:
        if fault.is_certain and fault.other is not None:
            is_ordered = self._hostings.is_certain(
                fault.other.hosting, fault.other.at_ms, fault.source.hosting, fault.source.at_ms
            )
            if not is_ordered and fault.kind != "owned_twice":
                fault = fault._replace(is_certain=False)
        self._faults.append((partition, fault))

    def _tell_faults(self, now_ms: int | None) -> None:
        """Make rows of findings, unless a deletion of the topic may yet explain them."""
        waiting: list[tuple[PartitionHistory, Fault]] = []
        if now_ms is not None:
            for partition in self._all_partitions():
                if (skip := partition.take_skip(now_ms)) is not None:
                    self._faults.append((partition, skip))
        for partition, fault in self._faults:
            if now_ms is not None and _may_be_explained(fault, now_ms):
                waiting.append((partition, fault))
                continue
            counts = self._faults_by_kind if fault.is_certain else self._doubts
            counts[fault.kind] += 1
            self.tables.findings.append(self._finding_row(partition, fault))
        self._faults = waiting

    # The engine's own figures

    def _on_rebalance_ended(self, placed: Placed, event: Any) -> None:
        line = placed.line
        self._costs["rebalances"] += 1
        for name in _COSTS:
            self._costs[name] += getattr(event, name)
        self.tables.rebalances.append(
            RebalanceRow(
                **self._of,
                **{name: getattr(event, name) for name in (*_COSTS, *_REBALANCE)},
                from_ms=event.started_ms,
                to_ms=placed.at_ms,
                gateway_id=line.gateway_id,
                process_id=line.process_id,
                sequence=line.sequence,
            )
        )

    def _on_step_ended(self, placed: Placed, event: Any) -> None:
        direction, migration, number = self._steps
        if direction != event.to_protocol:
            direction, migration, number = event.to_protocol, migration + 1, 0
        self._steps = direction, migration, number + 1
        self._costs["steps"] += 1
        self.tables.steps.append(
            StepRow(
                **self._of,
                **{name: getattr(event, name) for name in (*_COSTS, *_STEP)},
                migration=migration,
                number=number + 1,
                from_ms=event.started_ms,
                to_ms=placed.at_ms,
            )
        )

    def _on_readiness_changed(self, _placed: Placed, event: Any) -> None:
        self._readiness = event

    # Rows

    def _all_partitions(self) -> Iterator[PartitionHistory]:
        for topic in self._topics.values():
            yield from topic.partitions.values()

    def _close_partition(self, partition: PartitionHistory) -> None:
        """Make the rows of a partition that no line changes any more."""
        self._close_handover(partition)
        if (skip := partition.take_skip(None)) is not None:
            self._faults.append((partition, skip))
        for grant in partition.open:
            self.tables.ownership.append(
                self._owner_row(
                    partition,
                    grant.member_id,
                    grant.from_ms,
                    None,
                    grant.source.hosting.gateway_id,
                    is_certain=grant.is_certain,
                )
            )
        partition.open = []
        progress = partition.progress
        if progress is not None:
            self.tables.offsets.append(
                OffsetRow(
                    **self._at(partition),
                    commits=progress.commits,
                    first=progress.first,
                    last=progress.last,
                    member_id=progress.member_id,
                    from_ms=progress.from_ms,
                    to_ms=progress.to_ms,
                )
            )

    def _close_handover(self, partition: PartitionHistory) -> None:
        handover = partition.handover
        if handover is None:
            return
        partition.handover = None
        reason = handover.not_compared
        if reason is None and not handover.is_compared:
            if partition.pending or partition.is_open_transaction:
                reason = "transactional"
            elif handover.was_forwarded:
                reason = "forwarded"
            elif partition.stored is None:
                reason = "no commit"
            else:
                reason = "no fetch"
        self._handovers += 1
        if reason is None:
            self._compared += 1
        else:
            self._not_compared[reason] += 1
        self.tables.handovers.append(
            HandoverRow(
                **self._at(partition, handover.grant.source),
                from_member_id=handover.before.member_id,
                to_member_id=handover.grant.member_id,
                ended_ms=handover.before.to_ms,
                granted_ms=handover.grant.source.at_ms,
                stored=handover.stored,
                fetched=handover.fetched,
                compared=reason is None,
                not_compared=reason,
            )
        )

    def _at(self, partition: PartitionHistory, source: Source | None = None) -> dict[str, Any]:
        """The columns that name a partition and, if given, a line."""
        place = {**self._of, "topic": partition.topic, "partition": partition.number}
        if source is None:
            return place
        line = {"process_id": source.process_id, "sequence": source.sequence}
        return {**place, "gateway_id": source.hosting.gateway_id, **line}

    def _owner_row(
        self,
        partition: PartitionHistory,
        member_id: str | None,
        from_ms: int | None,
        to_ms: int | None,
        gateway_id: str,
        *,
        ended_by: str | None = None,
        is_certain: bool = True,
    ) -> OwnershipRow:
        return OwnershipRow(
            **self._at(partition),
            topic_id=partition.topic_id,
            member_id=member_id,
            from_ms=from_ms,
            to_ms=to_ms,
            ended_by=ended_by,
            is_certain=is_certain,
            gateway_id=gateway_id,
        )

    def _finding_row(self, partition: PartitionHistory, fault: Fault) -> FindingRow:
        source, other = fault.source, fault.other
        return FindingRow(
            **self._at(partition, source),
            kind=fault.kind,
            is_certain=fault.is_certain,
            member_id=fault.member_id,
            other_member_id=fault.other_member_id,
            observed=fault.offset,
            expected=fault.expected,
            at_ms=source.at_ms,
            other_ms=other.at_ms if other else None,
            other_gateway_id=other.hosting.gateway_id if other else None,
            other_process_id=other.process_id if other else None,
            other_sequence=other.sequence if other else None,
        )

    def _group_row(self) -> GroupRow:
        verdict, reason = self._verdict()
        readiness = self._readiness
        blocked_by = None
        if readiness is not None and readiness.blocked_by:
            blocker = readiness.blocked_by[0]
            client = f"{blocker.client_id}: " if blocker.client_id else ""
            blocked_by = f"{client}{blocker.reason}"
        members = self._members
        counts: dict[str, Any] = {**members.counts()}
        names = ("rebalances", *_COSTS, "steps")
        counts |= {name: min(self._costs[name], NUMBER_MAX) for name in names}
        return GroupRow(
            **self._of,
            verdict=verdict,
            reason=reason,
            faults=dict(self._faults_by_kind),
            doubts=dict(self._doubts),
            unread=self._unread,
            first_grants=self._first_grants,
            handovers=self._handovers,
            compared=self._compared,
            not_compared=dict(self._not_compared),
            kind=members.kind,
            is_forwarded=self._is_forwarded,
            **counts,
            can_convert=readiness.can_convert if readiness is not None else None,
            direction=readiness.direction if readiness is not None else None,
            blocked_by=blocked_by,
            from_ms=self._first_ms or 0,
            to_ms=self._last_ms,
        )

    def _verdict(self) -> tuple[Any, str]:
        """The verdict on this group, and what it is based on."""
        if self._faults_by_kind:
            return "not safe", ", ".join(sorted(self._faults_by_kind))
        if self._doubts:
            return "not proven", ", ".join(sorted(self._doubts))
        if self._unread:
            return "not proven", "lines are missing or could not be read"
        if self._compared:
            return "safe", ""
        if self._handovers:
            return "not proven", f"not compared: {', '.join(sorted(self._not_compared))}"
        return "not proven", "no partition passed from one member to another"


_LOST_TO_OTHERS = ("taken", "anchor_lost")
_COSTS = ("partitions_moved", "least_possible", "members_disturbed", "unowned_ms")
_REBALANCE = ("epoch", "cause", "members", "was_interrupted")
_STEP = ("client_id", "client_host", "instance_id", "from_protocol", "to_protocol", "members")

_HANDLERS: Mapping[str, Callable[[GroupFold, Placed, Any], None]] = {
    "partitions_assigned": GroupFold._on_assigned,
    "grant_ended": GroupFold._on_ended,
    "group_loaded": GroupFold._on_loaded,
    "cluster_members_seen": GroupFold._on_cluster_members,
    "topics_deleted": GroupFold._on_topics_deleted,
    "group_created": GroupFold._on_created,
    "group_deleted": GroupFold._on_deleted,
    "group_forwarded": GroupFold._on_forwarded,
    "hosting_started": GroupFold._on_hosting_started,
    "hosting_ended": GroupFold._on_hosting_ended,
    "group_taken": GroupFold._on_lost,
    "generation_went_back": GroupFold._on_lost,
    "offsets_committed": GroupFold._on_committed,
    "offsets_fetched": GroupFold._on_fetched,
    "offsets_deleted": GroupFold._on_offsets_deleted,
    "transaction_ended": GroupFold._on_transaction_ended,
    "partitions_stated": GroupFold._on_stated,
    "rebalance_ended": GroupFold._on_rebalance_ended,
    "step_ended": GroupFold._on_step_ended,
    "readiness_changed": GroupFold._on_readiness_changed,
}


def _owned_twice(
    is_certain: bool,
    member_id: str,
    other_member_id: str,
    source: Source,
    other: Source | None,
) -> Fault:
    return Fault("owned_twice", is_certain, member_id, other_member_id, None, None, source, other)


def _holders(event: Any) -> Mapping[tuple[str, int], set[str]]:
    """The members that have each partition in a snapshot."""
    holders: dict[tuple[str, int], set[str]] = {}
    for member in event.members:
        for partitions in (member.partitions or {}, member.pending_revocation):
            for topic, numbers in partitions.items():
                for number in numbers:
                    holders.setdefault((topic, number), set()).add(member.member_id)
    return holders


def _may_be_explained(fault: Fault, now_ms: int) -> bool:
    """Whether a deletion of the topic that is noticed now explains a fault."""
    is_about_offsets = fault.kind in ("commit_lost", "commit_went_back")
    return is_about_offsets and fault.is_certain and now_ms <= fault.source.at_ms + DELETED_MS_MAX


def _grant_of(partition: PartitionHistory, member_id: str, gateway_id: str) -> GrantPeriod | None:
    for grant in partition.open:
        if grant.member_id == member_id and grant.source.hosting.gateway_id == gateway_id:
            return grant
    return None


def _start_ms(grant: GrantPeriod) -> int:
    return -1 if grant.from_ms is None else grant.source.clock_ms


def _end_ms(grant: GrantPeriod) -> int:
    """When it ended; one without a stated end lasts to the last line of its hosting."""
    return grant.held_in.last_ms if grant.end is None else grant.end.clock_ms
