"""The contents of a group's section, apart from its map."""

from collections.abc import Iterable, Iterator, Sequence

from pydantic import BaseModel

from gateway.pipeline.fold import Key
from gateway.pipeline.report.model import (
    GroupStory,
    MemberName,
    Migration,
    MigrationStep,
    OwnershipMap,
    Share,
)
from gateway.pipeline.report.numbers.figures import Figures, has_members
from gateway.pipeline.report.numbers.limits import of_each, short
from gateway.pipeline.report.numbers.member_counts import MemberCounts
from gateway.pipeline.report.numbers.steps import Step
from gateway.pipeline.report.window import Span, around, what_matters
from gateway.pipeline.tables.catalog import Tables

MIGRATIONS_MAX = 20
FINDING_TIMES_MAX = 20
SHARES_MAX = 150
STEPS_MAX = 60
"""Limits per group, lower if there are very many groups: see `of_each`."""


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
    shares: tuple[MemberCounts, ...]
    """The longest ones, and the one that has not ended."""
    shares_count: int
    """All of them."""
    steps: tuple[Step, ...]
    steps_count: int
    """All of them."""

    @property
    def key(self) -> Key:
        """The group."""
        return self.cluster_id, self.group_id

    def whole(self, end_ms: int) -> Span:
        """The whole span of the group. One known only from missing events has an empty one."""
        from_ms = end_ms if self.figures.from_ms is None else self.figures.from_ms
        ended_ms = None if self.has_members else self.figures.to_ms
        return from_ms, end_ms if ended_ms is None else ended_ms

    def shown(self, end_ms: int) -> Span:
        """The span that its map shows."""
        whole = self.whole(end_ms)
        return around(what_matters(self.migrations, self.finding_times_ms, whole), whole)


def section(
    key: Key,
    tables: Tables,
    figures: Figures,
    shares: Sequence[MemberCounts],
    steps: Sequence[Step],
    *,
    closed_times_ms: Iterable[int] = (),
) -> Section:
    """The section of a group. `closed_times_ms` are those of findings in earlier rows."""
    migrations = sorted(tables.migrations, key=lambda row: row.from_ms)
    ended = sorted(
        (spell for spell in shares if spell.to_ms is not None),
        key=lambda spell: (spell.from_ms - (spell.to_ms or 0), spell.from_ms),
    )
    return Section(
        cluster_id=key[0],
        group_id=key[1],
        figures=figures,
        has_members=has_members(shares),
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
        shares=(*ended[:SHARES_MAX], *(spell for spell in shares if spell.to_ms is None)),
        shares_count=len(shares),
        steps=tuple(steps[:STEPS_MAX]),
        steps_count=len(steps),
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
    told: Section,
    drawn: OwnershipMap | None,
    members: tuple[MemberName, ...],
    *,
    end_ms: int,
    groups: int,
) -> GroupStory:
    """The section on the page, one of so many groups. Open spans end at `end_ms`."""
    sums = told.figures.sums
    shares = sorted(
        (_share(spell, end_ms) for spell in told.shares),
        key=lambda share: (share.from_ms - share.to_ms, share.from_ms),
    )[: of_each(SHARES_MAX, groups)]
    steps = told.steps[: of_each(STEPS_MAX, groups)]
    return GroupStory(
        cluster_id=short(told.cluster_id),
        group_id=short(told.group_id),
        findings=told.figures.findings,
        partitions=sums["partitions"],
        unowned_partition_s=sums["unowned_ms"] / 1000,
        unowned_at_end=sums["unowned_at_end"],
        rebalances=sums["rebalances"],
        members_disturbed=sums["members_disturbed"],
        partitions_moved=sums["partitions_moved"],
        partitions_moved_least=sums["partitions_moved_least"],
        finding_times_ms=told.finding_times_ms,
        # The longest shares say most. They are drawn in chronological order.
        shares=tuple(sorted(shares, key=lambda share: share.from_ms)),
        shares_left_out=told.shares_count - len(shares),
        migrations=told.migrations,
        migrations_left_out=told.migrations_left_out,
        steps=tuple(_step(each, end_ms) for each in steps),
        steps_left_out=told.steps_count - len(steps),
        ownership=drawn,
        members=members,
    )


def _share(spell: MemberCounts, end_ms: int) -> Share:
    return Share(
        from_ms=spell.from_ms,
        to_ms=end_ms if spell.to_ms is None else spell.to_ms,
        classic_members=spell.classic_members,
        consumer_members=spell.consumer_members,
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
    )
