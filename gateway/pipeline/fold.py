"""Folds the lines of one group, or of one process, into the rows of all tables. Needs no Spark."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline.history import Numbered, clusters, history
from gateway.pipeline.parsing import Line, content_of, parse
from gateway.pipeline.tables.changes import ChangeRow, changes
from gateway.pipeline.tables.contradictions import ContradictionRow, contradictions
from gateway.pipeline.tables.differences import DifferenceRow, differences
from gateway.pipeline.tables.migrations import MigrationRow, migrations
from gateway.pipeline.tables.offset_history import offset_history
from gateway.pipeline.tables.offsets import OffsetRow
from gateway.pipeline.tables.ownership import OwnershipRow, ownership
from gateway.pipeline.tables.readiness import ReadinessRow, readiness
from gateway.pipeline.tables.rebalances import RebalanceRow, rebalances
from gateway.pipeline.tables.rejected import RejectedRow, rejected
from gateway.pipeline.tables.sequences import (
    Number,
    SequenceKey,
    SequenceRow,
    key_of,
    number_of,
    sequences,
)
from gateway.pipeline.tables.stated import claims
from gateway.pipeline.tables.timeline import TimelineRow, timeline
from gateway.pipeline.tables.wrong_starts import WrongStartRow

Key: TypeAlias = tuple[str, str]
"""Cluster id and group id."""


class SourceLine(NamedTuple):
    """A line with its place in the input."""

    file: str
    place: str
    text: str


@dataclass(slots=True, kw_only=True)
class Tables:
    """Rows of all tables; the fields are the tables' names."""

    changes: list[ChangeRow] = field(default_factory=list)
    ownership: list[OwnershipRow] = field(default_factory=list)
    differences: list[DifferenceRow] = field(default_factory=list)
    offsets: list[OffsetRow] = field(default_factory=list)
    wrong_starts: list[WrongStartRow] = field(default_factory=list)
    timeline: list[TimelineRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    migrations: list[MigrationRow] = field(default_factory=list)
    readiness: list[ReadinessRow] = field(default_factory=list)
    sequences: list[SequenceRow] = field(default_factory=list)
    contradictions: list[ContradictionRow] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)


def fold_lines(lines: Iterable[SourceLine]) -> Iterator[tuple[Key | None, Tables]]:
    """The tables of each group in these lines; without a key those of a process, or of rejected
    lines. Keeps all events in memory."""
    bad = Tables()
    groups: dict[str, list[Numbered]] = {}
    processes: dict[SequenceKey, list[Number]] = {}
    started: list[tuple[Line, GatewayStarted]] = []
    for file, place, text in lines:
        line, problem = parse(text)
        if problem is not None:
            bad.rejected.append(rejected(file, place, text, line, problem))
        if line is None:
            continue
        each = Numbered(line, content_of(text))
        if line.group_id is not None:
            groups.setdefault(line.group_id, []).append(each)
        if line.is_beside:
            processes.setdefault(key_of(each), []).append(number_of(each))
        if isinstance(line.fields, GatewayStarted):
            started.append((line, line.fields))
    yield None, bad
    cluster_of = clusters(started)
    while groups:
        yield from fold_name(*groups.popitem(), cluster_of)
    for key, numbers in processes.items():
        yield None, fold_process(cluster_of.get(key.gateway_id, ""), key, numbers)


def fold_name(
    group_id: str, lines: Iterable[Numbered], cluster_of: Mapping[str, str]
) -> Iterator[tuple[Key, Tables]]:
    """The tables of the groups with this id, each in its own cluster."""
    in_clusters: dict[str, list[Numbered]] = {}
    for each in lines:
        in_clusters.setdefault(cluster_of.get(each.line.gateway_id, ""), []).append(each)
    for cluster_id, some in in_clusters.items():
        yield (cluster_id, group_id), fold_group(cluster_id, group_id, some)


def fold_group(cluster_id: str, group_id: str, lines: Iterable[Numbered]) -> Tables:
    """All rows of a group, from its lines in any order."""
    lines = list(lines)
    told = history(cluster_id, group_id, lines)
    its_changes = changes(told)
    its_claims = claims(told)
    commits, starts = offset_history(told)
    owned = ownership(told, its_changes, its_claims)
    rounds = rebalances(told, its_changes)
    made = Tables(
        changes=its_changes,
        ownership=owned,
        differences=differences(told, owned, its_claims),
        offsets=commits,
        wrong_starts=starts,
        timeline=timeline(told, its_changes),
        rebalances=rounds,
        migrations=migrations(told, its_changes, owned, rounds),
        readiness=readiness(told),
    )
    reached = _reached(lines)
    for key, numbers in _numbers(lines).items():
        at = (key.gateway_id, key.began_ms)
        made.sequences += sequences(cluster_id, key, numbers, reached.get(at, ()))
        made.contradictions += contradictions(cluster_id, key, numbers)
    return made


def fold_process(cluster_id: str, key: SequenceKey, numbers: Iterable[Number]) -> Tables:
    """All rows of a process's sequence."""
    in_order = sorted(numbers)
    return Tables(
        sequences=list(sequences(cluster_id, key, in_order)),
        contradictions=list(contradictions(cluster_id, key, in_order)),
    )


def _numbers(lines: Iterable[Numbered]) -> Mapping[SequenceKey, list[Number]]:
    """The sorted numbers of the group's sequences: it may have several, one after another."""
    found: dict[SequenceKey, list[Number]] = {}
    for each in lines:
        if not each.line.is_beside:
            found.setdefault(key_of(each), []).append(number_of(each))
    for numbers in found.values():
        numbers.sort()
    return found


def _reached(lines: Iterable[Numbered]) -> Mapping[tuple[str, int | None], list[tuple[int, int]]]:
    """The numbers that each sequence had reached, according to events beside it."""
    found: dict[tuple[str, int | None], list[tuple[int, int]]] = {}
    for each in lines:
        line = each.line
        if line.is_beside and line.after is not None:
            at = (line.gateway_id, line.began_ms)
            found.setdefault(at, []).append((line.after, line.at_ms))
    return found
