"""What clients commit and fetch, and which members claim partitions."""

from typing import Any

from gateway.events.offset_events import NO_MEMBER, CommittedOffsets
from gateway.pipeline.fold.findings import Findings
from gateway.pipeline.fold.order import EventFold, Source
from gateway.pipeline.fold.ownership import OwnershipFold
from gateway.pipeline.fold.partition import (
    IN_FLIGHT_MS_MAX,
    Fault,
    PartitionHistory,
)


class OffsetFold(EventFold):
    """The offsets of one group. Takes its lines in their order."""

    def __init__(self, ownership: OwnershipFold, findings: Findings) -> None:
        self._ownership = ownership
        self._findings = findings
        self._topics, self._partitions = ownership.topics_of, ownership.partitions
        self._others = ownership.others
        self._transactions: dict[str, set[tuple[str, int]]] = {}
        """The partitions with offsets in each open transaction."""

    def _on_offsets_committed(self, source: Source, event: Any) -> None:
        if event.is_transactional:
            self._take_transactional(source, event)
            return
        member_id, from_ms, others = event.member_id, event.from_ms, self._others
        is_hosted = source.hosting.number is not None
        for topic, entries in self._topics(event.offsets, event.topic_ids, source):
            for entry in entries:
                partition = topic[entry.partition]
                if member_id != partition.owner_id or not is_hosted:
                    self._check_committer(partition, event, entry, source)
                if others is not None:
                    others.compare_commit(partition, entry, from_ms, source)
                fault = partition.commit(member_id, entry, from_ms, source)
                if fault is not None:
                    self._findings.add(partition, fault)

    def _check_committer(
        self, partition: PartitionHistory, event: Any, entry: CommittedOffsets, source: Source
    ) -> None:
        if source.hosting.number is None:
            self._check_cluster_commit(partition, event.member_id, source)
        elif event.member_id == NO_MEMBER:
            self._check_reset(partition, entry, event.requested_ms, source)
        else:
            self._check_commit(partition, event, entry, source)

    def _take_transactional(self, source: Source, event: Any) -> None:
        transactional_id = event.transactional_id
        is_hosted = source.hosting.number is not None
        for topic, entries in self._topics(event.offsets, event.topic_ids, source):
            for entry in entries:
                partition = topic[entry.partition]
                if transactional_id is None:
                    partition.is_open_transaction = True
                    continue
                if is_hosted and event.member_id not in (NO_MEMBER, partition.owner_id):
                    self._check_commit(partition, event, entry, source)
                partition.pending[transactional_id] = entry, event.member_id, source
                in_transaction = self._transactions.setdefault(transactional_id, set())
                in_transaction.add((partition.topic, partition.number))

    def _on_transaction_ended(self, source: Source, event: Any) -> None:
        """The offsets of a committed transaction count from now on."""
        for name, number in sorted(self._transactions.pop(event.transactional_id, ())):
            topic = self._ownership.topics.get(name)
            partition = topic.get(number) if topic is not None else None
            if partition is None or event.transactional_id not in partition.pending:
                continue
            entry, member_id, stored = partition.pending.pop(event.transactional_id)
            if not event.is_committed:
                continue
            # A producer may omit the member id.
            member_id = member_id or event.member_id or partition.owner_id or event.transactional_id
            fault = partition.commit(member_id, entry, stored.at_ms, source)
            if fault is not None:
                self._findings.add(partition, fault)

    def _on_offsets_fetched(self, source: Source, event: Any) -> None:
        for topic, entries in self._topics(event.starts, event.topic_ids, source):
            for entry in entries:
                partition = topic[entry.partition]
                fetched = entry.offset if entry.offset >= 0 else None
                if self._others is not None:
                    self._others.compare_fetch(partition, fetched, source)
                if (fault := partition.fetch(event.member_id, fetched, source)) is not None:
                    self._findings.add(partition, fault)

    def _on_offsets_deleted(self, source: Source, event: Any) -> None:
        for partition in self._partitions(event.partitions, event.topic_ids, source):
            partition.delete_offset(source)

    def _on_partitions_stated(self, source: Source, event: Any) -> None:
        if source.hosting.number is None or event.member_id == NO_MEMBER:
            return
        for partition in self._partitions(event.partitions, event.topic_ids, source):
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
        self,
        partition: PartitionHistory,
        entry: CommittedOffsets,
        requested_ms: int | None,
        source: Source,
    ) -> None:
        """A client without a member id goes back although a member has the partition. The cluster
        takes a reset while the group is empty, so its request came before the grant, and it is
        stored before anything that the member commits."""
        stored = partition.stored
        if not partition.open or stored is None or stored.offset is None:
            return
        granted_ms = partition.open[0].source.at_ms
        is_before = requested_ms is not None and requested_ms <= granted_ms
        if is_before and entry.commits == 1 and stored.source.at_ms <= granted_ms:
            return
        if entry.lowest < stored.offset:
            lines = source, stored.source
            offsets = entry.lowest, stored.offset
            fault = Fault("commit_went_back", False, NO_MEMBER, stored.member_id, *lines, *offsets)
            self._findings.add(partition, fault)

    def _check_cluster_commit(
        self, partition: PartitionHistory, member_id: str, source: Source
    ) -> None:
        """A member in the cluster commits. The latest owner here must have ended before, also at
        another gateway, or in another process with the same log."""
        latest = partition.latest
        if latest is None or member_id in (NO_MEMBER, latest.member_id):
            return
        if latest.end is None and latest.gateway_id == source.gateway_id:
            is_possible = not partition.was_forwarded
        elif latest.end is None:
            is_possible = source.at_ms < latest.held_in.last_ms
        else:
            is_possible = latest.ended_by is None and not latest.is_certain
        if is_possible:
            self._findings.add(partition, latest.shared_with(member_id, source))

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
            if self._ownership.stated_ms is None or requested_ms <= self._ownership.stated_ms:
                return False
            if partition.topic in self._ownership.retired_names:
                return False
        elif latest.member_id == member_id or partition.was_forwarded:
            return False
        elif requested_ms <= max(partition.ended_ms.get(member_id, -1), latest.source.at_ms):
            return False  # on its way while the partition passed on
        ownership = self._ownership
        is_known = ownership.is_whole if latest is None else latest.is_certain
        is_known = is_known and ownership.stated_ms is not None
        is_certain = is_stated and is_known and not self._findings.has_version_1
        holder_id = latest.member_id if latest is not None else None
        granted = latest.source if latest is not None else None
        fault = Fault("claim_without_grant", is_certain, member_id, holder_id, source, granted)
        self._findings.add(partition, fault)
        return True
