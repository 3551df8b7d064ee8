"""What page and verdict need of the tables of many groups. Its size has a limit; digests of
different groups are added up.
"""

import typing
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

from gateway.json_schemas import json_schema
from gateway.pipeline.fold.granted import TopicPartition
from gateway.pipeline.fold.history import Pairs
from gateway.pipeline.fold.lines import RejectedRow
from gateway.pipeline.fold.migrations import MigrationRow, WorseStepRow
from gateway.pipeline.fold.offsets import OffsetRow, WrongStartRow
from gateway.pipeline.fold.ownership import DifferenceRow, OwnershipRow
from gateway.pipeline.fold.readiness import ReadinessRow
from gateway.pipeline.fold.rebalances import RebalanceRow
from gateway.pipeline.fold.row import BaseRow, columns
from gateway.pipeline.fold.sequences import ContradictionRow, SequenceRow
from gateway.pipeline.fold.tables import ALL_ROWS, Key, Tables
from gateway.pipeline.report.figures import Figures, figures, member_counts, steps
from gateway.pipeline.report.group_story import (
    Committed,
    Section,
    add_commits,
    finding_times,
    section,
    story,
)
from gateway.pipeline.report.model import (
    Cell,
    ClientVersion,
    Column,
    Evidence,
    MemberName,
    OwnershipMap,
    Provenance,
    Report,
    StepCost,
    Totals,
    short,
    short_or_none,
)

VERSIONS_MAX = 40
REASONS_MAX = 3
"""Reasons shown for a version's blocked groups."""
KEPT_MAX = 1_000
"""Versions and reasons that are counted each; the others are left out."""


class VersionSum(BaseModel):
    """The members of one client version."""

    software_name: str | None
    software_version: str | None
    groups: int = 0
    members: int = 0
    on_consumer: int = 0
    ready: int = 0
    too_old: int = 0
    unknown: int = 0
    blocked: Counter[str] = Counter()
    """By the reason."""

    def add(self, rows: Iterable[ReadinessRow]) -> None:
        """Add the rows of one group."""
        self.groups += 1
        for row in rows:
            self.members += row.members
            if row.protocol == "consumer":
                self.on_consumer += row.members
            elif row.speaks_consumer is None:
                self.unknown += row.members
            elif not row.speaks_consumer:
                self.too_old += row.members
            elif row.can_convert:
                self.ready += row.members
            elif row.blocked_by in self.blocked or len(self.blocked) < KEPT_MAX:
                self.blocked[row.blocked_by or ""] += row.members

    def merge(self, other: "VersionSum") -> None:
        """Add the sums of other groups."""
        self.groups += other.groups
        self.members += other.members
        self.on_consumer += other.on_consumer
        self.ready += other.ready
        self.too_old += other.too_old
        self.unknown += other.unknown
        self.blocked.update(other.blocked)


def clients(sums: Iterable[VersionSum]) -> tuple[tuple[ClientVersion, ...], int]:
    """The versions with most members, and how many are left out."""
    in_order = sorted(sums, key=_by_members)
    versions = tuple(map(_client_version, in_order[:VERSIONS_MAX]))
    return versions, len(in_order) - len(versions)


def _by_members(each: VersionSum) -> tuple[object, ...]:
    names = (each.software_name, each.software_version)
    return -each.members, *((name is None, name or "") for name in names)


def _client_version(each: VersionSum) -> ClientVersion:
    reasons = sorted(each.blocked.items(), key=lambda item: (-item[1], item[0]))
    return ClientVersion(
        software_name=short_or_none(each.software_name),
        software_version=short_or_none(each.software_version),
        groups=each.groups,
        on_consumer=each.on_consumer,
        ready=each.ready,
        too_old=each.too_old,
        unknown=each.unknown,
        blocked=each.blocked.total(),
        blocked_by=tuple(filter(None, (reason for reason, _ in reasons[:REASONS_MAX]))),
    )


R = TypeVar("R", bound=BaseRow)

ROWS_MAX = 200
TEXT_MAX = 1_000
"""Characters of a text on the page."""
_CANDIDATES_MAX = 5 * ROWS_MAX


@dataclass(frozen=True, slots=True)
class Kind:
    """Selects rows of a table, with their order; `-` means descending."""

    table: str
    order: Sequence[str]
    is_one: Callable[[Any], bool] = field(default=lambda _row: True)


KINDS: Mapping[str, Kind] = {
    "overlaps": Kind("ownership", ("from_ms",), lambda row: row.kind == "overlap"),
    "unsure": Kind("ownership", ("from_ms",), lambda row: row.kind == "unsure"),
    "non_monotonic": Kind("offsets", ("from_ms",), lambda row: row.finding == "non_monotonic"),
    "lost_commits": Kind("wrong_starts", ("at_ms",), lambda row: row.finding == "lost"),
    "unsure_commits": Kind("offsets", ("from_ms",), lambda row: row.finding == "unsure"),
    "unsure_starts": Kind("wrong_starts", ("at_ms",), lambda row: row.finding == "unsure"),
    "skips": Kind("wrong_starts", ("at_ms",), lambda row: row.finding == "skipped"),
    "missing_events": Kind("sequences", ("from_ms",)),
    "contradictions": Kind("contradictions", ("at_ms",)),
    "differences": Kind("differences", ("at_ms",)),
    "moves_back": Kind("offsets", ("from_ms",), lambda row: row.finding in ("seek", "reset")),
    "migrations": Kind("migrations", ("-unowned_partition_s", "from_ms")),
    "worse_steps": Kind("worse_steps", ("at_ms",)),
    "rebalances": Kind("rebalances", ("-members_disturbed", "-partitions_moved", "from_ms")),
    "readiness": Kind("readiness", ("can_convert", "-members")),
    "rejected_lines": Kind("rejected", ("-is_unread", "file", "place")),
}


class Gravest(BaseModel, Generic[R]):
    """The gravest rows of one kind."""

    count: int = 0
    """All rows."""
    rows: list[R] = []

    def add(self, kind: Kind, rows: Iterable[R]) -> None:
        """Add rows; those that the limit leaves out are only counted."""
        before = len(self.rows)
        self.rows += rows
        self.count += len(self.rows) - before
        if len(self.rows) > _CANDIDATES_MAX:
            self.cut(kind)

    def merge(self, kind: Kind, other: "Gravest[R]") -> None:
        """Add the rows of another one."""
        if not other.count:
            return
        self.count += other.count
        self.rows += other.rows
        self.cut(kind)

    def cut(self, kind: Kind) -> None:
        """Keep the gravest rows, in their order."""
        for name in reversed((*kind.order, *columns(type(self.rows[0]))) if self.rows else ()):
            column = name.removeprefix("-")
            self.rows.sort(key=lambda row: _key(getattr(row, column)), reverse=column != name)
        del self.rows[ROWS_MAX:]


def _key(value: Any) -> tuple[bool, Any]:
    """Null comes before any value."""
    return value is not None, value


def evidence(kind: Kind, found: Gravest[Any]) -> Evidence:
    """The evidence of one kind for the page."""
    row = ALL_ROWS[kind.table]
    texts, names = _texts(row), kind.table != "rejected"  # rejected lines have no names
    found.cut(kind)

    def cell(name: str, value: Cell) -> Cell:
        if name not in texts or not isinstance(value, str):
            return value
        return (short(value) if names else value)[:TEXT_MAX]

    return Evidence(
        table=kind.table,
        columns=tuple(
            Column(name=name, meaning=" ".join(column.get("description", "").split()))
            for name, column in json_schema(row)["properties"].items()
        ),
        rows=tuple(
            {name: cell(name, getattr(each, name)) for name in columns(row)} for each in found.rows
        ),
        left_out=found.count - len(found.rows),
    )


def _texts(row: type[BaseRow]) -> frozenset[str]:
    """The columns with names and other texts."""
    return frozenset(
        name
        for name, kind in typing.get_type_hints(row).items()
        if kind is str or str in typing.get_args(kind)
    )


COSTS_MAX = 24
"""Steps that are summed over all groups: the first ones of each migration."""


class StepSum(BaseModel):
    """The cost of the nth step of a migration, over all migrations."""

    steps: int = 0
    unowned_ms: float = 0.0
    unowned_ms_most: float = 0.0


class Findings(BaseModel):
    """The gravest rows of each kind of evidence."""

    overlaps: Gravest[OwnershipRow] = Gravest()
    unsure: Gravest[OwnershipRow] = Gravest()
    non_monotonic: Gravest[OffsetRow] = Gravest()
    lost_commits: Gravest[WrongStartRow] = Gravest()
    unsure_commits: Gravest[OffsetRow] = Gravest()
    unsure_starts: Gravest[WrongStartRow] = Gravest()
    skips: Gravest[WrongStartRow] = Gravest()
    missing_events: Gravest[SequenceRow] = Gravest()
    contradictions: Gravest[ContradictionRow] = Gravest()
    differences: Gravest[DifferenceRow] = Gravest()
    moves_back: Gravest[OffsetRow] = Gravest()
    migrations: Gravest[MigrationRow] = Gravest()
    worse_steps: Gravest[WorseStepRow] = Gravest()
    rebalances: Gravest[RebalanceRow] = Gravest()
    readiness: Gravest[ReadinessRow] = Gravest()
    rejected_lines: Gravest[RejectedRow] = Gravest()


@dataclass(slots=True)
class Closed:
    """What a group's section needs of its earlier rows."""

    is_told: bool = False
    figures: Figures = field(default_factory=Figures)
    finding_times_ms: list[int] = field(default_factory=list)
    committed: Pairs[TopicPartition, Committed] = field(default_factory=dict)

    def add(self, tables: Tables) -> None:
        """Add rows."""
        self.is_told = self.is_told or _is_told(tables)
        self.figures.merge(figures(tables, (), ()))
        self.finding_times_ms = finding_times(tables, self.finding_times_ms)
        add_commits(self.committed, tables.offsets)


class Digest(BaseModel):
    """The sums, the worst groups and the gravest evidence."""

    top: int
    """The number of worst groups that it keeps."""
    rows: Counter[str] = Counter()
    """The rows of each table."""
    groups: int = 0
    figures: Figures = Figures()
    worst: list[Section] = []
    findings: Findings = Findings()
    unread_events: int = 0
    """Rejected lines that are events of a group."""
    versions: list[VersionSum] = []
    step_sums: dict[int, StepSum] = {}
    """By the number of the step, up to KEPT_MAX."""
    closed: Closed = Field(default_factory=Closed)
    """Of the group that is being added."""

    def add(self, key: Key | None, tables: Tables, *, is_last: bool = True) -> None:
        """Add rows of a group; or rows that belong to none. The last rows of a group, which come
        before those of another one, include all but commits and wrong starts."""
        self.rows.update({name: len(getattr(tables, name)) for name in ALL_ROWS})
        self._add_findings(tables)
        if not is_last:
            self.closed.add(tables)
            return
        closed, self.closed = self.closed, Closed()
        counts = member_counts(tables.timeline)
        its_steps = steps(
            tables.changes, tables.migrations, tables.ownership, tables.rebalances, counts
        )
        its_figures = figures(tables, counts, its_steps)
        its_figures.merge(closed.figures)
        self.figures.merge(its_figures)
        self._add_versions(tables.readiness)
        for step in its_steps:
            if step.number <= KEPT_MAX:
                cost_ms = step.unowned_ms
                its_sum = StepSum(steps=1, unowned_ms=cost_ms, unowned_ms_most=cost_ms)
                self._add_step(step.number, its_sum)
        if key is not None and (closed.is_told or _is_told(tables)):
            self.groups += 1
            if len(self.worst) < self.top or _rank(key, its_figures) < _rank_of(self.worst[-1]):
                add_commits(closed.committed, tables.offsets)
                self.worst.append(
                    section(
                        key,
                        tables,
                        its_figures,
                        counts,
                        its_steps,
                        closed_times_ms=closed.finding_times_ms,
                        committed=closed.committed,
                    )
                )
                self._cut()

    def merge(self, other: "Digest") -> None:
        """Add a digest of other groups."""
        self.rows.update(other.rows)
        self.groups += other.groups
        self.figures.merge(other.figures)
        self.unread_events += other.unread_events
        for name, kind in KINDS.items():
            getattr(self.findings, name).merge(kind, getattr(other.findings, name))
        for each in other.versions:
            if (version := self._version(each.software_name, each.software_version)) is not None:
                version.merge(each)
        for number, step in other.step_sums.items():
            self._add_step(number, step)
        self.worst += other.worst
        self._cut()

    def cut(self) -> None:
        """Keep no more rows than the limits allow."""
        for name, kind in KINDS.items():
            getattr(self.findings, name).cut(kind)

    def step_costs(self) -> tuple[tuple[StepCost, ...], int]:
        """The costs by step number, and how many numbers are left out."""
        costs = tuple(
            StepCost(
                number=number,
                steps=step.steps,
                unowned_partition_s=step.unowned_ms / 1000,
                unowned_partition_s_most=step.unowned_ms_most / 1000,
            )
            for number, step in sorted(self.step_sums.items())[:COSTS_MAX]
        )
        return costs, len(self.step_sums) - len(costs)

    def _add_findings(self, tables: Tables) -> None:
        went_back = [row for row in tables.offsets if row.finding is not None]  # few of many
        for name, kind in KINDS.items():
            rows = went_back if kind.table == "offsets" else getattr(tables, kind.table)
            if rows:
                getattr(self.findings, name).add(kind, filter(kind.is_one, rows))
        self.unread_events += sum(row.is_unread for row in tables.rejected)

    def _add_versions(self, rows: Iterable[ReadinessRow]) -> None:
        by_version: dict[tuple[str | None, str | None], list[ReadinessRow]] = {}
        for row in rows:
            by_version.setdefault((row.software_name, row.software_version), []).append(row)
        for (name, number), some in by_version.items():
            if (version := self._version(name, number)) is not None:
                version.add(some)

    def _version(self, name: str | None, number: str | None) -> VersionSum | None:
        """The sum of a version; None if there are too many."""
        for version in self.versions:
            if (version.software_name, version.software_version) == (name, number):
                return version
        if len(self.versions) >= KEPT_MAX:
            return None
        self.versions.append(VersionSum(software_name=name, software_version=number))
        return self.versions[-1]

    def _add_step(self, number: int, more: StepSum) -> None:
        step = self.step_sums.setdefault(number, StepSum())
        step.steps += more.steps
        step.unowned_ms += more.unowned_ms
        step.unowned_ms_most = max(step.unowned_ms_most, more.unowned_ms_most)

    def _cut(self) -> None:
        self.worst = nsmallest(self.top, self.worst, key=_rank_of)


def _is_told(tables: Tables) -> bool:
    """Whether anything is known of the group."""
    return any((tables.timeline, tables.ownership, tables.offsets, tables.wrong_starts)) or any(
        (tables.sequences, tables.contradictions, tables.differences)
    )


def _rank_of(kept: Section) -> tuple[int, int, int, str, str]:
    return _rank(kept.key, kept.figures)


def _rank(key: Key, figures: Figures) -> tuple[int, int, int, str, str]:
    """The worst comes first: by findings, then by unowned time."""
    sums = figures.sums
    return -figures.findings, -sums["unowned_ms"], -sums["rebalances"], *key


Drawn = Mapping[Key, tuple[OwnershipMap, tuple[MemberName, ...]]]
"""The ownership maps, with the names of their members."""


def report(digest: Digest, drawn: Drawn, provenance: Provenance | None = None) -> Report:
    """The report on everything that the digest sums up. `drawn` has the maps of its worst groups
    whose partitions had owners."""
    end_ms = digest.figures.to_ms or 0
    step_costs, step_costs_left_out = digest.step_costs()
    versions, versions_left_out = clients(digest.versions)
    nothing: tuple[None, tuple[MemberName, ...]] = (None, ())
    return Report(
        totals=_totals(digest),
        provenance=provenance,
        groups=tuple(
            story(each, *drawn.get(each.key, nothing), end_ms=end_ms, groups=len(digest.worst))
            for each in digest.worst
        ),
        step_costs=step_costs,
        step_costs_left_out=step_costs_left_out,
        clients=versions,
        clients_left_out=versions_left_out,
        evidence={
            key: evidence(kind, getattr(digest.findings, key)) for key, kind in KINDS.items()
        },
    )


def _totals(digest: Digest) -> Totals:
    figures = digest.figures
    return Totals(
        from_ms=figures.from_ms,
        to_ms=figures.to_ms,
        groups=digest.groups,
        **{name: count for name, count in figures.sums.items() if name in Totals.model_fields},
        rejected_lines=digest.findings.rejected_lines.count,
        unread_events=digest.unread_events,
        unowned_partition_s=figures.sums["unowned_ms"] / 1000,
        unowned_in_migrations_partition_s=figures.unowned_in_migrations_ms / 1000,
    )
