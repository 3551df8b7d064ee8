"""What verdict and page need of the tables of many groups. Its size has a limit; summaries of
different groups are added up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import TypeAdapter

from gateway.pipeline.fold.rows import FindingRow, GroupRow, Tables, UnreadRow

SAMPLE_MAX = 20
"""Findings of one kind, unread lines of one kind, and groups in a list that are shown. The tables
have all."""
VERSIONS_MAX = 1_000
"""Client versions that are counted separately."""

Shown = TypeVar("Shown", bound=FindingRow | UnreadRow | tuple[str, str])
_FORWARD = "classic->consumer"
SUMS = (
    *("lines", "first_grants", "handovers", "compared", "rebalances", "partitions_moved"),
    *("least_possible", "members_disturbed", "unowned_ms", "steps"),
)
"""Columns of groups that are added up."""


@dataclass(slots=True)
class Sample(Generic[Shown]):
    """How many there are, and the first of them: findings and unread lines by time, groups with a
    remark by name."""

    count: int = 0
    rows: list[Shown] = field(default_factory=list)

    def add(self, rows: Iterable[Shown], count: int) -> None:
        """Add more."""
        self.count += count
        self.rows = nsmallest(SAMPLE_MAX, [*self.rows, *rows], key=_order)


GroupRemark: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Summary:
    """The sums of the tables."""

    top: int = 0
    """How many of the worst groups are in `worst`."""
    groups: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    """Columns of groups, how many groups are `safe`, `consumer` and `mixed`, and how many rows of
    `unread` are about no group alone (`shared`)."""
    not_compared: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Sample[FindingRow]] = field(default_factory=dict)
    """Certain ones by kind."""
    doubts: dict[str, Sample[FindingRow]] = field(default_factory=dict)
    unread: dict[str, Sample[UnreadRow]] = field(default_factory=dict)
    uncompared: Sample[GroupRemark] = field(default_factory=Sample)
    """Groups of whose hand-overs none was compared."""
    ready: Sample[GroupRemark] = field(default_factory=Sample)
    """Classic groups that can convert."""
    blocked: Sample[GroupRemark] = field(default_factory=Sample)
    """Classic groups that cannot."""
    worst: list[GroupRow] = field(default_factory=list)
    members: Counter[str] = field(default_factory=Counter)
    """The number of members by name and version of the client library, with a space between."""
    consumer_members: Counter[str] = field(default_factory=Counter)
    """The members with the new protocol, by the same."""
    from_ms: int | None = None
    to_ms: int | None = None

    def add(self, tables: Tables) -> None:
        """Add rows of further groups."""
        for group in tables.groups:
            self._add_group(group)
        for row in tables.findings:
            samples = self.findings if row.is_certain else self.doubts
            samples.setdefault(row.kind, Sample()).add((row,), 1)
        for unread in tables.unread:
            self.unread.setdefault(unread.kind, Sample()).add((unread,), 1)
            self.sums["shared"] += unread.group_id is None
        for client in tables.clients:
            name = f"{client.software_name or ''} {client.software_version or ''}"
            _add_versions(self.members, {name: client.members})
            if client.protocol == "consumer":
                _add_versions(self.consumer_members, {name: client.members})

    def _add_group(self, group: GroupRow) -> None:
        self.groups += 1
        self.sums["safe"] += group.verdict == "safe"
        if group.consumer_members:
            self.sums["mixed" if group.classic_members else "consumer"] += 1
        for name in SUMS:
            self.sums[name] += getattr(group, name)
        self.not_compared.update(group.not_compared)
        if group.handovers and not group.compared:
            reasons = ", ".join(sorted(group.not_compared))
            self.uncompared.add(((group.group_id, reasons),), 1)
        if group.kind == "classic" and group.direction == _FORWARD:
            names = self.ready if group.can_convert else self.blocked
            names.add(((group.group_id, group.blocked_by or ""),), 1)
        self._span(group.from_ms, group.to_ms)
        self.worst = nsmallest(self.top, [*self.worst, group], key=_badness)

    def merge(self, *others: "Summary") -> None:
        """Add the sums of other groups."""
        for other in others:
            self.groups += other.groups
            self.sums.update(other.sums)
            self.not_compared.update(other.not_compared)
            for name in ("findings", "doubts", "unread"):
                its = getattr(self, name)
                for kind, evidence in getattr(other, name).items():
                    its.setdefault(kind, Sample()).add(evidence.rows, evidence.count)
            for name in ("uncompared", "ready", "blocked"):
                groups = getattr(other, name)
                if groups.count:
                    getattr(self, name).add(groups.rows, groups.count)
            _add_versions(self.members, other.members)
            _add_versions(self.consumer_members, other.consumer_members)
            self._span(other.from_ms, other.to_ms)
        worst = chain(self.worst, *(other.worst for other in others))
        self.worst = nsmallest(self.top, worst, key=_badness)

    def _span(self, from_ms: int | None, to_ms: int | None) -> None:
        starts = [at_ms for at_ms in (self.from_ms, from_ms) if at_ms is not None]
        ends = [at_ms for at_ms in (self.to_ms, to_ms) if at_ms is not None]
        self.from_ms, self.to_ms = min(starts, default=None), max(ends, default=None)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is unread that may be about any group."""
        return not self.sums["shared"]

    @property
    def unread_count(self) -> int:
        """All that could not be read."""
        return sum(evidence.count for evidence in self.unread.values())


SUMMARIES: TypeAdapter[Summary] = TypeAdapter(Summary)
"""Summaries in JSON."""


def _add_versions(counts: Counter[str], further: Mapping[str, int]) -> None:
    for name, count in further.items():
        if name in counts or len(counts) < VERSIONS_MAX:
            counts[name] += count


def _order(row: FindingRow | UnreadRow | GroupRemark) -> tuple[Any, ...]:
    if isinstance(row, tuple):
        return row
    values = attrgetter(*_ORDERED_BY[type(row)])(row)
    return row.at_ms is None, *((value is not None, value) for value in values)


_PLACE = "at_ms", "cluster_id", "group_id", "gateway_id"
_ORDERED_BY: Mapping[type, tuple[str, ...]] = {
    FindingRow: (*_PLACE, "topic", "partition", "process_id", "sequence", "member_id"),
    UnreadRow: (*_PLACE, "process_id", "file", "place", "first"),
}


def _badness(group: GroupRow) -> tuple[Any, ...]:
    return (
        -sum(group.faults.values()),
        -sum(group.doubts.values()),
        -group.unread,
        -group.unowned_ms,
        group.cluster_id,
        group.group_id,
    )
