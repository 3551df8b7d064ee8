"""The owners of each partition over time, as the engine granted it and as the members stated it.

Two owners at once are an overlap, however short. Between two owners is a gap. The two bases have no
event in common, so that each is a check of the other.

Where events of the group's sequence are missing, or are unreadable although their names are known,
a grant or a release may be among them. A member that releases a partition without a visible grant
had it since the last event before such a hole. A member without a visible release had it until
then, if another member has it after the hole. A hole alone therefore makes no overlap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gateway.pipeline.history import History
from gateway.pipeline.tables.changes import ChangeRow
from gateway.pipeline.tables.granted import TopicPartition, granted
from gateway.pipeline.tables.intervals import Kind, Span, side_by_side
from gateway.pipeline.tables.row import Row
from gateway.pipeline.tables.stated import Claims, stated


@dataclass(slots=True, kw_only=True)
class OwnershipRow(Row):
    """One interval of one partition."""

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
