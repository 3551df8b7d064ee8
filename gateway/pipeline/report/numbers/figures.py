"""The findings, the costs and the protocol of one group."""

from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel

from gateway.pipeline.report.numbers.member_counts import MemberCounts
from gateway.pipeline.report.numbers.steps import Step, is_gap, unowned_ms
from gateway.pipeline.tables.catalog import Tables

FINDINGS = (
    *("overlaps", "unsure", "non_monotonic", "lost_commits"),
    *("differences", "missing_events", "contradictions"),
)


class Figures(BaseModel):
    """Numbers that are added up over groups, with the first and the last moment of the rows."""

    from_ms: int | None = None
    to_ms: int | None = None
    sums: Counter[str] = Counter()
    """By the names in `Totals`. Times are in milliseconds."""
    unowned_in_migrations_ms: float = 0.0

    @property
    def findings(self) -> int:
        """All findings."""
        return sum(self.sums[name] for name in FINDINGS)

    def merge(self, other: "Figures") -> None:
        """Add those of other groups."""
        self.sums.update(other.sums)
        self.unowned_in_migrations_ms += other.unowned_in_migrations_ms
        times = [
            at_ms
            for at_ms in (self.from_ms, self.to_ms, other.from_ms, other.to_ms)
            if at_ms is not None
        ]
        self.from_ms, self.to_ms = min(times, default=None), max(times, default=None)


def figures(tables: Tables, shares: Sequence[MemberCounts], steps: Sequence[Step]) -> Figures:
    """The figures of one group, or of what belongs to no group."""
    gaps = [row for row in tables.ownership if is_gap(row)]
    owners = [row for row in tables.ownership if row.kind == "owner" and row.basis == "granted"]
    findings = Counter(row.finding for row in tables.offsets)
    starts = Counter(row.finding for row in tables.wrong_starts)
    sums: Counter[str] = Counter(
        overlaps=sum(row.kind == "overlap" for row in tables.ownership),
        unsure=sum(row.kind == "unsure" for row in tables.ownership),
        non_monotonic=findings["non_monotonic"],
        seeks=findings["seek"],
        resets=findings["reset"],
        lost_commits=starts["lost"],
        skips=starts["skipped"],
        differences=len(tables.differences),
        missing_events=sum(row.missing_to - row.missing_from + 1 for row in tables.sequences),
        contradictions=len(tables.contradictions),
        partitions=len({(row.topic, row.partition) for row in owners}),
        unowned_ms=sum(map(unowned_ms, gaps)),
        unowned_at_end=sum(row.to_ms is None for row in gaps) if has_members(shares) else 0,
        rebalances=len(tables.rebalances),
        members_disturbed=sum(row.members_disturbed for row in tables.rebalances),
        partitions_moved=sum(row.partitions_moved for row in tables.rebalances),
        partitions_moved_least=sum(row.partitions_moved_least for row in tables.rebalances),
        migrations=len(tables.migrations),
        migrations_back=sum(row.direction == "consumer->classic" for row in tables.migrations),
        migrations_complete=sum(row.is_complete for row in tables.migrations),
    )
    last = next((spell for spell in reversed(shares) if spell.members), None)
    if last is not None:
        sums[_protocol(last)] = 1
    spans = [
        *((row.from_ms, row.to_ms) for row in tables.timeline),
        *((row.from_ms, row.to_ms) for row in tables.offsets),
    ]
    times = [at_ms for span in spans for at_ms in span if at_ms is not None]
    return Figures(
        from_ms=min(times, default=None),
        to_ms=max(times, default=None),
        sums=sums,
        unowned_in_migrations_ms=sum(step.unowned_ms for step in steps),
    )


def has_members(shares: Sequence[MemberCounts]) -> bool:
    """Whether the group has members at the end."""
    return bool(shares) and shares[-1].members > 0


def _protocol(last: MemberCounts) -> str:
    if not last.classic_members:
        return "groups_on_consumer"
    return "groups_mixed" if last.consumer_members else "groups_on_classic"
