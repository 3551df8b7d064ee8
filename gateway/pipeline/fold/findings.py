"""Collects what is wrong with a group, and makes its rows once no later line explains it."""

from collections import Counter
from collections.abc import Iterator

from gateway.pipeline.fold.order import Hostings
from gateway.pipeline.fold.partition import Fault, PartitionHistory, Source
from gateway.pipeline.fold.rows import FindingRow

DELETED_MS_MAX = 30_000
"""How long after a topic was deleted a gateway may notice it."""


class Findings:
    """The findings about one group."""

    def __init__(self, cluster_id: str, group_id: str, hostings: Hostings) -> None:
        self._of = {"cluster_id": cluster_id, "group_id": group_id}
        self._hostings = hostings
        self._waiting: list[tuple[PartitionHistory, Fault]] = []
        """Findings that a deletion of the topic may still explain."""
        self.faults: Counter[str] = Counter()
        """The certain ones by kind."""
        self.doubts: Counter[str] = Counter()
        self.has_version_1 = False
        """Whether some lines do not state what ended a grant."""

    def add(self, partition: PartitionHistory, fault: Fault) -> None:
        """Add a finding. It is not certain if the order of its two lines is not."""
        source, other = fault.source, fault.other
        if fault.is_certain and fault.kind != "owned_twice" and other is not None:
            places = other.hosting, other.at_ms, source.hosting, source.at_ms
            fault = fault._replace(is_certain=self._hostings.is_certain(*places))
        self._waiting.append((partition, fault))

    def add_shared(
        self,
        partition: PartitionHistory,
        member_id: str,
        other_member_id: str,
        source: Source,
        other: Source | None,
        *,
        is_certain: bool = False,
    ) -> None:
        """Two members have a partition at a time."""
        is_certain = is_certain and not self.has_version_1
        ids = member_id, other_member_id
        self.add(partition, Fault("owned_twice", is_certain, *ids, None, None, source, other))

    def explain_by_deletion(self, topic: str, at_ms: int) -> None:
        """A topic is gone, perhaps for a while: what was found since is not certain."""
        for place, (partition, fault) in enumerate(self._waiting):
            if partition.topic == topic and _may_be_explained(fault, at_ms):
                self._waiting[place] = partition, fault._replace(is_certain=False)

    def take_rows(self, now_ms: int | None) -> Iterator[FindingRow]:
        """The rows of findings that nothing explains any more; all if there is no time."""
        waiting: list[tuple[PartitionHistory, Fault]] = []
        for partition, fault in self._waiting:
            if now_ms is not None and _may_be_explained(fault, now_ms):
                waiting.append((partition, fault))
                continue
            (self.faults if fault.is_certain else self.doubts)[fault.kind] += 1
            yield self._row(partition, fault)
        self._waiting = waiting

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
            gateway_id=source.hosting.gateway_id,
            process_id=source.process_id,
            sequence=source.sequence,
            other_ms=other.at_ms if other else None,
            other_gateway_id=other.hosting.gateway_id if other else None,
            other_process_id=other.process_id if other else None,
            other_sequence=other.sequence if other else None,
        )


def _may_be_explained(fault: Fault, now_ms: int) -> bool:
    """Whether a deletion of the topic that is noticed now explains a fault."""
    is_about_offsets = fault.kind in ("commit_lost", "commit_went_back")
    return is_about_offsets and fault.is_certain and now_ms <= fault.source.at_ms + DELETED_MS_MAX
