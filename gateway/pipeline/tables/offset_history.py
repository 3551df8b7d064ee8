"""Follows the owners and offsets of each partition, and judges its commits and fetches.

A commit is placed where the last commit of its event was stored. The event is told some seconds
later, possibly by a gateway that has given up the group meanwhile.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from gateway.events.group_events import GroupDeleted, GroupForwarded, TopicsGone
from gateway.events.member_events import PartitionsAssigned, PartitionsReleased
from gateway.events.offset_events import (
    NO_MEMBER,
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from gateway.pipeline.history import History, Told
from gateway.pipeline.tables.granted import TopicPartition
from gateway.pipeline.tables.offsets import Finding, OffsetRow
from gateway.pipeline.tables.wrong_starts import WrongStartRow

GONE_TOLD_MS_MAX = 30_000
"""How long after a topic was recreated and consumed a gateway may report that it is gone."""
IN_FLIGHT_MS_MAX = 1_000
"""How long a commit may be on its way to the cluster and back. Whether its member may commit was
decided at the beginning, and the event has the time of the end."""

_At: TypeAlias = tuple[int, int]
"""A place in time: milliseconds and position."""


class _Step(NamedTuple):
    """An event of one partition. Sorts by its place."""

    at: _At
    told: Told
    span_ms: tuple[int, int]
    """Of a commit."""
    detail: CommittedOffsets | FetchedOffset | None


class _Stored(NamedTuple):
    """The latest commit without a transaction, or a deletion."""

    at: _At
    offset: int | None
    """Null if it was deleted."""
    told: Told
    is_foreign: bool
    """Whether somebody other than the owner committed it."""


def offset_history(history: History) -> tuple[list[OffsetRow], list[WrongStartRow]]:
    """See `OffsetRow` and `WrongStartRow`."""
    ends = list(_ends(history.of(TopicsGone, GroupDeleted, GroupForwarded)))
    commits: list[OffsetRow] = []
    starts: list[WrongStartRow] = []
    for partition, steps in _steps(history).items():
        steps.sort(key=itemgetter(0))
        followed = _Partition(history, partition, ends)
        for number, step in enumerate(steps):
            match step.told.event:
                case OffsetsCommitted() as event:
                    commits.append(followed.committed(step, event))
                case OffsetsFetched() as event:
                    behind = islice(steps, number + 1, None)
                    starts += followed.fetched(step, event, behind)
                case _:
                    followed.moved(step)
    return commits, starts


def _steps(history: History) -> Mapping[TopicPartition, list[_Step]]:
    found: dict[TopicPartition, list[_Step]] = {}
    kinds = (PartitionsAssigned, PartitionsReleased)
    kinds_of_offsets = (OffsetsCommitted, OffsetsFetched, OffsetsDeleted)
    for told in history.of(*kinds, *kinds_of_offsets):
        at = told.at_ms, told.position
        span_ms = told.at_ms, told.at_ms
        details: Mapping[str, Iterable[CommittedOffsets | FetchedOffset]]
        match told.event:
            case OffsetsCommitted() as event:
                span_ms = told.span_ms(event)
                at = min(told.at_ms, span_ms[1]), told.position
                details = event.offsets
            case OffsetsFetched() as event:
                details = event.starts
            case PartitionsAssigned() | PartitionsReleased() | OffsetsDeleted() as event:
                for topic, numbers in event.partitions.items():
                    for number in numbers:
                        found.setdefault((topic, number), []).append(_Step(at, told, span_ms, None))
                continue
            case _:
                continue
        for topic, some in details.items():
            for detail in some:
                step = _Step(at, told, span_ms, detail)
                key = topic, detail.partition
                if key in found:
                    found[key].append(step)
                else:
                    found[key] = [step]
    return found


class _End(NamedTuple):
    """A topic, or everything, starts over."""

    at: _At
    topics: Sequence[str] | None
    """Null if it concerns the whole group."""


def _ends(told: Iterable[Told]) -> Iterator[_End]:
    for each in told:
        at = (each.at_ms, each.position)
        match each.event:
            case TopicsGone(topics=topics):
                yield _End(at, topics)
            case GroupDeleted() | GroupForwarded():
                yield _End(at, None)
            case _:
                pass


class _Partition:
    """One partition. Its methods take the steps in their order."""

    def __init__(self, history: History, partition: TopicPartition, ends: Sequence[_End]) -> None:
        self._history = history
        self._topic, self._number = partition
        of_topic = [end for end in ends if end.topics is None or self._topic in end.topics]
        self._ends = [end.at for end in of_topic]
        self._gone = [end.at for end in of_topic if end.topics is not None]
        self._life = 0
        """How often it has started over: because its topic was recreated, or its group was deleted
        or forwarded."""
        self._begin()

    def _begin(self) -> None:
        self._is_owner_known = False
        self._owner_id: str | None = None
        """Null if there is none, or it is unknown."""
        self._granted_to: str | None = None
        self._granted_at: _At | None = None
        """The latest grant, to anybody."""
        self._stored: _Stored | None = None
        self._before: int | None = None
        """The offset in force, as last committed or fetched."""
        self._in_transaction_at: _At | None = None
        """The latest transactional commit."""
        self._begins(None)

    def _begins(self, at: _At | None) -> None:
        """What is known of the latest owner since it got the partition."""
        self._began = at
        self._found = self._stored.offset if self._stored else None
        """The offset that was stored then."""
        self._is_told = self._has_acted = False
        """Whether it was told an offset before it committed; whether it fetched or committed."""
        self._start: int | None = None
        """What it was told."""
        self._own: int | None = None
        """Its latest commit without a transaction."""

    def moved(self, step: _Step) -> None:
        """The partition was granted or released, or its offset was deleted."""
        self._live_at(step.at)
        match step.told.event:
            case PartitionsAssigned(member_id=member_id):
                if self._owner_id != member_id:
                    self._begins(step.at)
                self._is_owner_known, self._owner_id = True, member_id
                self._granted_to, self._granted_at = member_id, step.at
            case PartitionsReleased(member_id=member_id):
                if self._granted_to in (None, member_id):
                    self._is_owner_known, self._owner_id = True, None
            case OffsetsDeleted():
                self._stored = _Stored(step.at, None, step.told, is_foreign=True)
                self._before = None
            case _:
                pass

    def fetched(
        self, step: _Step, event: OffsetsFetched, later: Iterable[_Step]
    ) -> Iterator[WrongStartRow]:
        """An answer to a fetch."""
        self._live_at(step.at)
        assert isinstance(step.detail, FetchedOffset)
        told = step.detail.offset if step.detail.offset >= 0 else None
        # An owner may fetch without a member id.
        is_owner = self._owner_id is not None and event.member_id in (self._owner_id, NO_MEMBER)
        is_start = is_owner and not self._has_acted
        if is_owner:
            yield from self._wrong_start(step, event, told, later, is_start=is_start)
            self._has_acted = True
        if is_start:
            self._is_told, self._start = True, told
        self._before = told

    def _wrong_start(
        self,
        step: _Step,
        event: OffsetsFetched,
        told: int | None,
        later: Iterable[_Step],
        *,
        is_start: bool,
    ) -> Iterator[WrongStartRow]:
        stored = self._stored
        if stored is None or stored.offset is None or stored.offset == told:
            return
        was_stored = self._granted_at is not None and stored.at < self._granted_at
        is_behind_transaction = (
            self._in_transaction_at is not None and self._in_transaction_at > stored.at
        )
        if not (event.member_id or was_stored) or is_behind_transaction or self._is_gone_soon(step):
            return
        is_lost = told is None or told < stored.offset
        if is_lost or (is_start and was_stored and _is_skip(step, told or 0, stored, later)):
            yield WrongStartRow(
                cluster_id=self._history.cluster_id,
                group_id=self._history.group_id,
                topic=self._topic,
                partition=self._number,
                finding="lost" if is_lost else "skipped",
                member_id=event.member_id,
                owner_id=self._owner_id or "",
                stored=stored.offset,
                stored_ms=stored.at[0],
                told=told,
                at_ms=step.at[0],
                gateway_id=step.told.gateway_id,
                process_id=step.told.process_id,
                sequence=step.told.sequence,
            )

    def committed(self, step: _Step, event: OffsetsCommitted) -> OffsetRow:
        """The row of a commit."""
        self._live_at(step.at)
        committed, told = step.detail, step.told
        assert isinstance(committed, CommittedOffsets)
        is_transactional, owner_id = event.is_transactional, self._owner_id
        # A commit in a transaction may omit the member id.
        is_unsaid = is_transactional and event.member_id == NO_MEMBER
        is_owner = owner_id is not None and (is_unsaid or event.member_id == owner_id)
        if is_transactional:
            self._in_transaction_at = step.at
        started_at = (self._start if self._is_told else self._found) if is_owner else None
        row = OffsetRow(
            cluster_id=self._history.cluster_id,
            group_id=self._history.group_id,
            topic=self._topic,
            partition=self._number,
            member_id=event.member_id,
            owner_id=owner_id,
            is_transactional=is_transactional,
            commits=committed.commits,
            first=committed.first,
            lowest=committed.lowest,
            last=committed.last,
            from_ms=step.span_ms[0],
            to_ms=step.span_ms[1],
            before=self._before,
            started_at=started_at,
            finding=self._finding(step, event, committed, started_at, is_owner=is_owner),
            gateway_id=told.gateway_id,
            process_id=told.process_id,
            sequence=told.sequence,
        )
        if not is_transactional:
            is_foreign = owner_id is not None and not is_owner
            self._before = committed.last
            self._stored = _Stored(step.at, committed.last, told, is_foreign)
            if is_owner:
                self._own = committed.last
        if is_owner:
            self._has_acted = True
        return row

    def _finding(
        self,
        step: _Step,
        event: OffsetsCommitted,
        committed: CommittedOffsets,
        started_at: int | None,
        *,
        is_owner: bool,
    ) -> Finding | None:
        lowest, stored = committed.lowest, self._stored
        turns_back = not event.is_transactional and lowest < committed.first
        is_lower = turns_back or _is_less(lowest, self._before)
        is_behind = _is_less(lowest, started_at)
        latest = stored.offset if stored else None
        if stored is not None and stored.is_foreign and is_owner:
            latest = self._own
        goes_back = turns_back or _is_less(lowest, latest)
        if not (is_lower or is_behind or goes_back or event.member_id == NO_MEMBER):
            return None
        if (is_lower or is_behind or goes_back) and self._is_gone_soon(step):
            return "reset"
        has_no_owner = self._is_owner_known and self._owner_id is None
        is_named = event.member_id != NO_MEMBER
        if has_no_owner and is_named:
            return "non_monotonic" if is_lower else None
        if self._owner_id is not None and not is_owner:
            return "non_monotonic" if is_lower else None
        if is_behind:
            return "non_monotonic"
        if self._owner_id is None and not is_named and not event.is_transactional:
            return "reset" if has_no_owner or is_lower else None
        return "seek" if goes_back and not (is_owner and self._started_lower()) else None

    def _started_lower(self) -> bool:
        """Whether the owner was told less than what had been stored when it began."""
        stored = self._stored
        if not self._is_told or stored is None or stored.offset is None or self._began is None:
            return False
        told = -1 if self._start is None else self._start
        return stored.at < self._began and told < stored.offset

    def _live_at(self, at: _At) -> None:
        """Start over with each end of the topic, or of the group."""
        while self._life < len(self._ends) and self._ends[self._life] < at:
            self._life += 1
            self._begin()

    def _is_gone_soon(self, step: _Step) -> bool:
        """Whether a later event tells that the topic had perhaps been gone."""
        soon = bisect_left(self._gone, step.at)
        return soon < len(self._gone) and self._gone[soon][0] - step.at[0] <= GONE_TOLD_MS_MAX


def _is_skip(step: _Step, told: int, stored: _Stored, later: Iterable[_Step]) -> bool:
    """Whether no commit explains that a new owner was told more than what was stored."""
    if (step.told.gateway_id, step.told.process_id) != (
        stored.told.gateway_id,
        stored.told.process_id,
    ):
        return False
    until_ms = step.at[0] + IN_FLIGHT_MS_MAX
    for other in later:
        match other.told.event, other.detail:
            case OffsetsCommitted() as event, CommittedOffsets() as committed:
                is_others = event.member_id != getattr(step.told.event, "member_id", None)
                if is_others and other.span_ms[0] <= until_ms and committed.last >= told:
                    return False
            case _:
                pass
    return True


def _is_less(offset: int, other: int | None) -> bool:
    """False if the other one is unknown."""
    return other is not None and offset < other
