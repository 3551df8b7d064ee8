"""The owners of each partition over time: overlaps, gaps, and claims that contradict the grants.

Intervals have positions besides their times, because events of one millisecond still have an order.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from gateway.events.group_events import GroupAdopted, GroupCreated, GroupForwarded
from gateway.pipeline.fold.changes import ChangeRow
from gateway.pipeline.fold.granted import ENDLESS, Interval, TopicPartition, granted
from gateway.pipeline.fold.history import History, Moment
from gateway.pipeline.fold.offsets import IN_FLIGHT_MS_MAX
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.stated import Claims, stated

Kind: TypeAlias = Literal["owner", "gap", "overlap", "unsure"]


class Span(NamedTuple):
    """One row of the comparison."""

    kind: Kind
    member_id: str | None
    other_member_id: str | None
    from_ms: int | None
    to_ms: int | None


def side_by_side(
    intervals: Iterable[Interval], is_open: Callable[[Moment, Moment], bool]
) -> Iterator[Span]:
    """The intervals of one partition as owners, with an overlap where an interval begins before an
    earlier one of another owner has ended, and a gap from the end of all earlier intervals to the
    next one. If the last interval leaves a gap, the gap after it never ends. `is_open` tells
    whether two events may have happened in either order: then it is unsure whether two members
    owned the partition at once, as after an interval that may be over."""
    in_order: Sequence[Interval] = sorted(intervals, key=attrgetter("order"))
    reached: Interval | None = None
    for each in in_order:
        yield Span("owner", each.member_id, None, each.from_ms, each.to_ms)
        if reached is not None:
            unsure = _unsure(reached, each, is_open)
            if unsure is not None:
                yield unsure
            yield from _between(reached, each, is_unsure=unsure is not None)
        if reached is None or reached.may_be_over or each.reaches_beyond(reached):
            reached = each
    if reached is not None and reached.to_position < ENDLESS and reached.leaves_gap:
        yield Span("gap", None, None, reached.to_ms, None)


def _unsure(
    reached: Interval, each: Interval, is_open: Callable[[Moment, Moment], bool]
) -> Span | None:
    """Whether one of them may have ended before the other began, or after it."""
    if reached.member_id == each.member_id:
        return None
    orders = [(reached, each)]
    if reached.to_position > each.from_position:
        orders.append((each, reached))
    for one, other in orders:
        is_unknown = (
            one is reached and reached.may_be_over and one.to_position > other.from_position
        )
        if one.ended is not None and other.begun is not None:
            is_unknown |= is_open(one.ended, other.begun)
        if is_unknown:
            both_ms = sorted(filter(None, (other.from_ms, one.to_ms)))
            return Span("unsure", other.member_id, one.member_id, both_ms[0], both_ms[-1])
    return None


def _between(reached: Interval, each: Interval, *, is_unsure: bool) -> Iterator[Span]:
    if reached.to_position > each.from_position:
        if reached.member_id != each.member_id and not is_unsure:
            from_ms = reached.from_ms if each.from_ms is None else each.from_ms
            ends_ms = [end for end in (each.to_ms, reached.to_ms) if end is not None]
            both = (each.member_id, reached.member_id)
            yield Span("overlap", *both, from_ms, min(ends_ms, default=None))
    elif reached.to_position < each.from_position and reached.leaves_gap:
        has_length = None not in (reached.to_ms, each.from_ms) and reached.to_ms != each.from_ms
        if has_length:
            yield Span("gap", None, None, reached.to_ms, each.from_ms)


@dataclass(slots=True, kw_only=True)
class OwnershipRow(Row):
    """The owners of each partition over time, as the engine granted it and as the members stated
    it.

    Two owners at once are an overlap, however short. Between two owners is a gap. The two bases
    have no event in common, so that each is a check of the other.

    Where events of the group's sequence are missing, or are unreadable although their names are
    known, a grant or a release may be among them. A member that releases a partition without a
    visible grant had it since the last event before such a hole. A member without a visible release
    had it until then, if another member has it after the hole. A hole alone therefore makes no
    overlap.
    """

    topic: str
    partition: int
    basis: Literal["granted", "stated"]
    """`granted`: what the engine granted and took back. `stated`: what a member claimed to own, or
    committed for; this ends with its last claim, not when it gave the partition up."""
    kind: Kind
    """`overlap`: two members owned it. `unsure`: perhaps two; the events are in the logs of two
    gateways, whose clocks may differ by a minute, and no epoch tells which came first; or a gateway
    that restarted during a rebalance may have forgotten the first one. `gap`: no member owned it
    after one had; only for `granted`."""
    member_id: str | None
    """The owner; in an overlap the second one; null in a gap."""
    other_member_id: str | None
    """In an overlap, the first owner."""
    from_ms: int | None
    """Null if it began before the first event."""
    to_ms: int | None
    """Null if it has not ended, as far as known."""
    empty_ms: int | None
    """For a gap that has ended, the milliseconds of it during which the group had no members."""


def ownership(history: History, changes: Sequence[ChangeRow], claims: Claims) -> list[OwnershipRow]:
    """See `OwnershipRow`."""
    empty_ms = _empty_until(changes)

    def row(
        partition: TopicPartition, basis: Literal["granted", "stated"], span: Span
    ) -> OwnershipRow:
        return OwnershipRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            topic=partition[0],
            partition=partition[1],
            basis=basis,
            kind=span.kind,
            member_id=span.member_id,
            other_member_id=span.other_member_id,
            from_ms=span.from_ms,
            to_ms=span.to_ms,
            empty_ms=_empty_during(span, empty_ms) if basis == "granted" else None,
        )

    by_engine = [
        row(partition, "granted", span)
        for partition, intervals in granted(history, changes).items()
        for span in side_by_side(intervals, history.is_open)
    ]
    by_members = [
        row(partition, "stated", span)
        for partition, some in claims.items()
        for span in side_by_side(stated(some), history.is_open)
        if span.kind != "gap"
    ]
    return by_engine + by_members


def _empty_during(span: Span, empty_ms: Mapping[int, int]) -> int | None:
    """How long the group had no members, when no member could miss an unowned partition. Both ends
    of a gap are changes, because a partition was granted or released there."""
    if span.kind != "gap" or span.from_ms is None or span.to_ms is None:
        return None
    before_ms, until_ms = empty_ms.get(span.from_ms), empty_ms.get(span.to_ms)
    return None if before_ms is None or until_ms is None else until_ms - before_ms


def _empty_until(changes: Sequence[ChangeRow]) -> Mapping[int, int]:
    """For each moment of a group, the total time without members before it."""
    found: dict[int, int] = {}
    empty_ms = 0
    for change, following in pairwise(changes):
        found.setdefault(change.at_ms, empty_ms)
        if change.members == 0:
            empty_ms += following.at_ms - change.at_ms
    if changes:
        found.setdefault(changes[-1].at_ms, empty_ms)
    return found


@dataclass(slots=True, kw_only=True)
class DifferenceRow(Row):
    """Claims of members that contradict the engine's grants. Each is a finding, even without an
    overlap.

    A member may claim a partition for a while after losing it, because it learns of the loss later.
    Its claim is therefore compared with the latest grant of the partition, released or not. A
    commit may also be on its way while another member gets the partition, for a second at most.

    While the cluster serves a group, no event tells its grants. After an adoption the owner of a
    partition is therefore unknown until the engine grants it.
    """

    topic: str
    partition: int
    member_id: str
    """The member that claimed the partition."""
    granted_to: str | None
    """The member that the partition was last granted to; null if there was no grant. A null is
    reported only for groups whose creation was seen."""
    said_by: Literal["statement", "commit"]
    at_ms: int


def differences(
    history: History, ownership: Sequence[OwnershipRow], claims: Claims
) -> list[DifferenceRow]:
    """See `DifferenceRow`. Of a member's claims in one round, the first and the last are
    compared."""
    grants = _grants(ownership)
    is_whole = bool(history.of(GroupCreated))
    away_ms = [told.at_ms for told in history.of(GroupForwarded, GroupAdopted)]
    found: list[DifferenceRow] = []
    for partition, some in claims.items():
        of_partition = grants.get(partition, [])
        if not of_partition and not is_whole:
            continue
        times = [grant[0] for grant in of_partition]
        for claim in some:
            for at_ms in sorted({claim.first.position, claim.last.position}):
                before, behind = bisect_left(times, at_ms), bisect_right(times, at_ms)
                was_away = bisect_right(away_ms, at_ms)
                if was_away and (
                    not before or of_partition[before - 1][1] <= away_ms[was_away - 1]
                ):
                    continue  # the cluster may have granted it since
                granted_to = of_partition[before - 1][2] if before else None
                # Events of one millisecond may have happened in either order.
                granted_now = [grant[2] for grant in of_partition[before:behind]]
                if claim.member_id in (granted_to, *granted_now):
                    continue
                sent_ms = at_ms - IN_FLIGHT_MS_MAX
                if claim.is_commit and any(
                    ended_ms >= sent_ms and owner_id == claim.member_id
                    for _begun_ms, ended_ms, owner_id in of_partition[:before]
                ):
                    continue
                if granted_to is not None or is_whole:
                    found.append(
                        DifferenceRow(
                            cluster_id=history.cluster_id,
                            group_id=history.group_id,
                            topic=partition[0],
                            partition=partition[1],
                            member_id=claim.member_id,
                            granted_to=granted_to,
                            said_by="commit" if claim.is_commit else "statement",
                            at_ms=at_ms,
                        )
                    )
    return found


def _grants(
    ownership: Sequence[OwnershipRow],
) -> dict[TopicPartition, list[tuple[int, float, str]]]:
    """The beginning, the end and the owner of each granted interval. Of several at one moment, the
    one that lasts longest comes last."""
    found: dict[TopicPartition, list[tuple[int, float, str]]] = {}
    for row in ownership:
        if row.basis == "granted" and row.kind == "owner" and row.member_id is not None:
            to_ms = float("inf") if row.to_ms is None else row.to_ms
            grant = (row.from_ms or 0, to_ms, row.member_id)
            found.setdefault((row.topic, row.partition), []).append(grant)
    for some in found.values():
        some.sort()
    return found
