"""The ownership maps: what is drawn of each group, the worst first, and what a limit leaves out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from gateway.pipeline.report.model import Interval, MemberName, OwnershipMap, PartitionStory
from gateway.pipeline.report.numbers.limits import short, short_or_none
from gateway.pipeline.report.window import Span
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.timeline import TimelineRow

PARTITIONS_MAX = 40
INTERVALS_MAX = 600
"""Intervals per group, fewer if there are very many groups: see `of_each`."""


class _Drawn(NamedTuple):
    """An interval, cut off at the time shown."""

    topic: str
    partition: int
    from_ms: int
    kind: Literal["owner", "gap", "overlap"]
    member_id: str | None
    other_member_id: str | None
    to_ms: int

    @property
    def place(self) -> tuple[str, int]:
        """The partition."""
        return self.topic, self.partition

    @property
    def length_ms(self) -> int:
        """How long it lasted."""
        return self.to_ms - self.from_ms

    @property
    def importance(self) -> tuple[bool, bool, int, int, str]:
        """What comes first in its partition: overlaps, gaps, long ones."""
        is_least = self.kind != "overlap", self.kind != "gap", -self.length_ms
        return *is_least, self.from_ms, self.member_id or ""


def ownership_map(
    ownership: Iterable[OwnershipRow], shown: Span, whole: Span, intervals_max: int
) -> OwnershipMap | None:
    """The map of one group: its granted intervals, and overlaps of either basis. None if nothing is
    to be drawn."""
    drawn = {each for row in ownership if (each := _cut_off(row, shown)) is not None}
    if not drawn:
        return None
    by_place: dict[tuple[str, int], list[_Drawn]] = {}
    for each in drawn:
        by_place.setdefault(each.place, []).append(each)
    worst_first = sorted(by_place, key=lambda place: (*_badness(by_place[place]), *place))
    chosen = [
        each
        for place in worst_first[:PARTITIONS_MAX]
        for each in sorted(by_place[place], key=lambda each: each.importance)
    ][:intervals_max]
    chosen.sort(key=lambda each: (*each[:4], each.member_id or "", each.other_member_id or ""))
    histories = tuple(
        PartitionStory(
            topic=short(topic),
            partition=partition,
            intervals=tuple(
                Interval(
                    kind=each.kind,
                    member_id=short_or_none(each.member_id),
                    other_member_id=short_or_none(each.other_member_id),
                    from_ms=each.from_ms,
                    to_ms=each.to_ms,
                )
                for each in some
            ),
        )
        for (topic, partition), some in groupby(chosen, key=lambda each: each.place)
    )
    return OwnershipMap(
        from_ms=shown[0],
        to_ms=shown[1],
        is_all=shown == whole,
        partitions=histories,
        partitions_left_out=len(by_place) - len(histories),
        intervals_left_out=len(drawn) - len(chosen),
    )


def _cut_off(row: OwnershipRow, shown: Span) -> _Drawn | None:
    """The part in the time shown."""
    if row.kind == "unsure" or (row.basis != "granted" and row.kind != "overlap"):
        return None
    from_ms = shown[0] if row.from_ms is None else max(row.from_ms, shown[0])
    to_ms = shown[1] if row.to_ms is None else min(row.to_ms, shown[1])
    may_be_moment = row.kind == "overlap" or shown[0] == shown[1]
    if from_ms > to_ms or (from_ms == to_ms and not may_be_moment):
        return None
    members = row.member_id, row.other_member_id
    return _Drawn(row.topic, row.partition, from_ms, row.kind, *members, to_ms)


def _badness(drawn: Sequence[_Drawn]) -> tuple[bool, int]:
    """A partition with two owners comes first, then the longest unowned."""
    gap_ms = sum(each.length_ms for each in drawn if each.kind == "gap")
    return all(each.kind != "overlap" for each in drawn), -gap_ms


def names(told: OwnershipMap, timeline: Iterable[TimelineRow]) -> tuple[MemberName, ...]:
    """The members in a map, by their first ownership."""
    latest: dict[str, TimelineRow] = {}
    for row in timeline:
        if row.member_id is not None:
            member_id = short(row.member_id)
            if member_id not in latest or latest[member_id].from_ms <= row.from_ms:
                latest[member_id] = row
    return tuple(_name(member_id, latest) for member_id in _drawn_members(told))


def _drawn_members(told: OwnershipMap) -> list[str]:
    """The ids in a map, each once."""
    intervals = sorted(
        (interval.from_ms, story.topic, story.partition, member_id)
        for story in told.partitions
        for interval in story.intervals
        for member_id in (interval.other_member_id, interval.member_id)
        if member_id is not None
    )
    return list(dict.fromkeys(member_id for *_, member_id in intervals))


def _name(member_id: str, latest: Mapping[str, TimelineRow]) -> MemberName:
    row = latest.get(member_id)
    return MemberName(
        member_id=member_id,
        instance_id=short_or_none(row.instance_id) if row else None,
        protocol=row.protocol if row else None,
    )
