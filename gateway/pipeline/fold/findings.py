"""Collects what is wrong with a group.

Within a log one grant follows another. Grants of different logs are compared once all are known: by
the order that the gateways state, else by their clocks, which may differ by a minute.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.events.offset_events import CommittedOffsets
from gateway.pipeline.fold.order import CLOCKS_DIFFER_MS_MAX, Hostings, Source
from gateway.pipeline.fold.partition import Fault, GrantPeriod, PartitionHistory
from gateway.pipeline.fold.rows import FindingRow

DELETED_MS_MAX = 30_000
"""How long after a topic was deleted a gateway may notice it."""


class Findings:
    """The findings about one group."""

    def __init__(self, cluster_id: str, group_id: str, hostings: Hostings) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._hostings = hostings
        self._found: list[tuple[PartitionHistory, Fault]] = []
        self.faults: Counter[str] = Counter()
        """The certain ones by kind."""
        self.doubts: Counter[str] = Counter()
        self.has_version_1 = False
        """Whether some lines do not state what ended a grant."""

    def add(self, partition: PartitionHistory, fault: Fault) -> None:
        """Add a finding. It is not certain if the order of its two lines is not. Two grants at a
        time are ordered before, but lines of version 1 do not state what ended them."""
        is_certain, other = fault.is_certain, fault.other
        if fault.kind == "owned_twice":
            is_certain = is_certain and not self.has_version_1
        elif is_certain and other is not None:
            is_certain = self._hostings.is_certain(other, fault.source)
        self._found.append((partition, fault._replace(is_certain=is_certain)))

    def explain_by_deletion(self, topic: str, at_ms: int) -> None:
        """A topic is gone, perhaps for a while: what was found since is not certain."""
        for place, (partition, fault) in enumerate(self._found):
            is_lately = at_ms <= fault.source.at_ms + DELETED_MS_MAX
            if partition.topic == topic and is_lately and fault.kind in _ABOUT_OFFSETS:
                self._found[place] = partition, fault._replace(is_certain=False)

    def rows(self) -> Iterator[FindingRow]:
        """The rows of all, as if nothing followed."""
        for partition, fault in self._found:
            (self.faults if fault.is_certain else self.doubts)[fault.kind] += 1
            yield self._row(partition, fault)

    def _row(self, partition: PartitionHistory, fault: Fault) -> FindingRow:
        source, other = fault.source, fault.other
        return FindingRow(
            **self._of,
            topic=partition.topic,
            partition=partition.number,
            kind=fault.kind,
            is_certain=fault.is_certain,
            member_id=fault.member_id,
            other_member_id=fault.other_member_id,
            observed=fault.offset,
            expected=fault.expected,
            at_ms=source.at_ms,
            **source.columns,
            other_ms=other.at_ms if other else None,
            other_gateway_id=other.gateway_id if other else None,
            other_process_id=other.process_id if other else None,
            other_sequence=other.sequence if other else None,
        )


_ABOUT_OFFSETS = ("commit_lost", "commit_went_back")


class SeveralLogs:
    """The grants of a group in several logs, and which of their clocks differ."""

    def __init__(self, hostings: Hostings, findings: Findings) -> None:
        self._hostings = hostings
        self._findings = findings
        self.grants: dict[PartitionHistory, list[GrantPeriod]] = {}
        """All of them, which may not have ended."""
        self._apart: set[tuple[str, str]] = set()
        """Pairs of gateways whose first one came first, whatever the clocks say: an offset came
        back from the cluster before it was stored, or the second one began with what the first one
        had, or with a member that had not joined yet."""
        self.joined: dict[str, Source] = {}
        """The lines with which classic members joined. Their ids are new: the gateway made them."""

    def add_apart(self, gateway_id: str, later_id: str) -> None:
        """The clocks of two gateways are known to differ."""
        self._apart.add((gateway_id, later_id))

    def compare_members(self, member_ids: Iterable[str], source: Source) -> None:
        """Compare what a gateway begins with with the times at which members joined others."""
        for joined in map(self.joined.get, member_ids):
            if joined is not None and joined.clock_ms > source.clock_ms:
                self.add_apart(joined.gateway_id, source.gateway_id)

    def compare_commit(
        self, partition: PartitionHistory, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> None:
        """Compare a commit with an offset that another gateway has told before it was stored."""
        for grant in partition.open:
            if grant.gateway_id == source.gateway_id:
                grant.committed_ms = source.clock_ms
        early = partition.early
        if early is None or early.offset is None or early.source.clock_ms >= from_ms:
            return
        if entry.first <= early.offset <= entry.last:
            self.add_apart(source.gateway_id, early.source.gateway_id)

    def compare_fetch(
        self, partition: PartitionHistory, fetched: int | None, source: Source
    ) -> None:
        """Compare a fetch with the time at which another gateway says that the offset was
        stored."""
        stored = partition.stored
        if stored is not None and stored.offset == fetched and stored.since_ms > source.clock_ms:
            self.add_apart(stored.source.gateway_id, source.gateway_id)

    def compare_grants(self) -> None:
        """Find the partitions that two logs give out at a time."""
        for partition, grants in self.grants.items():
            for place, grant in enumerate(grants):
                for other in grants[place + 1 :]:
                    self._compare(partition, grant, other)

    def _compare(self, partition: PartitionHistory, grant: GrantPeriod, other: GrantPeriod) -> None:
        one, two = grant.source.hosting, other.source.hosting
        if one.gateway_id == two.gateway_id or grant.member_id == other.member_id:
            return
        how = self._hostings.relation(one, two)
        if self._hostings.relation(grant.held_in, two) == "before":
            how = "before"
        elif self._hostings.relation(other.held_in, one) == "before":
            how = "after"
        first, second = (other, grant) if how in ("after", "starts after") else (grant, other)
        gateways = first.source.gateway_id, second.source.gateway_id
        overlap_ms = min(_end_ms(grant), _end_ms(other)) - max(_start_ms(grant), _start_ms(other))
        is_stated = grant.is_certain and other.is_certain
        if how in ("before", "after"):
            # Only the gateways state the order, against their clocks.
            is_certain = is_stated and overlap_ms > CLOCKS_DIFFER_MS_MAX
            if overlap_ms <= 0 or (gateways in self._apart and not is_certain):
                return
        elif overlap_ms < -CLOCKS_DIFFER_MS_MAX:
            return
        elif how == "unknown":
            is_certain = is_stated and overlap_ms > CLOCKS_DIFFER_MS_MAX
        else:
            # A log that stops, as of a gateway that was killed, says nothing of what followed.
            is_stopped = first.end is None or first.held_in.end is None
            is_known = not is_stopped or first.committed_ms > _start_ms(second)
            least_ms = 0 if is_known else CLOCKS_DIFFER_MS_MAX
            is_certain = is_stated and overlap_ms > least_ms and gateways not in self._apart
        ids, lines = (second.member_id, first.member_id), (second.source, first.end or first.source)
        self._findings.add(partition, Fault("owned_twice", is_certain, *ids, *lines))


def _start_ms(grant: GrantPeriod) -> int:
    return -1 if grant.from_ms is None else grant.source.clock_ms


def _end_ms(grant: GrantPeriod) -> int:
    """When it ended; one without a stated end lasts to the last line of its hosting."""
    return grant.held_in.last_ms if grant.end is None else grant.end.clock_ms
