"""Migrations between the protocols, their costs, and the steps after which a group fell behind."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from gateway.events.group_events import GroupConverted, StepMadeWorse
from gateway.pipeline.fold.changes import ChangeRow, ends_of_moments
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.ownership import OwnershipRow
from gateway.pipeline.fold.rebalances import RebalanceRow
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.sightings import CLASSIC, NATIVE, Protocol

STALL_MS = 30_000
"""A rebalance that takes longer is a stall."""

REPLACED_MS_MAX = 60_000
"""A member that arrives later than this after a departure does not count as its replacement."""

Direction: TypeAlias = Literal["classic->consumer", "consumer->classic"]

T = TypeVar("T")

_MIXED = "mixed"
_AT_REST = ("Stable", "Empty")


@dataclass(slots=True, kw_only=True)
class MigrationRow(Row):
    """Each migration of a group from one protocol to the other, and its cost.

    A group has one protocol, is mixed, or is empty. A migration leads from one protocol to the
    other, or back to the first one if it was given up. In between the group may be mixed, or empty.

    The cost begins before the first member of the new protocol arrives, when the member that it
    replaces leaves. It ends after the last member of the old protocol has left, when its partitions
    have new owners and its successor has arrived. The cost is therefore counted from rest to rest.
    """

    direction: Direction
    from_ms: int
    """When the first member of the other protocol arrived, or the last one of the old protocol
    left."""
    to_ms: int | None
    """When all members used one protocol again; null if they do not yet."""
    is_complete: bool
    """Whether that was the other protocol."""
    cost_from_ms: int
    """The start of the cost: when the group was last at rest with as many members as at the arrival
    of the first one, at most a minute earlier."""
    cost_to_ms: int | None
    """The end of the cost: when the group is at rest again, with as many members as before the last
    one of the old protocol left, if they arrive within a minute. Null if that has not happened
    yet."""
    conversions: int
    """How often the group changed its kind."""
    steps: int
    """Arrivals of members with the new protocol."""
    rebalances: int
    """Rebalances that began during the migration."""
    stalls: int
    """Rebalances that took longer than 30 seconds."""
    stalled_ms: int
    """The time beyond those 30 seconds, summed."""
    unowned_partition_s: float
    """Partition-seconds without an owner, from gaps that began during the migration, less the time
    that the group had no members."""
    disturbed_members: int
    """Members disturbed by the rebalances, counted in each of them."""


class Arrival(NamedTuple):
    """A member arrived with a protocol: a new member, or a known one that switched. The same for a
    departure."""

    at_ms: int
    protocol: Protocol | None
    name: str
    """As operators know it: the instance id or the client id, else the member id."""


def arrivals_and_departures(
    changes: Sequence[ChangeRow],
) -> tuple[list[Arrival], list[Arrival]]:
    """All arrivals and all departures in their order. A departure has the protocol that the member
    spoke."""
    names = _names(changes)
    arrived: list[Arrival] = []
    left: list[Arrival] = []
    for change in changes:
        name = names.get(change.member_id or "", "")
        switches = change.protocol not in (change.protocol_before, None)
        if change.is_present and (not change.was_present or switches):
            arrived.append(Arrival(change.at_ms, change.protocol, name))
        if change.was_present and (not change.is_present or switches):
            left.append(Arrival(change.at_ms, change.protocol_before, name))
    return arrived, left


def _names(changes: Iterable[ChangeRow]) -> Mapping[str, str]:
    """The name of each member."""
    found: dict[str, str] = {}
    for change in changes:
        if change.member_id is not None:
            name = change.instance_id or change.client_id
            if name or change.member_id not in found:
                found[change.member_id] = name or change.member_id
    return found


def migrations(
    history: History,
    changes: Sequence[ChangeRow],
    ownership: Iterable[OwnershipRow],
    rebalances: Sequence[RebalanceRow],
) -> list[MigrationRow]:
    """See `MigrationRow`."""
    spans = _with_costs(list(_migrations(changes)), changes)
    if not spans:
        return []
    arrived, _left = arrivals_and_departures(changes)
    conversions = [change for change in changes if change.event == GroupConverted.name]
    gaps = [row for row in ownership if row.kind == "gap" and row.empty_ms is not None]
    together = zip(
        spans,
        divided(spans, arrived, "at_ms"),
        divided(spans, conversions, "at_ms"),
        divided(spans, rebalances, "from_ms"),
        divided(spans, gaps, "from_ms"),
        strict=True,
    )
    found: list[MigrationRow] = []
    for span, its_arrivals, its_conversions, its_rebalances, its_gaps in together:
        longer_ms = [
            max(0, row.to_ms - row.from_ms - STALL_MS)
            for row in its_rebalances
            if row.to_ms is not None
        ]
        found.append(
            MigrationRow(
                cluster_id=history.cluster_id,
                group_id=history.group_id,
                direction=span.direction,
                from_ms=span.from_ms,
                to_ms=span.to_ms,
                is_complete=span.is_complete,
                cost_from_ms=span.cost_from_ms,
                cost_to_ms=span.cost_to_ms,
                conversions=len(its_conversions),
                steps=sum(each.protocol == target_of(span.direction) for each in its_arrivals),
                rebalances=len(its_rebalances),
                stalls=sum(each > 0 for each in longer_ms),
                stalled_ms=sum(longer_ms),
                unowned_partition_s=sum(_unowned_s(gap, span.cost_to_ms) for gap in its_gaps),
                disturbed_members=sum(row.members_disturbed for row in its_rebalances),
            )
        )
    return found


def divided(
    migrations: Sequence["_Span | MigrationRow"], items: Iterable[T], time: str
) -> list[list[T]]:
    """The items of each migration, by their field `time`. An item belongs to the latest migration
    whose cost had begun, unless that had ended. The migrations are in order."""
    found: list[list[T]] = [[] for _ in migrations]
    for item in items:
        at_ms = getattr(item, time)
        place = bisect_right(migrations, at_ms, key=attrgetter("cost_from_ms"))
        if place:
            ended_ms = migrations[place - 1].cost_to_ms
            if ended_ms is None or at_ms <= ended_ms:
                found[place - 1].append(item)
    return found


def target_of(direction: Direction) -> Protocol:
    """The protocol to which a migration leads."""
    return NATIVE if direction == "classic->consumer" else CLASSIC


def _unowned_s(gap: OwnershipRow, cost_to_ms: int | None) -> float:
    """The part of a gap before the end of the cost; the group's empty time is spread evenly."""
    assert gap.from_ms is not None
    assert gap.to_ms is not None
    assert gap.empty_ms is not None
    length_ms = gap.to_ms - gap.from_ms
    counted_ms = (gap.to_ms if cost_to_ms is None else min(gap.to_ms, cost_to_ms)) - gap.from_ms
    return (length_ms - gap.empty_ms) / 1000 * (counted_ms / length_ms)


@dataclass(slots=True)
class _Span:
    """A migration, from the end of one protocol to the start of the next."""

    direction: Direction
    from_ms: int
    to_ms: int | None
    is_complete: bool
    cost_from_ms: int = 0
    cost_to_ms: int | None = None


class _Spell(NamedTuple):
    """A time in which a group has the same mix of protocols."""

    mix: str
    at_ms: int
    left_ms: int | None
    """Null if it has not ended."""


def _migrations(changes: Sequence[ChangeRow]) -> Iterator[_Span]:
    spells = list(_spells(changes))
    around = zip([None, *spells], spells, [*spells[1:], None], strict=False)
    for before, spell, after in around:
        is_mixed = spell.mix == _MIXED
        # From one protocol to the other without a mixed group: it was empty, or one member was
        # replaced.
        is_leap = not is_mixed and before is not None and before.mix != _MIXED
        if not is_mixed and not is_leap:
            continue
        origin = before.mix if before else _other(after.mix) if after else CLASSIC
        direction: Direction = "classic->consumer" if origin == CLASSIC else "consumer->classic"
        if is_leap:
            assert before is not None
            from_ms = spell.at_ms if before.left_ms is None else before.left_ms
            yield _Span(direction, from_ms, spell.at_ms, is_complete=True)
        else:
            to_ms = after.at_ms if after else None
            is_complete = after is not None and after.mix != origin
            yield _Span(direction, spell.at_ms, to_ms, is_complete)


def _spells(changes: Sequence[ChangeRow]) -> Iterator[_Spell]:
    # Within one moment members are counted one by one; the count at its end is the valid one.
    moments = list(ends_of_moments(changes))
    spells = (
        _Spell(mix, change.at_ms, following.at_ms if following else None)
        for change, following in zip_longest(moments, moments[1:])
        if (mix := _mix(change)) is not None
    )
    for _, alike in groupby(spells, key=attrgetter("mix")):
        its = list(alike)
        yield its[0]._replace(left_ms=its[-1].left_ms)


def _mix(change: ChangeRow) -> str | None:
    """Null if the group is empty."""
    if change.members == 0:
        return None
    if change.classic_members == change.members:
        return CLASSIC
    return NATIVE if change.classic_members == 0 else _MIXED


def _other(protocol: str) -> str:
    return NATIVE if protocol == CLASSIC else CLASSIC


def _with_costs(spans: Sequence[_Span], changes: Sequence[ChangeRow]) -> Sequence[_Span]:
    """A cost ends at the latest where the next one begins."""
    times = [change.at_ms for change in changes]
    before: _Span | None = None
    for span, following in zip_longest(spans, spans[1:]):
        first = bisect_right(times, before.from_ms) if before else 0
        begun_ms = _cost_start(span, changes[first : bisect_right(times, span.from_ms)])
        ended_ms = before.to_ms if before else None
        span.cost_from_ms = begun_ms if ended_ms is None else max(begun_ms, ended_ms)
        last = bisect_left(times, following.from_ms) if following else len(times)
        its_changes = changes[bisect_left(times, span.from_ms) : last]
        span.cost_to_ms = _settled_ms(span, its_changes)
        before = span
    for span, after in pairwise(spans):
        ends_ms = (span.cost_to_ms, after.cost_from_ms)
        span.cost_to_ms = min(each for each in ends_ms if each is not None)
    return spans


def _cost_start(span: _Span, before: Sequence[ChangeRow]) -> int:
    """The departure of the member that the first arrival replaced, or else the end of the group's
    latest rest. `before` has the changes since the migration before, including the beginning."""
    members_then = before[-1].members
    rests = [
        (change.members, after.at_ms)
        for change, after in pairwise(before)
        if change.state == "Stable" and after.at_ms >= span.from_ms - REPLACED_MS_MAX
    ]
    full = [end_ms for members, end_ms in rests if members >= members_then]
    return full[-1] if full else rests[-1][1] if rests else span.from_ms


def _settled_ms(span: _Span, its_changes: Sequence[ChangeRow]) -> int | None:
    """When the group was at rest after the last replacement had arrived. `its_changes` are those
    from the beginning of the migration to that of the next one."""
    to_ms = span.to_ms
    if to_ms is None:
        return None
    members_before = next(
        (change.members for change in reversed(its_changes) if change.at_ms < to_ms), 0
    )
    later = [change for change in ends_of_moments(its_changes) if change.at_ms >= to_ms]
    replaced = (
        change
        for change in later
        if change.at_ms <= to_ms + REPLACED_MS_MAX and change.members >= members_before
    )
    full = next(replaced, later[0])
    return next(
        (
            change.at_ms
            for change in its_changes
            if change.place >= full.place and change.state in _AT_REST
        ),
        None,
    )


@dataclass(slots=True, kw_only=True)
class WorseStepRow(Row):
    """Consumers after whose switch their group has fallen behind, or they themselves, as the
    gateway told (`step_made_worse`). Without such an event nothing is known of the lag."""

    client_id: str
    client_host: str
    protocol: Literal["classic", "consumer"]
    """The consumer's new protocol."""
    at_ms: int
    """When the gateway told it."""
    lag_before: int
    """The records that the group was behind before the switch."""
    lag_after: int
    """The same at `at_ms`."""
    records_per_s_before: float
    """What the group consumed in the minute before the switch, by its commits."""
    records_per_s_after: float
    """The same in the minute before `at_ms`."""
    client_lag: int | None
    """The records that the consumer's own partitions are behind; null if unknown."""


def worse_steps(history: History) -> Iterator[WorseStepRow]:
    """See `WorseStepRow`."""
    for told in history.of(StepMadeWorse):
        event = told.event
        assert isinstance(event, StepMadeWorse)
        yield WorseStepRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            client_id=event.client_id,
            client_host=event.client_host,
            protocol=event.protocol,
            at_ms=told.at_ms,
            lag_before=event.lag_before,
            lag_after=event.lag_after,
            records_per_s_before=event.records_per_s_before,
            records_per_s_after=event.records_per_s_after,
            client_lag=event.client_lag,
        )
