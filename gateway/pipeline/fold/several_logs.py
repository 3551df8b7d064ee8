"""Compares what the logs of several gateways say of one group.

Within a log one grant follows another. Grants of different logs are compared once all are known: by
the order that the gateways state, else by their clocks, which may differ by a minute.
"""

from gateway.events.offset_events import CommittedOffsets
from gateway.pipeline.fold.findings import Findings
from gateway.pipeline.fold.order import CLOCKS_DIFFER_MS_MAX, Hostings
from gateway.pipeline.fold.partition import GrantPeriod, PartitionHistory, Source


class SeveralLogs:
    """The grants of a group in several logs, and which of their clocks differ."""

    def __init__(self, hostings: Hostings, findings: Findings) -> None:
        self._hostings = hostings
        self._findings = findings
        self._grants: dict[PartitionHistory, list[GrantPeriod]] = {}
        self._apart: set[tuple[str, str]] = set()
        """Gateways the first of which came first, whatever the clocks say: an offset came back from
        the cluster before it was stored, or the second one began with what the first one had."""

    def add_grant(self, partition: PartitionHistory, grant: GrantPeriod) -> None:
        """Add a grant, which may not have ended."""
        self._grants.setdefault(partition, []).append(grant)

    def add_apart(self, gateway_id: str, later_id: str) -> None:
        """The clocks of two gateways are known to differ."""
        self._apart.add((gateway_id, later_id))

    def compare_commit(
        self, partition: PartitionHistory, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> None:
        """Compare a commit with an offset that another gateway has told before it was stored."""
        for grant in partition.open:
            if grant.source.hosting.gateway_id == source.hosting.gateway_id:
                grant.committed_ms = source.clock_ms
        early = partition.early
        if early is None or early.offset is None or early.source.clock_ms >= from_ms:
            return
        if entry.first <= early.offset <= entry.last:
            self.add_apart(source.hosting.gateway_id, early.source.hosting.gateway_id)

    def compare_fetch(
        self, partition: PartitionHistory, fetched: int | None, source: Source
    ) -> None:
        """Compare a fetch with the time at which another gateway says that the offset was
        stored."""
        stored = partition.stored
        if stored is not None and stored.offset == fetched and stored.since_ms > source.clock_ms:
            self.add_apart(stored.source.hosting.gateway_id, source.hosting.gateway_id)

    def compare_grants(self) -> None:
        """Find the partitions that two logs give out at a time."""
        for partition, grants in self._grants.items():
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
        gateways = first.source.hosting.gateway_id, second.source.hosting.gateway_id
        overlap_ms = min(_end_ms(grant), _end_ms(other)) - max(_start_ms(grant), _start_ms(other))
        is_stated = grant.is_certain and other.is_certain
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
        self._findings.add_shared(partition, *ids, second.source, end, is_certain=is_certain)


def _start_ms(grant: GrantPeriod) -> int:
    return -1 if grant.from_ms is None else grant.source.clock_ms


def _end_ms(grant: GrantPeriod) -> int:
    """When it ended; one without a stated end lasts to the last line of its hosting."""
    return grant.held_in.last_ms if grant.end is None else grant.end.clock_ms
