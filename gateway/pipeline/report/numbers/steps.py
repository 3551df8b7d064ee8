"""The steps of migrations: in each, members of the old protocol leave, and one of the new protocol
arrives. A step lasts until the next member of the old protocol leaves, so that it holds all gaps of
one replacement.

Unowned time is the length of each ended gap, less the time that its group had no members. A gap
that has not ended may be a topic that no member wants any more, so it is counted but not timed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from pydantic import BaseModel

from gateway.pipeline.report.numbers.member_counts import MemberCounts
from gateway.pipeline.tables.changes import ChangeRow
from gateway.pipeline.tables.migrations import MigrationRow, arrivals, departures, target_of
from gateway.pipeline.tables.ownership import OwnershipRow


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
    shares: Sequence[MemberCounts],
) -> list[Step]:
    """The steps of a group's migrations, in their order."""
    in_order = sorted(migrations, key=attrgetter("from_ms"))
    found = list(_steps(changes, in_order))
    if not found:
        return []
    begun_ms = [spell.from_ms for spell in shares]
    for step in found:
        place = bisect_right(begun_ms, step.from_ms)
        if place:
            spell = shares[place - 1]
            step.classic_members = spell.classic_members
            step.consumer_members = spell.consumer_members
    for row in ownership:
        if is_gap(row):
            _add_gap(row, found)
    return found


def _steps(changes: Sequence[ChangeRow], migrations: Sequence[MigrationRow]) -> Iterator[Step]:
    arrived = arrivals(changes) if migrations else []
    left = departures(changes) if migrations else []
    starts_ms = [migration.cost_from_ms for migration in migrations[1:]]
    for number, migration in enumerate(migrations, 1):
        next_ms = starts_ms[number - 1] if number <= len(starts_ms) else None
        times = sorted(
            {
                arrival.at_ms
                for arrival in arrived
                if arrival.protocol == target_of(migration.direction)
                and migration.cost_from_ms <= arrival.at_ms
                and (next_ms is None or arrival.at_ms < next_ms)
                and (migration.cost_to_ms is None or arrival.at_ms <= migration.cost_to_ms)
            }
        )
        left_ms = [each.at_ms for each in left if each.protocol != target_of(migration.direction)]
        begins = [migration.cost_from_ms]
        for before_ms, at_ms in pairwise(times):
            first = bisect_right(left_ms, before_ms)
            begins.append(min([at_ms, *left_ms[first : first + 1]]))
        for place, at_ms in enumerate(times):
            yield Step(
                migration=number,
                number=place + 1,
                from_ms=at_ms,
                to_ms=begins[place + 1] if place + 1 < len(times) else migration.cost_to_ms,
                cost_from_ms=begins[place],
            )


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
