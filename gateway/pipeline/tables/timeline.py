"""The states of each group and each member over time, with the member's protocol.

States shorter than a millisecond are left out. A member that appears without having joined was
there before the first event of its group. When a new gateway process takes over, a classic group
continues from its last completed rebalance. That counts from the last event of the old process,
because its end is not known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from gateway.pipeline.history import History
from gateway.pipeline.tables.changes import ChangeRow
from gateway.pipeline.tables.member_states import Being, Point, member_states
from gateway.pipeline.tables.row import Row


@dataclass(slots=True, kw_only=True)
class TimelineRow(Row):
    """The time that a group or a member was in one state."""

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


def timeline(history: History, changes: Sequence[ChangeRow]) -> list[TimelineRow]:
    """See `TimelineRow`."""
    of_group = [
        Point(at_ms=change.at_ms, event=change.event, being=Being(change.kind, None, change.state))
        for change in changes
    ]
    found = _rows(history, None, None, of_group)
    for member_id, instance_id, points in member_states(changes):
        found += _rows(history, member_id, instance_id, points)
    return found


def _rows(
    history: History, member_id: str | None, instance_id: str | None, points: Sequence[Point]
) -> list[TimelineRow]:
    """Intervals from each change to the next. An absent member has no state."""
    differing = list(_differing(points))
    # Of one millisecond only the last change counts; it may restore the earlier state.
    lasting = [
        point
        for point, after in zip_longest(differing, differing[1:])
        if after is None or after.at_ms != point.at_ms
    ]
    lasting = list(_differing(lasting))
    return [
        TimelineRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            member_id=member_id,
            instance_id=instance_id,
            kind=point.being.kind,
            protocol=point.being.protocol,
            state=point.being.state,
            from_ms=point.at_ms,
            is_from_before=point.is_from_before,
            to_ms=end.at_ms if end else None,
            ended_by=end.event if end else None,
            cause=end.cause if end else None,
        )
        for point, end in zip_longest(lasting, lasting[1:])
        if point.being is not None
    ]


def _differing(points: Sequence[Point]) -> Iterator[Point]:
    """The points that differ from the one before."""
    before: Being | None = None
    for point in points:
        if point.being != before:
            before = point.being
            yield point
