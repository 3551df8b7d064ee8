"""What happened to one group in numbers: its members over time, its migrations' steps, its figures.

In a step, members of the old protocol leave, and one of the new protocol arrives. It lasts until
the next member of the old protocol leaves, so that it holds all gaps of one replacement.

Unowned time is the length of each ended gap, less the time that its group had no members. A gap
that has not ended may be a topic that no member wants any more, so it is counted but not timed.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import attrgetter

from pydantic import BaseModel

from gateway.pipeline.fold.changes import ChangeRow
from gateway.pipeline.fold.migrations import (
    Arrival,
    MigrationRow,
    arrivals_and_departures,
    divided,
    target_of,
)
from gateway.pipeline.fold.ownership import OwnershipRow
from gateway.pipeline.fold.rebalances import RebalanceRow
from gateway.pipeline.fold.tables import Tables
from gateway.pipeline.fold.timeline import TimelineRow


@dataclass(slots=True)
class MemberCounts:
    """A time with constant numbers of members."""

    from_ms: int
    to_ms: int | None
    """Null if it has not ended."""
    classic_members: int
    consumer_members: int

    @property
    def members(self) -> int:
        """Members of both protocols."""
        return self.classic_members + self.consumer_members


def member_counts(timeline: Iterable[TimelineRow]) -> list[MemberCounts]:
    """Those of a group, one after another."""
    more: dict[int, list[int]] = {}
    for row in timeline:
        for at_ms, one in ((row.from_ms, 1), (row.to_ms, -1)):
            if at_ms is not None:
                # The group's own rows count zero, so that groups without members are included.
                changed = more.setdefault(at_ms, [0, 0])
                if row.member_id is not None and row.protocol is not None:
                    changed[row.protocol == "consumer"] += one
    found: list[MemberCounts] = []
    classic = consumer = 0
    for at_ms, (more_classic, more_consumer) in sorted(more.items()):
        classic, consumer = classic + more_classic, consumer + more_consumer
        if found and (found[-1].classic_members, found[-1].consumer_members) == (classic, consumer):
            continue
        if found:
            found[-1].to_ms = at_ms
        found.append(MemberCounts(at_ms, None, classic, consumer))
    return found


NAMES_MAX = 4
REBALANCES_MAX = 8


class Step(BaseModel):
    """One step."""

    migration: int
    """The number of the migration in its group, from 1."""
    number: int
    """The number of the step, from 1."""
    from_ms: int
    to_ms: int | None
    """Null if it has not ended."""
    cost_from_ms: int
    """When the member left that the arriving one replaces."""
    classic_members: int = 0
    """Members after the step."""
    consumer_members: int = 0
    unowned_ms: float = 0.0
    """Unowned time during the step."""
    names: tuple[str, ...] = ()
    """The members that arrived, up to NAMES_MAX, and those that left; see `Arrival.name`."""
    left: tuple[str, ...] = ()
    rebalances_ms: tuple[int, ...] = ()
    """When the rebalances of the step began, up to REBALANCES_MAX."""
    rebalances: int = 0
    """All of them."""


def is_gap(row: OwnershipRow) -> bool:
    """Whether the partition had no owner."""
    return row.kind == "gap" and row.basis == "granted"


def unowned_ms(gap: OwnershipRow) -> int:
    """The time that counts of a gap."""
    if gap.from_ms is None or gap.to_ms is None:
        return 0
    return gap.to_ms - gap.from_ms - (gap.empty_ms or 0)


def steps(
    changes: Sequence[ChangeRow],
    migrations: Iterable[MigrationRow],
    ownership: Iterable[OwnershipRow],
    rebalances: Iterable[RebalanceRow],
    counts: Sequence[MemberCounts],
) -> list[Step]:
    """The steps of a group's migrations, in their order."""
    in_order = sorted(migrations, key=attrgetter("from_ms"))
    found = list(_steps(changes, in_order))
    if not found:
        return []
    begun_ms = [count.from_ms for count in counts]
    for step in found:
        place = bisect_right(begun_ms, step.from_ms)
        if place:
            count = counts[place - 1]
            step.classic_members = count.classic_members
            step.consumer_members = count.consumer_members
    for row in ownership:
        if is_gap(row):
            _add_gap(row, found)
    for rebalance in rebalances:
        _add_rebalance(rebalance.from_ms, found)
    return found


def _steps(changes: Sequence[ChangeRow], migrations: Sequence[MigrationRow]) -> Iterator[Step]:
    arrived, left = arrivals_and_departures(changes) if migrations else ([], [])
    its_arrivals = divided(migrations, arrived, "at_ms")
    for number, (migration, its) in enumerate(zip(migrations, its_arrivals, strict=True), 1):
        target = target_of(migration.direction)
        times = sorted({arrival.at_ms for arrival in its if arrival.protocol == target})
        others = {each.protocol for each in left} - {target}
        left_ms = [each.at_ms for each in left if each.protocol != target]
        begins = [migration.cost_from_ms]
        for before_ms, at_ms in pairwise(times):
            first = bisect_right(left_ms, before_ms)
            begins.append(min([at_ms, *left_ms[first : first + 1]]))
        ends = [*begins[1:], migration.cost_to_ms]
        for place, (at_ms, begin_ms, end_ms) in enumerate(
            zip(times, begins, ends, strict=False), 1
        ):
            yield Step(
                migration=number,
                number=place,
                from_ms=at_ms,
                to_ms=end_ms,
                cost_from_ms=begin_ms,
                names=_names_of(arrived, at_ms, at_ms, target),
                left=_names_of(left, begin_ms, at_ms, *others),
            )


def _names_of(
    some: Sequence[Arrival], from_ms: int, to_ms: int, *protocols: str | None
) -> tuple[str, ...]:
    """The first names of those that arrived or left at these times, each once."""
    first = bisect_left(some, from_ms, key=attrgetter("at_ms"))
    last = bisect_right(some, to_ms, key=attrgetter("at_ms"))
    names = (each.name for each in some[first:last] if each.protocol in protocols and each.name)
    return tuple(islice(dict.fromkeys(names), NAMES_MAX))


def _add_rebalance(at_ms: int, found: Sequence[Step]) -> None:
    """Count a rebalance for the step in which it began."""
    place = bisect_right(found, at_ms, key=attrgetter("cost_from_ms")) - 1
    if place < 0:
        return
    step = found[place]
    if step.to_ms is None or at_ms <= step.to_ms:
        step.rebalances += 1
        if len(step.rebalances_ms) < REBALANCES_MAX:
            step.rebalances_ms += (at_ms,)


def _add_gap(gap: OwnershipRow, found: Sequence[Step]) -> None:
    """Divide a gap among the steps that it overlaps."""
    counted_ms = unowned_ms(gap)
    if counted_ms <= 0 or gap.from_ms is None or gap.to_ms is None:
        return
    # Time without members in a gap is spread evenly over the gap.
    density = counted_ms / (gap.to_ms - gap.from_ms)
    first = bisect_right(found, gap.from_ms, key=attrgetter("cost_from_ms")) - 1
    for step in found[max(first, 0) :]:
        if step.cost_from_ms >= gap.to_ms:
            break
        end_ms = gap.to_ms if step.to_ms is None else min(gap.to_ms, step.to_ms)
        step.unowned_ms += max(0, end_ms - max(gap.from_ms, step.cost_from_ms)) * density


FINDINGS = (
    *("overlaps", "unsure", "non_monotonic", "lost_commits", "unsure_commits", "unsure_starts"),
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


def figures(tables: Tables, counts: Sequence[MemberCounts], steps: Sequence[Step]) -> Figures:
    """The figures of one group, or of what belongs to no group."""
    gaps = [row for row in tables.ownership if is_gap(row)]
    owners = [row for row in tables.ownership if row.kind == "owner" and row.basis == "granted"]
    findings = Counter(map(attrgetter("finding"), tables.offsets))
    starts = Counter(row.finding for row in tables.wrong_starts)
    sums: Counter[str] = Counter(
        overlaps=sum(row.kind == "overlap" for row in tables.ownership),
        unsure=sum(row.kind == "unsure" for row in tables.ownership),
        non_monotonic=findings["non_monotonic"],
        seeks=findings["seek"],
        resets=findings["reset"],
        lost_commits=starts["lost"],
        unsure_commits=findings["unsure"],
        unsure_starts=starts["unsure"],
        skips=starts["skipped"],
        differences=len(tables.differences),
        missing_events=sum(row.missing_to - row.missing_from + 1 for row in tables.sequences),
        contradictions=len(tables.contradictions),
        partitions=len({(row.topic, row.partition) for row in owners}),
        unowned_ms=sum(map(unowned_ms, gaps)),
        unowned_at_end=sum(row.to_ms is None for row in gaps) if has_members(counts) else 0,
        rebalances=len(tables.rebalances),
        members_disturbed=sum(row.members_disturbed for row in tables.rebalances),
        partitions_moved=sum(row.partitions_moved for row in tables.rebalances),
        partitions_moved_least=sum(row.partitions_moved_least for row in tables.rebalances),
        migrations=len(tables.migrations),
        migrations_back=sum(row.direction == "consumer->classic" for row in tables.migrations),
        migrations_complete=sum(row.is_complete for row in tables.migrations),
    )
    last = next((count for count in reversed(counts) if count.members), None)
    if last is not None:
        sums[_protocol(last)] = 1
    spans = ((row.from_ms, row.to_ms) for row in tables.timeline)
    times = [at_ms for span in spans for at_ms in span if at_ms is not None]
    times += map(attrgetter("from_ms"), tables.offsets)
    times += map(attrgetter("to_ms"), tables.offsets)
    return Figures(
        from_ms=min(times, default=None),
        to_ms=max(times, default=None),
        sums=sums,
        unowned_in_migrations_ms=sum(step.unowned_ms for step in steps),
    )


def has_members(counts: Sequence[MemberCounts]) -> bool:
    """Whether the group has members at the end."""
    return bool(counts) and counts[-1].members > 0


def _protocol(last: MemberCounts) -> str:
    if not last.classic_members:
        return "groups_on_consumer"
    return "groups_mixed" if last.consumer_members else "groups_on_classic"
