"""Folds the lines of one group, or of one process, into the rows of all tables.

`Tables` lists the tables; `GroupFold.finish` makes their rows. Nothing here needs Spark.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter

from gateway.events.gateway_events import GatewayStarted
from gateway.events.member_events import PartitionsStated
from gateway.events.offset_events import (
    NO_MEMBER,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from gateway.pipeline.fold import offsets, stated
from gateway.pipeline.fold.changes import ChangeRow, changes
from gateway.pipeline.fold.history import (
    TURNS,
    History,
    LateLineError,
    Order,
    Pairs,
    Told,
    Words,
    clusters,
)
from gateway.pipeline.fold.lines import Line, RejectedRow, parse, rejected
from gateway.pipeline.fold.migrations import (
    MigrationRow,
    WorseStepRow,
    migrations,
    worse_steps,
)
from gateway.pipeline.fold.offsets import OffsetFold, OffsetRow, WrongStartRow
from gateway.pipeline.fold.ownership import DifferenceRow, OwnershipRow, differences, ownership
from gateway.pipeline.fold.readiness import ReadinessRow, readiness
from gateway.pipeline.fold.rebalances import RebalanceRow, rebalances, revocations
from gateway.pipeline.fold.row import BaseRow
from gateway.pipeline.fold.sequences import (
    PROCESS_STATES,
    ContradictionRow,
    Number,
    ProcessFold,
    SequenceKey,
    SequenceRow,
    contradictions,
    key_of,
    number_of,
    sequences,
)
from gateway.pipeline.fold.stated import ClaimFold
from gateway.pipeline.fold.timeline import TimelineRow, timeline


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
    worse_steps: list[WorseStepRow] = field(default_factory=list)
    readiness: list[ReadinessRow] = field(default_factory=list)
    sequences: list[SequenceRow] = field(default_factory=list)
    contradictions: list[ContradictionRow] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)


ALL_ROWS: Mapping[str, type[BaseRow]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
"""The row models of all tables."""


Key: TypeAlias = tuple[str, str]
"""Cluster id and group id."""


class Part(NamedTuple):
    """Rows of a group or, without a key, of a process or of rejected lines."""

    key: Key | None
    tables: Tables
    is_last: bool = True
    """Whether these are the last rows of the group. Only they include rows that later events may
    change."""
    state: str | None = None
    """With the last rows: the state in which the fold can go on. Null if nobody wants it."""


class SourceLine(NamedTuple):
    """A line with its place in the input."""

    file: str
    place: str
    text: str


def fold_lines(lines: Iterable[SourceLine]) -> Iterator[Part]:
    """All rows of these lines. Keeps all events in memory."""
    bad = Tables()
    groups: dict[str, list[Line]] = {}
    processes: dict[SequenceKey, list[Number]] = {}
    started: list[tuple[Line, GatewayStarted]] = []
    for file, place, text in lines:
        line, problem = parse(text)
        if problem is not None:
            bad.rejected.append(rejected(file, place, text, line, problem))
        if line is None:
            continue
        if line.group_id is not None:
            groups.setdefault(line.group_id, []).append(line)
        if line.process_id is not None:
            processes.setdefault(key_of(line), []).append(number_of(line))
        if isinstance(line.fields, GatewayStarted):
            started.append((line, line.fields))
    yield Part(None, bad)
    cluster_of = clusters(started)
    while groups:
        group_id, some = groups.popitem()
        yield from fold_name(group_id, [some], cluster_of)
    for key, numbers in processes.items():
        yield fold_process(cluster_of.get(key.gateway_id, ""), key, sorted(numbers))


def fold_name(
    group_id: str,
    pieces: Collection[Sequence[Line]],
    cluster_of: Mapping[str, str],
    *,
    keeps_state: bool = False,
) -> Iterator[Part]:
    """The rows of the groups with this id, each in its own cluster. `pieces` have all lines, are
    read several times, and are held one at a time if the lines come in their order."""
    for cluster_id, its in _divided(pieces, cluster_of).items():
        fold = begin(cluster_id, group_id)
        for some in its:
            yield Part(fold.key, fold.take(some), is_last=False)
        yield _last(fold, keeps_state=keeps_state)


def go_on(
    group_id: str,
    folds: Iterable["GroupFold"],
    lines: Iterable[Line],
    cluster_of: Mapping[str, str],
) -> Iterator[Part]:
    """The rows of the groups with this id, whose folds had stopped, from these lines on. Raises
    LateLineError before the first one, also if a gateway turns out to be in another cluster."""
    its_folds = {fold.cluster_id: fold for fold in folds}
    for fold in its_folds.values():
        if any(cluster_of.get(each, "") != fold.cluster_id for each in fold.order.logs):
            raise LateLineError
    closed: list[Part] = []
    for cluster_id, some in _of_clusters(lines, cluster_of).items():
        fold = its_folds.setdefault(cluster_id, begin(cluster_id, group_id))
        closed.append(Part(fold.key, fold.take(some), is_last=False))
    yield from closed
    for fold in its_folds.values():
        yield _last(fold, keeps_state=True)


def _last(fold: "GroupFold", *, keeps_state: bool) -> Part:
    state = STATES.dump_json(fold).decode() if keeps_state else None
    return Part(fold.key, fold.finish(), state=state)


def _divided(
    pieces: Collection[Sequence[Line]], cluster_of: Mapping[str, str]
) -> Mapping[str, Iterable[Sequence[Line]]]:
    """The pieces of each cluster. They become one if a fold may not take them one after another."""
    if len(pieces) == 1:
        (some,) = pieces
        return {key: [its] for key, its in _of_clusters(some, cluster_of).items()}
    are_in_order: dict[str, bool] = {}
    orders: dict[str, Order] = {}
    for some in pieces:
        for cluster_id, its in _of_clusters(some, cluster_of).items():
            if are_in_order.setdefault(cluster_id, True):
                order = orders.setdefault(cluster_id, Order())
                try:
                    deque(order.take(its), maxlen=0)
                except LateLineError:
                    are_in_order[cluster_id] = False

    def of(cluster_id: str) -> Iterator[Sequence[Line]]:
        return (_of_clusters(some, cluster_of).get(cluster_id, []) for some in pieces)

    return {
        cluster_id: of(cluster_id) if is_in_order else [list(chain.from_iterable(of(cluster_id)))]
        for cluster_id, is_in_order in are_in_order.items()
    }


def _of_clusters(lines: Iterable[Line], cluster_of: Mapping[str, str]) -> Mapping[str, list[Line]]:
    of_gateways: dict[str, list[Line]] = {}
    for line in lines:
        of_gateways.setdefault(line.gateway_id, []).append(line)
    found: dict[str, list[Line]] = {}
    for gateway_id, some in of_gateways.items():
        found.setdefault(cluster_of.get(gateway_id, ""), []).extend(some)
    return found


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
    words: list[dict[str, Words]] = field(default_factory=lambda: [{}])
    """See `History.words`."""
    turned_ms: int = -1
    """When the latest of these times began."""
    numbers: Pairs[SequenceKey, list[Number]] = field(default_factory=dict)
    """Of the group's sequences: it may have several, one after another."""
    reached_ms: Pairs[tuple[str, int | None], dict[int, int]] = field(default_factory=dict)
    """The numbers that each sequence had reached according to events beside it, and when at the
    latest."""

    @property
    def key(self) -> Key:
        """The group."""
        return self.cluster_id, self.group_id

    def take(self, lines: Iterable[Line]) -> Tables:
        """Take the next lines, in any order, and return the rows that no later line changes. The
        state does not grow with commits. Raises LateLineError if a line belongs before those taken
        earlier: then fold all of them again."""
        lines = list(lines)
        self._count(lines)
        made = Tables()
        for number, told in enumerate(self.order.take(lines), 1):
            kind = type(told.event)
            if kind not in _SUMMED_UP:
                self.told.append(told)
                if kind in TURNS:
                    self.words.append({})
                    self.turned_ms = told.at_ms
            else:
                self._hear(told)
            if kind in offsets.KINDS:
                self.offsets.take(told)
            if kind in stated.KINDS:
                self.claims.take(told)
            if number % CLOSED_EVERY == 0:
                self._close(made, told.at_ms)
        if self.order.before_ms is not None:
            self._close(made, self.order.before_ms)
        return made

    def finish(self) -> Tables:
        """All other rows, as if nothing followed. Only a copy of the state can go on then."""
        forced, cluster_id = self.order.forced(), self.cluster_id
        told = History(cluster_id, self.group_id, self.told, forced, self.words)
        its_changes = changes(told)
        its_claims = self.claims.finish()
        commits, starts = self.offsets.finish(told.is_open)
        owned = ownership(told, its_changes, its_claims)
        revoked = revocations(its_changes)
        rounds = rebalances(told, its_changes, revoked)
        made = Tables(
            changes=its_changes,
            ownership=owned,
            differences=differences(told, owned, its_claims),
            offsets=commits,
            wrong_starts=starts,
            timeline=timeline(told, its_changes, revoked),
            rebalances=rounds,
            migrations=migrations(told, its_changes, owned, rounds),
            worse_steps=list(worse_steps(told)),
            readiness=readiness(told, its_changes),
        )
        for key, numbers in self.numbers.items():
            reached_ms = self.reached_ms.get((key.gateway_id, key.began_ms), {})
            in_order = sorted(numbers)
            made.sequences += sequences(cluster_id, key, in_order, reached_ms.items())
            made.contradictions += contradictions(cluster_id, key, in_order)
        return made

    def _hear(self, told: Told) -> None:
        """Note who speaks. A commit that was stored before a turn may be told after it."""
        match told.event:
            case OffsetsCommitted(member_id=member_id, to_ms=said_ms):
                pass
            case PartitionsStated(member_id=member_id):
                said_ms = told.at_ms
            case _:
                return
        words = self.words[-1 if said_ms >= self.turned_ms else -2]
        if (its := words.get(member_id)) is not None:
            its.last = told.position
        elif member_id != NO_MEMBER:
            words[member_id] = Words(told.position, told.at_ms, told.position)

    def _count(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if line.process_id is None:
                self.numbers.setdefault(key_of(line), []).append(number_of(line))
            elif line.after is not None:
                at = line.gateway_id, line.began_ms
                reached_ms = self.reached_ms.setdefault(at, {})
                first_ms = reached_ms.get(line.after)
                if first_ms is None or line.at_ms < first_ms:
                    reached_ms[line.after] = line.at_ms

    def _close(self, made: Tables, now_ms: int) -> None:
        commits, starts = self.offsets.close(now_ms)
        made.offsets += commits
        made.wrong_starts += starts


CLOSED_EVERY = 4_096
"""Events between two times at which rows are closed."""
_SUMMED_UP = frozenset((OffsetsCommitted, OffsetsFetched, OffsetsDeleted, PartitionsStated))
STATES: TypeAdapter[GroupFold] = TypeAdapter(GroupFold)
"""States of groups in JSON."""


def begin(cluster_id: str, group_id: str) -> GroupFold:
    """The fold of a group without any lines yet."""
    return GroupFold(cluster_id, group_id, OffsetFold(cluster_id, group_id))


def fold_process(
    cluster_id: str,
    key: SequenceKey,
    numbers: Iterable[Number],
    fold: ProcessFold | None = None,
) -> Part:
    """All rows of a process's sequence. The numbers are sorted, and follow those of `fold`. Raises
    LateLineError."""
    fold = ProcessFold() if fold is None else fold
    fold.take(key, numbers)
    state = PROCESS_STATES.dump_json(fold).decode()
    gaps, found = fold.finish(cluster_id, key)
    return Part(None, Tables(sequences=gaps, contradictions=found), state=state)


T = TypeVar("T")


def pieces_of(items: Iterable[T], key: Callable[[T], Any]) -> Iterator[list[T]]:
    """Lists of at least PIECE_MIN items but the last; those with the same key are in one list."""
    piece: list[T] = []
    for _key, some in groupby(items, key=key):
        piece += some
        if len(piece) >= PIECE_MIN:
            yield piece
            piece = []
    if piece:
        yield piece


PIECE_MIN = 4_096
"""The length of the pieces in which long histories are folded."""
