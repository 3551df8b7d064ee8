"""Who has the partitions of a group: the topics, the grants and the hand-overs.

Ownership comes from `partitions_assigned`, `grant_ended` and `group_loaded` alone. Every grant has
a stated end, so a grant that another one meets is a fault, unless lines are missing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.fold.findings import Findings, SeveralLogs
from gateway.pipeline.fold.order import EventFold, Hostings, Source
from gateway.pipeline.fold.partition import (
    Fault,
    GrantPeriod,
    Handover,
    PartitionHistory,
)
from gateway.pipeline.fold.rows import HandoverRow, NotCompared, OwnershipRow, Tables

Entries = TypeVar("Entries")

_Holders: TypeAlias = Mapping[str, Mapping[int, set[str]]]
"""The members that have each partition, by topic and number."""


class TopicHistory(dict[int, PartitionHistory]):
    """The partitions of one topic by number."""

    def __init__(self, name: str, topic_id: str | None, ownership: "OwnershipFold") -> None:
        self.name = name
        self.topic_id = topic_id
        self._ownership = ownership

    def __missing__(self, number: int) -> PartitionHistory:
        is_whole = self._ownership.is_whole
        partition = self[number] = PartitionHistory(self.name, number, self.topic_id, is_whole)
        return partition


class OwnershipFold(EventFold):
    """The partitions of one group. Takes its lines in their order."""

    def __init__(
        self,
        group_columns: Mapping[str, str],
        tables: Tables,
        findings: Findings,
        hostings: Hostings,
        others: SeveralLogs | None,
    ) -> None:
        """`group_columns`: the columns that name the group. `others`: null if there is one log."""
        self._of = group_columns
        self._tables = tables
        self._findings = findings
        self._hostings = hostings
        self.others = others
        self.topics: dict[str, TopicHistory] = {}
        self._retired: set[str] = set()
        """Ids of topics that were deleted."""
        self.retired_names: set[str] = set()
        """The names of deleted topics, which members may state until they learn of the deletion."""
        self._needs_load: set[str] = set()
        """The logs with a new run whose `group_loaded` has not come yet."""
        self.has_lines = False
        """Whether there are lines before this one."""
        self.is_whole = False
        """Whether the group's beginning is among the lines."""
        self.stated_ms: int | None = None
        """Since when all grants are stated; null if they are not."""
        self.is_forwarded = False
        self.not_compared: Counter[str] = Counter()
        self.first_grants = self.handovers = self.compared = 0

    def begin_run(self, gateway_id: str) -> None:
        """Another process has the log from now on."""
        if self.has_grants(gateway_id):
            self._needs_load.add(gateway_id)

    def finish(self) -> None:
        """Make the rows of all partitions, as if nothing followed."""
        if self.others is not None:
            self.others.compare_grants()
        for partition in self.all_partitions():
            self.close_partition(partition)

    def topics_of(
        self, by_topic: Mapping[str, Entries], topic_ids: Mapping[str, str], source: Source
    ) -> Iterator[tuple[TopicHistory, Entries]]:
        """The topics that an event names, each with its entries. What was on its way to a deleted
        topic does not concern the next one of its name."""
        for name, entries in by_topic.items():
            topic_id = topic_ids.get(name)
            if topic_id not in self._retired:
                yield self._topic(name, topic_id, source), entries

    def partitions(
        self, by_topic: Mapping[str, Sequence[int]], topic_ids: Mapping[str, str], source: Source
    ) -> Iterator[PartitionHistory]:
        """The partitions that an event names."""
        for topic, numbers in self.topics_of(by_topic, topic_ids, source):
            yield from map(topic.__getitem__, numbers)

    def _topic(self, name: str, topic_id: str | None, source: Source) -> TopicHistory:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicHistory(name, topic_id, self)
        elif topic_id is not None and topic.topic_id != topic_id:
            if topic.topic_id is None:
                topic.topic_id = topic_id
                if name in self.retired_names:
                    for partition in topic.values():
                        partition.doubt_offset()
            else:
                self._retire(name, source)
                topic = self.topics[name] = TopicHistory(name, topic_id, self)
        return topic

    def _retire(self, name: str, source: Source) -> None:
        """A topic is gone: its partitions have no owner, and its offsets mean nothing."""
        self.retired_names.add(name)
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        if topic.topic_id is not None:
            self._retired.add(topic.topic_id)
        for partition in topic.values():
            for grant in list(partition.open):
                self._end(partition, grant, source, "topic_deleted")
            self.close_partition(partition)
        self._findings.explain_by_deletion(name, source.at_ms)

    def all_partitions(self) -> Iterator[PartitionHistory]:
        for topic in self.topics.values():
            yield from topic.values()

    def _on_partitions_assigned(self, source: Source, event: Any) -> None:
        self._check_load(source)
        for partition in self.partitions(event.partitions, event.topic_ids, source):
            self._grant(partition, event.member_id, source, source.at_ms)

    def _grant(
        self, partition: PartitionHistory, member_id: str, source: Source, from_ms: int | None
    ) -> None:
        is_doubted = False
        for grant in list(partition.open):
            if grant.gateway_id != source.gateway_id:
                continue  # compared at the end
            if grant.member_id == member_id:
                return
            self._findings.add(
                partition, grant.shared_with(member_id, source, is_certain=grant.is_certain)
            )
            if not grant.is_certain:
                self._end(partition, grant, source, None)
                is_doubted = True
        before = partition.latest
        grant = GrantPeriod(member_id, source, from_ms)
        was_forwarded = partition.was_forwarded
        self._close_handover(partition)
        if before is None:
            self.first_grants += 1
        else:
            if before.to_ms is not None and before.to_ms < source.at_ms and not partition.open:
                self._add_interval(partition, source.gateway_id, before.to_ms, source.at_ms)
            if before.member_id != member_id:
                reason: NotCompared | None = None
                if not before.is_certain:
                    reason = "lines missing"
                    if before.ended_by is None and before.end is not None and not is_doubted:
                        # It is gone, and no line states when it ended.
                        self._findings.add(partition, before.shared_with(member_id, source))
                elif not self._hostings.is_certain(before.end or before.source, source):
                    reason = "clocks"
                partition.handover = Handover(before, grant, reason, was_forwarded)
        partition.begin_grant(grant)
        if self.others is not None:
            self.others.grants.setdefault(partition, []).append(grant)

    def _on_grant_ended(self, source: Source, event: Any) -> None:
        self._check_load(source)
        for partition in self.partitions(event.partitions, event.topic_ids, source):
            grant = _grant_of(partition, event.member_id, source.gateway_id)
            if grant is None:
                # Its beginning was not seen: nothing says since when.
                grant = GrantPeriod(event.member_id, source, None, is_certain=False)
                if partition.latest is not None:
                    continue
                partition.begin_grant(grant)
                self.first_grants += 1
            self._end(partition, grant, source, event.cause)
            if event.cause == "topic_deleted":
                partition.delete_offset(source)

    def _end(
        self, partition: PartitionHistory, grant: GrantPeriod, source: Source, cause: str | None
    ) -> None:
        partition.end_grant(grant, source, cause)
        self._add_interval(partition, grant.gateway_id, grant.from_ms, grant.to_ms, grant)

    def _on_group_loaded(self, source: Source, event: Any) -> None:
        """Everything that a gateway holds is stated."""
        self._needs_load.discard(source.gateway_id)
        is_stated = all(member.partitions is not None for member in event.members)
        self.stated_ms = source.at_ms if is_stated else None
        holders = _holders(event)
        if self.others is not None:
            self._take_over(self.others, source, holders)
            self.others.compare_members((member.member_id for member in event.members), source)
        for partition, grant in self._open_grants(source.gateway_id):
            if grant.member_id in holders.get(partition.topic, {}).get(partition.number, ()):
                grant.is_certain, grant.last_hosting = True, source.hosting
            else:
                # No line states when it ended.
                grant.is_certain = False
                self._end(partition, grant, source, None)
        from_ms = source.at_ms if self.has_lines else None
        for topic, members_by_number in self.topics_of(holders, event.topic_ids, source):
            for number, member_ids in members_by_number.items():
                for member_id in sorted(member_ids):
                    self._grant(topic[number], member_id, source, from_ms)

    def _take_over(self, others: SeveralLogs, source: Source, holders: _Holders) -> None:
        """Another log takes over the group. If it begins with what an earlier one had at its end,
        clocks that contradict that differ."""
        left: dict[str, dict[str, dict[int, set[str]]]] = {}
        for partition in self.all_partitions():
            last = [partition.latest] if partition.latest is not None else []
            for grant in {id(grant): grant for grant in (*partition.open, *last)}.values():
                hosting = grant.held_in
                is_left = grant.end is None or grant.ended_by == "group_moved"
                if is_left and self._hostings.relation(hosting, source.hosting) == "before":
                    members_by_number = left.setdefault(hosting.gateway_id, {}).setdefault(
                        partition.topic, {}
                    )
                    members_by_number.setdefault(partition.number, set()).add(grant.member_id)
                    if grant.end is None and hosting.gateway_id != source.gateway_id:
                        last_ms = hosting.last_ms
                        end = replace(grant.source, at_ms=last_ms, clock_ms=last_ms)
                        self._end(partition, grant, end, None)
        for gateway_id, had in left.items():
            if had == holders:
                others.add_apart(gateway_id, source.gateway_id)

    def _on_member_joined(self, source: Source, event: Any) -> None:
        if self.others is not None and event.protocol == "classic":
            self.others.joined[event.member_id] = source

    def _on_cluster_members_seen(self, source: Source, event: Any) -> None:
        """The cluster has the group. What it shows comes from several answers and requests."""
        for topic, members_by_number in self.topics_of(_holders(event), {}, source):
            for number, member_ids in members_by_number.items():
                holders = sorted(member_ids | {grant.member_id for grant in topic[number].open})
                if len(holders) > 1:
                    one, other, *_others = holders
                    fault = Fault("owned_twice", False, one, other, source, None)
                    self._findings.add(topic[number], fault)

    def _check_load(self, source: Source) -> None:
        """A run that states no `group_loaded` before it grants leaves the end of older grants
        open."""
        if source.gateway_id in self._needs_load:
            self._needs_load.remove(source.gateway_id)
            self.doubt_grants(source.gateway_id)

    def doubt_grants(self, gateway_id: str) -> None:
        """Lines are missing, which may have ended or begun grants."""
        self.stated_ms = None
        for _partition, grant in self._open_grants(gateway_id):
            grant.is_certain = False

    def doubt_offsets(self) -> None:
        """Lines are missing, which may have deleted topics, or the group."""
        for partition in self.all_partitions():
            partition.doubt_offset()

    def forget_sequence(self, gateway_id: str) -> None:
        """The group was deleted and is back. Grants that have not ended show that the end of its
        earlier sequence is missing, and with it what became of the offsets."""
        self.doubt_grants(gateway_id)
        for partition in self.all_partitions():
            partition.forget_offset()

    def has_grants(self, gateway_id: str) -> bool:
        return bool(self._open_grants(gateway_id))

    def _open_grants(self, gateway_id: str) -> list[tuple[PartitionHistory, GrantPeriod]]:
        """The grants in a log that have not ended."""
        return [
            (partition, grant)
            for partition in self.all_partitions()
            for grant in partition.open
            if grant.gateway_id == gateway_id
        ]

    def _on_topics_deleted(self, source: Source, event: Any) -> None:
        for name in event.topics:
            topic, topic_id = self.topics.get(name), event.topic_ids.get(name)
            if topic is not None and topic.topic_id is None:
                topic.topic_id = topic_id  # no line has named its id
            if topic_id is None or (topic is not None and topic.topic_id == topic_id):
                self._retire(name, source)
            else:
                self.retired_names.add(name)
                self._retired.add(topic_id)

    def _on_group_created(self, source: Source, _event: Any) -> None:
        self.is_whole, self.stated_ms = True, source.at_ms

    def _on_group_deleted(self, source: Source, _event: Any) -> None:
        """The group is gone with its offsets; its topics are still there."""
        for partition, grant in self._open_grants(source.gateway_id):
            self._end(partition, grant, source, "group_deleted")
        for partition in self.all_partitions():
            partition.delete_offset(source)

    def _on_group_forwarded(self, source: Source, _event: Any) -> None:
        self.is_forwarded, self.is_whole, self.stated_ms = True, False, None
        self._end_unstated(source)
        for partition in self.all_partitions():
            partition.was_forwarded, partition.is_whole = True, False

    def _on_hosting_started(self, _source: Source, _event: Any) -> None:
        self.is_forwarded = False

    def _on_hosting_ended(self, source: Source, event: Any) -> None:
        if event.cause != "gateway_ended":
            self._end_unstated(source)
        if event.cause in _LOST_TO_OTHERS:
            self._doubt_lost(source)

    def _on_group_taken(self, source: Source, _event: Any) -> None:
        self._doubt_lost(source)

    _on_generation_went_back = _on_group_taken

    def _doubt_lost(self, source: Source) -> None:
        """Others have had the group in the cluster before the members here knew. Unless another log
        shows who, they may have had the same partitions."""
        if self._hostings.has_successor(source.hosting):
            return
        for partition in self.all_partitions():
            latest = partition.latest
            if latest is None or latest.is_shared or latest.held_in is not source.hosting:
                continue
            if latest.end is None or latest.ended_by == "group_moved":
                latest.is_shared = True
                self._findings.add(partition, latest.shared_with(NO_MEMBER, source))

    def _end_unstated(self, source: Source) -> None:
        """The gateway no longer has the group. A grant that has not ended by then has no stated
        end, unless it ended with its process."""
        for partition, grant in self._open_grants(source.gateway_id):
            if grant.held_in.run == source.hosting.run:
                grant.is_certain = False
                self._end(partition, grant, source, None)

    def close_partition(self, partition: PartitionHistory) -> None:
        """Make the rows of a partition that no line changes any more."""
        self._close_handover(partition)
        for fault in partition.skip_faults():
            self._findings.add(partition, fault)
        for grant in partition.open:
            self._add_interval(partition, grant.gateway_id, grant.from_ms, grant.to_ms, grant)
        partition.open, partition.owner_id = [], None

    def _close_handover(self, partition: PartitionHistory) -> None:
        handover = partition.handover
        if handover is None:
            return
        partition.handover = None
        reason = handover.not_compared
        if reason is None and not handover.is_compared:
            if handover.was_forwarded:
                reason = "forwarded"
            elif partition.stored is None:
                reason = "no commit"
            else:
                reason = "no fetch"
        self.handovers += 1
        if reason is None:
            self.compared += 1
        else:
            self.not_compared[reason] += 1
        self._tables.handovers.append(
            HandoverRow(
                **self._at(partition),
                **handover.grant.source.columns,
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

    def _at(self, partition: PartitionHistory) -> dict[str, Any]:
        """The columns that name a partition."""
        return {**self._of, "topic": partition.topic, "partition": partition.number}

    def _add_interval(
        self,
        partition: PartitionHistory,
        gateway_id: str,
        from_ms: int | None,
        to_ms: int | None,
        grant: GrantPeriod | None = None,
    ) -> None:
        """Add the row of a grant, or of a gap between two."""
        self._tables.ownership.append(
            OwnershipRow(
                **self._at(partition),
                topic_id=partition.topic_id,
                member_id=grant.member_id if grant is not None else None,
                from_ms=from_ms,
                to_ms=to_ms,
                ended_by=grant.ended_by if grant is not None else None,
                is_certain=grant is None or grant.is_certain,
                gateway_id=gateway_id,
            )
        )


_LOST_TO_OTHERS = ("taken", "anchor_lost")


def _holders(event: Any) -> _Holders:
    """The members that have each partition in a snapshot."""
    holders: dict[str, dict[int, set[str]]] = {}
    for member in event.members:
        for partitions in (member.partitions or {}, member.pending_revocation):
            for topic, numbers in partitions.items():
                for number in numbers:
                    members_by_number = holders.setdefault(topic, {})
                    members_by_number.setdefault(number, set()).add(member.member_id)
    return holders


def _grant_of(partition: PartitionHistory, member_id: str, gateway_id: str) -> GrantPeriod | None:
    for grant in partition.open:
        if grant.member_id == member_id and grant.gateway_id == gateway_id:
            return grant
    return None
