"""Folds the lines of one group, or of one process, into the rows of all tables. Needs no Spark."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pydantic import TypeAdapter

from gateway.events.gateway_events import GatewayStarted
from gateway.events.member_events import PartitionsStated
from gateway.events.offset_events import OffsetsCommitted, OffsetsDeleted, OffsetsFetched
from gateway.pipeline.history import History, Numbered, Order, Told, clusters
from gateway.pipeline.json_pairs import Pairs
from gateway.pipeline.parsing import Line, content_of, parse
from gateway.pipeline.tables.catalog import Tables
from gateway.pipeline.tables.changes import changes
from gateway.pipeline.tables.contradictions import contradictions
from gateway.pipeline.tables.differences import differences
from gateway.pipeline.tables.migrations import migrations
from gateway.pipeline.tables.offset_history import OffsetFold
from gateway.pipeline.tables.ownership import ownership
from gateway.pipeline.tables.readiness import readiness
from gateway.pipeline.tables.rebalances import rebalances
from gateway.pipeline.tables.rejected import rejected
from gateway.pipeline.tables.sequences import (
    Number,
    SequenceKey,
    key_of,
    number_of,
    sequences,
)
from gateway.pipeline.tables.stated import ClaimFold
from gateway.pipeline.tables.timeline import timeline

Key: TypeAlias = tuple[str, str]
"""Cluster id and group id."""


class SourceLine(NamedTuple):
    """A line with its place in the input."""

    file: str
    place: str
    text: str


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


@dataclass(slots=True)
class GroupFold:
    """The fold of one group. It may stop and go on between any two lines, as JSON in between."""

    cluster_id: str
    group_id: str
    offsets: OffsetFold
    claims: ClaimFold = field(default_factory=ClaimFold)
    order: Order = field(default_factory=Order)
    told: list[Told] = field(default_factory=list)
    """The events about the group, its members and their partitions. Later ones decide what they
    mean, so their rows are made at the end."""
    seen_ms: dict[str, int] = field(default_factory=dict)
    """When each member first spoke of partitions."""
    numbers: Pairs[SequenceKey, list[Number]] = field(default_factory=dict)
    """Of the group's sequences: it may have several, one after another."""
    reached_ms: Pairs[tuple[str, int | None], dict[int, int]] = field(default_factory=dict)
    """The numbers that each sequence had reached according to events beside it, and when at the
    latest."""

    def take(self, lines: Iterable[Numbered]) -> Tables:
        """Take the next lines, in any order, and return the rows that no later line changes. The
        state does not grow with commits. Raises LateLineError if a line belongs before those taken
        earlier: then fold all of them anew."""
        lines = list(lines)
        for each in lines:
            self._count(each)
        made = Tables()
        for number, told in enumerate(self.order.take(lines), 1):
            event = told.event
            if isinstance(event, OffsetsCommitted | PartitionsStated):
                self.seen_ms.setdefault(event.member_id, told.at_ms)
            if not isinstance(event, _SUMMED_UP):
                self.told.append(told)
            self.offsets.take(told)
            self.claims.take(told)
            if number % CLOSED_EVERY == 0:
                self._close(made, told.at_ms)
        if self.order.before_ms is not None:
            self._close(made, self.order.before_ms)
        return made

    def finish(self) -> Tables:
        """All other rows, as if nothing followed. Only a copy of the state can go on then."""
        forced, cluster_id = self.order.forced, self.cluster_id
        told = History(cluster_id, self.group_id, self.told, forced, self.seen_ms)
        its_changes = changes(told)
        its_claims = self.claims.finish()
        commits, starts = self.offsets.finish()
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
        for key, numbers in self.numbers.items():
            reached_ms = self.reached_ms.get((key.gateway_id, key.began_ms), {})
            in_order = sorted(numbers)
            made.sequences += sequences(cluster_id, key, in_order, reached_ms.items())
            made.contradictions += contradictions(cluster_id, key, in_order)
        return made

    def _count(self, each: Numbered) -> None:
        line = each.line
        if not line.is_beside:
            self.numbers.setdefault(key_of(each), []).append(number_of(each))
        elif line.after is not None:
            at = line.gateway_id, line.began_ms
            reached_ms = self.reached_ms.setdefault(at, {})
            reached_ms[line.after] = min(reached_ms.get(line.after, line.at_ms), line.at_ms)

    def _close(self, made: Tables, now_ms: int) -> None:
        commits, starts = self.offsets.close(now_ms)
        made.offsets += commits
        made.wrong_starts += starts


CLOSED_EVERY = 4_096
"""Events between two times at which rows are closed."""
_SUMMED_UP = (OffsetsCommitted, OffsetsFetched, OffsetsDeleted, PartitionsStated)
STATES: TypeAdapter[GroupFold] = TypeAdapter(GroupFold)
"""States of folds in JSON."""


def begin(cluster_id: str, group_id: str) -> GroupFold:
    """The fold of a group without any lines yet."""
    return GroupFold(cluster_id, group_id, OffsetFold(cluster_id, group_id))


def fold_group(cluster_id: str, group_id: str, lines: Iterable[Numbered]) -> Tables:
    """All rows of a group, from its lines in any order."""
    fold = begin(cluster_id, group_id)
    closed = fold.take(lines)
    made = fold.finish()
    made.offsets[:0] = closed.offsets
    made.wrong_starts[:0] = closed.wrong_starts
    return made


def fold_process(cluster_id: str, key: SequenceKey, numbers: Iterable[Number]) -> Tables:
    """All rows of a process's sequence."""
    in_order = sorted(numbers)
    return Tables(
        sequences=list(sequences(cluster_id, key, in_order)),
        contradictions=list(contradictions(cluster_id, key, in_order)),
    )
