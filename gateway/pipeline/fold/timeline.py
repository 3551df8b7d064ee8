"""The states of groups and members over time.

A member of a classic group has the state of the group. A classic member of a consumer group goes
through a rebalance of its own. A native member has partitions to give up, or none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Literal, NamedTuple

from gateway.events.group_events import GroupConverted
from gateway.events.member_events import (
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberStateChanged,
    MemberSwitched,
)
from gateway.pipeline.fold.changes import ChangeRow, ends_of_moments
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.rebalances import PendingRevocations
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.sightings import CLASSIC, NATIVE, RESTARTED, SEEN, Kind, Protocol

_STABLE = "Stable"
_AGAIN = ""
"""Stands for the state that the next event says it was. A process that loads the group makes
classic members rejoin if they are behind, and tells of it only when they do."""


class Status(NamedTuple):
    """What is true of a group or a member for a while."""

    kind: Kind | None
    protocol: Protocol | None
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A moment that may change what is true."""

    at_ms: int
    event: str
    status: Status | None
    """Null if the member is absent."""
    cause: str | None = None
    """The reason of a departure."""
    is_from_before: bool = False
    """Whether the member was there before the first event, at which this is."""


class GroupPoint(NamedTuple):
    """What members inherit from their group: the kind, a classic group's state, a restart."""

    change: ChangeRow
    own_state: str | None


def member_states(
    changes: Sequence[ChangeRow], revoked: Iterable[PendingRevocations]
) -> Iterator[tuple[str, str | None, Sequence[Point]]]:
    """The id, the instance id and the points of each member."""
    members: dict[str, list[ChangeRow]] = {}
    for change in changes:
        if change.member_id is not None:
            members.setdefault(change.member_id, []).append(change)
    of_group = list(_group_points(changes))
    group_places = [point.change.place for point in of_group]
    pending: dict[str, list[PendingRevocations]] = {}
    for each in revoked:
        pending.setdefault(each.member_id, []).append(each)
    for member_id, own in members.items():
        first, last = _span(own, group_places)
        points = _points(changes[0], own, of_group[first:last], pending.get(member_id, ()))
        yield member_id, own[0].instance_id, list(points)


def _group_points(changes: Iterable[ChangeRow]) -> Iterator[GroupPoint]:
    before: object = None
    for change in changes:
        is_restart = change.event == RESTARTED and change.member_id is None
        taken = change.kind, change.state if change.kind == CLASSIC else None
        if is_restart:
            yield GroupPoint(change, _AGAIN)
        elif taken != before:
            yield GroupPoint(change, _STABLE if change.event == GroupConverted.name else None)
        before = taken


def _span(own: Sequence[ChangeRow], places: Sequence[int]) -> tuple[int, int]:
    """The group's points between the member's arrival and its departure."""
    if own[0].was_there:
        first = 0
    else:
        arrival = next((change for change in own if change.is_present), None)
        first = len(places) if arrival is None else bisect_right(places, arrival.place)
    last = len(places) if own[-1].is_present else bisect_left(places, own[-1].place)
    return first, last


def _points(
    first: ChangeRow,
    own: Sequence[ChangeRow],
    inherited: Sequence[GroupPoint],
    pending: Sequence[PendingRevocations],
) -> Iterator[Point]:
    """All points of one member in their order. `first` is the first change of the group."""
    own_at = {change.place: change for change in own}
    inherited_at = {point.change.place: point for point in inherited}
    pending_at = {each.change.place: each for each in pending}
    places = sorted({*own_at, *inherited_at, *pending_at})
    next_states = _next_states(places, own_at)
    own_state = next(iter(next_states.values()), None)
    """Until the member's first own state."""
    is_present = was_there = bool(own[0].was_there)
    kind, group_state, protocol = first.kind, first.state, own[0].protocol_before
    if was_there:
        status = _status(kind, protocol, group_state, own_state)
        yield Point(at_ms=first.begun_ms, event=SEEN, status=status, is_from_before=True)
    else:
        kind, group_state, protocol = None, None, None
    revoked = 0
    for place in places:
        change, point = own_at.get(place), inherited_at.get(place)
        at = change or (point.change if point else pending_at[place].change)
        if point is not None:
            kind = point.change.kind or kind
            group_state = point.change.state or group_state
            own_state = own_state if point.own_state is None else point.own_state
        if change is not None:
            kind, protocol = change.kind or kind, change.protocol or protocol
            group_state = change.state or group_state
            is_present = bool(change.is_present)
            own_state = _own_state(change) or own_state
        if place in pending_at:
            revoked += pending_at[place].more
        again = next_states.get(place)
        status = _status(kind, protocol, group_state, own_state, again=again, revoked=revoked)
        is_departure = change is not None and change.event in (MemberLeft.name, MemberFenced.name)
        yield Point(
            at_ms=at.at_ms,
            event=at.event,
            status=status if is_present else None,
            cause=at.cause if is_departure else None,
            is_from_before=was_there and at.at_ms == first.begun_ms,
        )


def _next_states(places: Sequence[int], own_at: Mapping[int, ChangeRow]) -> Mapping[int, str]:
    """The state before the next move of the member's own, at each place that has one."""
    found: dict[int, str] = {}
    state: str | None = None
    for place in reversed(places):
        own = own_at.get(place)
        if own is not None and own.event == MemberStateChanged.name:
            state = own.from_state
        if state is not None:
            found[place] = state
    return dict(reversed(found.items()))


def _status(
    kind: Kind | None,
    protocol: Protocol | None,
    group_state: str | None,
    own_state: str | None,
    *,
    again: str | None = None,
    revoked: int = 0,
) -> Status:
    """`again` is the state before the member's next move, and `revoked` the number of partitions
    that it has to give up."""
    if kind == CLASSIC:
        state = group_state
    elif protocol == NATIVE:
        state = "UnrevokedPartitions" if revoked > 0 else _STABLE
    else:
        state = (again or _STABLE) if own_state == _AGAIN else own_state
    return Status(kind, protocol, state)


def _own_state(own: ChangeRow) -> str | None:
    if own.event in (MemberJoined.name, MemberSwitched.name):
        return _STABLE
    return own.to_state if own.event == MemberStateChanged.name else None


@dataclass(slots=True, kw_only=True)
class TimelineRow(Row):
    """The states of each group and each member over time, with the member's protocol.

    States shorter than a millisecond are left out. A member that appears without having joined was
    there before the first event of its group. When a new gateway process takes over, a classic
    group continues from its last completed rebalance. That counts from the last event of the old
    process, because its end is not known.
    """

    member_id: str | None
    """Null in the rows of the group itself."""
    instance_id: str | None
    """The instance id of a static member, if any event mentions it."""
    kind: Literal["classic", "consumer"] | None
    """The group's kind; null if unknown."""
    protocol: Literal["classic", "consumer"] | None
    """The member's protocol; null in rows of the group, and if unknown."""
    state: str | None
    """A classic group is Empty, PreparingRebalance, CompletingRebalance or Stable, and so are its
    members. A consumer group is Empty, Assigning (its epoch has no target yet), Reconciling (until
    the last event of its epoch) or Stable. A classic member of a consumer group is in
    PrepareRebalance, CompletingRebalance or Stable. A native member is in UnrevokedPartitions while
    it has partitions to give up, otherwise Stable. Null if unknown."""
    from_ms: int
    is_from_before: bool
    """Whether the member was there before the first event of its group, which was at `from_ms`."""
    to_ms: int | None
    """Null if it has not ended."""
    ended_by: str | None
    """The event that ended it; `gateway_restarted` if the process forgot it."""
    cause: str | None
    """The reason for the member's departure, if that ended it."""


def timeline(
    history: History, changes: Sequence[ChangeRow], revoked: Iterable[PendingRevocations]
) -> list[TimelineRow]:
    """See `TimelineRow`. `revoked` are the `revocations`."""
    of_group = [
        Point(
            at_ms=change.at_ms, event=change.event, status=Status(change.kind, None, change.state)
        )
        for change in changes
    ]
    found = _rows(history, None, None, of_group)
    for member_id, instance_id, points in member_states(changes, revoked):
        found += _rows(history, member_id, instance_id, points)
    return found


def _rows(
    history: History, member_id: str | None, instance_id: str | None, points: Sequence[Point]
) -> list[TimelineRow]:
    """Intervals from each change to the next. An absent member has no state."""
    # The last change of a moment may restore the earlier state.
    lasting = _differing(ends_of_moments(_differing(points)))
    return [
        TimelineRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            member_id=member_id,
            instance_id=instance_id,
            kind=point.status.kind,
            protocol=point.status.protocol,
            state=point.status.state,
            from_ms=point.at_ms,
            is_from_before=point.is_from_before,
            to_ms=end.at_ms if end else None,
            ended_by=end.event if end else None,
            cause=end.cause if end else None,
        )
        for point, end in zip_longest(lasting, lasting[1:])
        if point.status is not None
    ]


def _differing(points: Iterable[Point]) -> list[Point]:
    """The points that differ from the one before."""
    return [next(alike) for _, alike in groupby(points, key=attrgetter("status"))]
