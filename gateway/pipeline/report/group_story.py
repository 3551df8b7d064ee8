"""What the section of a group shows: its span of time, migrations, steps, and ownership map."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from gateway.pipeline.fold.granted import TopicPartition
from gateway.pipeline.fold.offsets import OffsetRow
from gateway.pipeline.fold.ownership import OwnershipRow
from gateway.pipeline.fold.tables import Key, Tables
from gateway.pipeline.fold.timeline import TimelineRow
from gateway.pipeline.report.figures import Figures, MemberCounts, Step, has_members
from gateway.pipeline.report.model import (
    CommitProgress,
    GroupStory,
    Interval,
    MemberName,
    Migration,
    MigrationStep,
    OwnershipMap,
    PartitionStory,
    ProtocolMix,
    of_each,
    short,
    short_or_none,
)

Span: TypeAlias = tuple[int, int]
"""From and to, in milliseconds since 1970 (UTC)."""

_MARGIN = 0.1
"""The margin before and after the important part, as a share of its length."""
_MARGIN_MS_MIN = 1_000
_SHOWN_MAX = 0.5
"""If the important part is a smaller share of all, only that is shown."""


def around(matters: Iterable[Span], full_span: Span) -> Span:
    """From shortly before the first of these spans to shortly after the last."""
    spans: Sequence[Span] = sorted(matters)
    if not spans:
        return full_span
    first, last = spans[0][0], max(to_ms for _, to_ms in spans)
    margin_ms = max(int((last - first) * _MARGIN), _MARGIN_MS_MIN)
    shown = max(first - margin_ms, full_span[0]), min(last + margin_ms, full_span[1])
    return shown if shown[1] - shown[0] < _SHOWN_MAX * (full_span[1] - full_span[0]) else full_span


def what_matters(
    migrations: Iterable[Migration], findings_ms: Iterable[int], full_span: Span
) -> Iterable[Span]:
    """The spans of migrations, and the moments of findings."""
    for each in migrations:
        yield each.from_ms, full_span[1] if each.to_ms is None else each.to_ms
    for at_ms in findings_ms:
        yield at_ms, at_ms


MIGRATIONS_MAX = 20
FINDING_TIMES_MAX = 20
PROTOCOL_MIXES_MAX = 150
STEPS_MAX = 60
COMMITS_MAX = 24
"""Limits per group, lower if there are very many groups: see `of_each`."""
COMMITTED_MAX = 1_000
"""Partitions of a group whose commits are kept: the first ones by name and number."""


@dataclass(slots=True)
class Committed:
    """The first and the latest commit for a partition."""

    from_ms: int
    first: int
    to_ms: int
    last: int


def add_commits(committed: dict[TopicPartition, Committed], rows: Sequence[OffsetRow]) -> None:
    """Add further rows, which are in order for each partition."""
    lasts = {(row.topic, row.partition): row for row in rows}
    firsts = {(row.topic, row.partition): row for row in reversed(rows)}
    for place, last in lasts.items():
        first = firsts[place]
        its = committed.setdefault(place, Committed(first.from_ms, first.first, 0, 0))
        its.to_ms, its.last = last.to_ms, last.last
    if len(committed) > COMMITTED_MAX:
        for place in sorted(committed)[COMMITTED_MAX:]:
            del committed[place]


class Section(BaseModel):
    """The contents, up to the limits."""

    cluster_id: str
    group_id: str
    figures: Figures
    has_members: bool
    """Whether the group has members at the end."""
    finding_times_ms: tuple[int, ...]
    migrations: tuple[Migration, ...]
    migrations_left_out: int
    member_counts: tuple[MemberCounts, ...]
    """The longest ones, and the one that has not ended."""
    member_counts_in_all: int
    """All of them."""
    steps: tuple[Step, ...]
    steps_count: int
    """All of them."""
    commits: tuple[CommitProgress, ...]
    """The partitions whose latest commit is oldest."""
    commits_count: int
    """All of them, up to COMMITTED_MAX."""

    @property
    def key(self) -> Key:
        """The group."""
        return self.cluster_id, self.group_id

    def full_span(self, end_ms: int) -> Span:
        """All of the group's time. One known only from missing events has an empty one."""
        from_ms = end_ms if self.figures.from_ms is None else self.figures.from_ms
        ended_ms = None if self.has_members else self.figures.to_ms
        return from_ms, end_ms if ended_ms is None else ended_ms

    def shown(self, end_ms: int) -> Span:
        """The span that its map shows."""
        full_span = self.full_span(end_ms)
        return around(what_matters(self.migrations, self.finding_times_ms, full_span), full_span)


def section(
    key: Key,
    tables: Tables,
    figures: Figures,
    counts: Sequence[MemberCounts],
    steps: Sequence[Step],
    *,
    closed_times_ms: Iterable[int],
    committed: Mapping[TopicPartition, Committed],
) -> Section:
    """The section of a group. `closed_times_ms` are those of findings in earlier rows, and
    `committed` is what all rows say."""
    commits = nsmallest(COMMITS_MAX, committed.items(), key=lambda its: (its[1].to_ms, its[0]))
    migrations = sorted(tables.migrations, key=attrgetter("from_ms"))
    ended = sorted(
        (count for count in counts if count.to_ms is not None),
        key=lambda count: (count.from_ms - (count.to_ms or 0), count.from_ms),
    )
    return Section(
        cluster_id=key[0],
        group_id=key[1],
        figures=figures,
        has_members=has_members(counts),
        finding_times_ms=tuple(finding_times(tables, closed_times_ms)),
        migrations=tuple(
            Migration(
                direction=row.direction,
                from_ms=row.from_ms,
                to_ms=row.to_ms,
                is_complete=row.is_complete,
            )
            for row in migrations[:MIGRATIONS_MAX]
        ),
        migrations_left_out=max(0, len(migrations) - MIGRATIONS_MAX),
        member_counts=(
            *ended[:PROTOCOL_MIXES_MAX],
            *(each for each in counts if each.to_ms is None),
        ),
        member_counts_in_all=len(counts),
        steps=tuple(steps[:STEPS_MAX]),
        steps_count=len(steps),
        commits=tuple(
            CommitProgress(
                topic=short(topic),
                partition=partition,
                from_ms=its.from_ms,
                to_ms=its.to_ms,
                first=its.first,
                last=its.last,
            )
            for (topic, partition), its in commits
        ),
        commits_count=len(committed),
    )


def finding_times(tables: Tables, others_ms: Iterable[int]) -> list[int]:
    """The first moments of findings, these and others."""
    return sorted({*_finding_times(tables), *others_ms})[:FINDING_TIMES_MAX]


def _finding_times(tables: Tables) -> Iterator[int]:
    """The times of findings; the end if the beginning is unknown."""
    for row in tables.ownership:
        if row.kind == "overlap":
            at_ms = row.to_ms if row.from_ms is None else row.from_ms
            if at_ms is not None:
                yield at_ms
    yield from (row.from_ms for row in tables.offsets if row.finding == "non_monotonic")
    yield from (row.from_ms for row in tables.sequences)
    for found in (tables.wrong_starts, tables.differences, tables.contradictions):
        yield from (row.at_ms for row in found)


def story(
    contents: Section,
    drawn: OwnershipMap | None,
    members: tuple[MemberName, ...],
    *,
    end_ms: int,
    groups: int,
) -> GroupStory:
    """The section on the page, one of so many groups. Open spans end at `end_ms`."""
    sums = contents.figures.sums
    mixes = sorted(
        (_protocol_mix(count, end_ms) for count in contents.member_counts),
        key=lambda mix: (mix.from_ms - mix.to_ms, mix.from_ms),
    )[: of_each(PROTOCOL_MIXES_MAX, groups)]
    steps = contents.steps[: of_each(STEPS_MAX, groups)]
    commits = contents.commits[: of_each(COMMITS_MAX, groups)]
    return GroupStory(
        cluster_id=short(contents.cluster_id),
        group_id=short(contents.group_id),
        findings=contents.figures.findings,
        partitions=sums["partitions"],
        unowned_partition_s=sums["unowned_ms"] / 1000,
        unowned_at_end=sums["unowned_at_end"],
        rebalances=sums["rebalances"],
        members_disturbed=sums["members_disturbed"],
        partitions_moved=sums["partitions_moved"],
        partitions_moved_least=sums["partitions_moved_least"],
        finding_times_ms=contents.finding_times_ms,
        # The longest ones say most. They are drawn in chronological order.
        protocol_mixes=tuple(sorted(mixes, key=lambda mix: mix.from_ms)),
        protocol_mixes_left_out=contents.member_counts_in_all - len(mixes),
        migrations=contents.migrations,
        migrations_left_out=contents.migrations_left_out,
        steps=tuple(_step(each, end_ms) for each in steps),
        steps_left_out=contents.steps_count - len(steps),
        commits=commits,
        commits_left_out=contents.commits_count - len(commits),
        commits_compared_max=COMMITTED_MAX if contents.commits_count >= COMMITTED_MAX else None,
        ownership=drawn,
        members=members,
    )


def _protocol_mix(count: MemberCounts, end_ms: int) -> ProtocolMix:
    return ProtocolMix(
        from_ms=count.from_ms,
        to_ms=end_ms if count.to_ms is None else count.to_ms,
        classic_members=count.classic_members,
        consumer_members=count.consumer_members,
    )


def _step(step: Step, end_ms: int) -> MigrationStep:
    return MigrationStep(
        migration=step.migration,
        number=step.number,
        from_ms=step.from_ms,
        to_ms=end_ms if step.to_ms is None else step.to_ms,
        classic_members=step.classic_members,
        consumer_members=step.consumer_members,
        unowned_partition_s=step.unowned_ms / 1000,
        arrived=tuple(map(short, step.names)),
        left=tuple(map(short, step.left)),
        rebalances=step.rebalances,
        rebalances_ms=step.rebalances_ms,
    )


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
    ownership: Iterable[OwnershipRow], shown: Span, full_span: Span, intervals_max: int
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
    kept = [
        each
        for place in worst_first[:PARTITIONS_MAX]
        for each in sorted(by_place[place], key=lambda each: each.importance)
    ][:intervals_max]
    kept.sort(key=lambda each: (*each[:4], each.member_id or "", each.other_member_id or ""))
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
        for (topic, partition), some in groupby(kept, key=lambda each: each.place)
    )
    return OwnershipMap(
        from_ms=shown[0],
        to_ms=shown[1],
        is_all=shown == full_span,
        partitions=histories,
        partitions_left_out=len(by_place) - len(histories),
        intervals_left_out=len(drawn) - len(kept),
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


def names(drawn: OwnershipMap, timeline: Iterable[TimelineRow]) -> tuple[MemberName, ...]:
    """The members in a map, by their first ownership."""
    in_order = sorted(timeline, key=attrgetter("from_ms"))
    latest = {short(row.member_id): row for row in in_order if row.member_id is not None}
    return tuple(_name(member_id, latest) for member_id in _drawn_members(drawn))


def _drawn_members(drawn: OwnershipMap) -> list[str]:
    """The ids in a map, each once."""
    intervals = sorted(
        (interval.from_ms, story.topic, story.partition, member_id)
        for story in drawn.partitions
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
