"""Follows the owners and offsets of each partition, and judges its commits and fetches.

A commit is placed where the last commit of its event was stored. The event is told some seconds
later, possibly by a gateway that has given up the group meanwhile. An event therefore waits until
no later one can come before it, or explain it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupAdopted,
    GroupDeleted,
    GroupForwarded,
    GroupStateChanged,
    HostingStarted,
    TopicsDeleted,
)
from gateway.events.member_events import GrantEnded, PartitionsAssigned
from gateway.events.offset_events import (
    NO_MEMBER,
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from gateway.pipeline.fold.history import CLOCKS_DIFFER_MS_MAX, Hosting, Moment, Told
from gateway.pipeline.fold.row import Row

Finding: TypeAlias = Literal["seek", "reset", "non_monotonic", "unsure"]


@dataclass(slots=True)
class OffsetRow(Row):
    """What was committed for each partition, and which of it went back.

    An owner may go back within what it has consumed itself: a seek. It is non-monotonic if another
    member commits a lower offset, or if an owner goes back behind its predecessor. So is a lower
    commit of a member while the partition has no owner.

    - No event says whether a transaction was committed. It may have been aborted and its records
      consumed again, so nothing is compared with a transactional commit. The commit itself is
      compared with its owner's start and with other commits: a member that continues where the
      group is never goes below those, whatever becomes of the transaction.
    - The owner of a partition is known from the first event that names it. Without one (the files
      start later, or the cluster's own coordinator has the group) nothing counts as non-monotonic.
    - An owner's commit is compared with its own latest one if another client has committed since.
      That commit is in `differences`.
    - An owner that has neither fetched nor committed yet begins with what is reset under it: the
      reset was under way when it joined.
    - A recreated topic and a deleted group start over, without an earlier offset.
    - An owner that was told less than what had been stored continues from there, which is not going
      back. The loss is in `wrong_starts`.
    """

    topic: str
    partition: int
    member_id: str
    """The member that committed; empty if it is not in the group, as when an admin resets
    offsets."""
    owner_id: str | None
    """The member that the partition was granted to then; null if there was none, or it is
    unknown."""
    is_transactional: bool
    """Whether the commits count only if their transaction is committed, which is unknown."""
    commits: int
    """The number of stored commits."""
    first: int
    """The offset of the first commit."""
    lowest: int
    last: int
    from_ms: int
    """When the first one was stored, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """When the last one was stored, in milliseconds since 1970 (UTC)."""
    before: int | None
    """The offset in force before, as last committed or fetched; null if there was none, or it is
    unknown."""
    started_at: int | None
    """The committed offset from which the owner continued when it got the partition; null if there
    was none, or it is unknown. If the owner did not fetch it, the offset in force then."""
    finding: Finding | None
    """What went back. `seek`: an owner went back within what it has consumed itself, or a member
    that may be the owner did. `reset`: the offset was set from outside the group (also forwards, if
    owners of the partition are known), or the topic was recreated. `non_monotonic`: a member
    other than the owner went back, also while the partition had no owner; or the owner went back
    behind its start. `unsure`: the same, unless it happened before what it is compared with: that
    is in the log of another gateway, whose clock may differ by a minute, and no epoch tells which
    came first."""
    gateway_id: str
    """The gateway that told of it; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int


@dataclass(slots=True, kw_only=True)
class WrongStartRow(Row):
    """Owners that were told another offset than the one that had been committed, although nothing
    had reset it.

    `lost`: the owner was told less, and consumes the records in between again; or it was told that
    there is no offset, and begins where its own settings say. `skipped`: a new owner was told more.
    It skips the records in between, unless they were consumed and the answer to their commit was
    lost.

    - A reset or a deletion through the gateway is an event, and counts as the stored offset from
      then on. One made directly at the cluster looks like a loss or a skip. So do expired offsets,
      and a reset whose client had gone before the answer.
    - Only owners are compared: another client's fetch may cross a commit on its way. A fetch
      without a member id counts as the owner's, and is compared with what was stored when the
      partition was granted.
    - After a transactional commit nothing is compared, because the outcome of the transaction is
      unknown.
    - A skip needs both events from one process, because a process that is killed does not report
      its last commits; and no other commit may have been on its way at the time.
    """

    topic: str
    partition: int
    finding: Literal["lost", "skipped", "unsure"]
    """Whether the owner was told less, or more. `unsure`: less, unless it was told before the
    commit: that is in the log of another gateway, whose clock may differ by a minute, and no epoch
    tells which came first."""
    member_id: str
    """The member that asked; empty if it did not say so and was taken for the owner."""
    owner_id: str
    """The member that the partition was granted to then."""
    stored: int
    """The latest committed offset."""
    stored_ms: int
    """The time of that commit."""
    told: int | None
    """The offset that the owner was told; null if it was told that there is none."""
    at_ms: int
    """The time of the answer."""
    gateway_id: str
    """The gateway that gave the answer; with its sequence (null: the group's) and number."""
    process_id: str | None
    sequence: int


GONE_TOLD_MS_MAX = 30_000
"""How long after a topic was recreated and consumed a gateway may report that it is gone."""
IN_FLIGHT_MS_MAX = 1_000
"""How long a commit may be on its way to the cluster and back. Whether its member may commit was
decided at the beginning, and the event has the time of the end."""
TOLD_MS_MAX = 60_000
"""How long after its last commit an event is told at the latest. One that is told later is placed
so long before it was told."""
OPEN_MAX = 1_000
"""Faults of one group that wait for the order of two logs."""
_WAIT_MS = GONE_TOLD_MS_MAX + TOLD_MS_MAX
"""An event waits for those that are placed up to GONE_TOLD_MS_MAX later."""

E = TypeVar("E", bound=int | CommittedOffsets | FetchedOffset)

_At: TypeAlias = tuple[int, int]
"""A place in time: milliseconds and position."""


class _Step(NamedTuple):
    """An event about offsets or owners, in its place."""

    at: _At
    told: Told
    span_ms: tuple[int, int]
    """When the first and the last commit of the event were stored."""

    @property
    def source(self) -> "_Source":
        """The event, for the partitions that remember it."""
        return _Source(self.at, self.told.hosting, self.told.process_id)

    def details(self, partition: "Partition") -> Iterator[CommittedOffsets]:
        """The commits for a partition."""
        if isinstance(self.told.event, OffsetsCommitted):
            for each in self.told.event.offsets.get(partition.topic, ()):
                if each.partition == partition.number:
                    yield each


class _Source(NamedTuple):
    """The event behind what is known of a partition."""

    at: _At
    hosting: Hosting
    process_id: str | None

    @property
    def moment(self) -> Moment:
        """Its place and time."""
        return Moment(self.at[1], self.at[0], self.hosting)


class _Open(NamedTuple):
    """A fault, if its event came after those of other logs."""

    row: OffsetRow | WrongStartRow
    at: Moment
    others: list[Moment]


class _End(NamedTuple):
    """A topic, or everything, starts over."""

    at: _At
    topics: tuple[str, ...] | None
    """Null if it concerns the whole group."""


KINDS: frozenset[type[GatewayEvent]] = frozenset(
    (
        *(OffsetsCommitted, OffsetsFetched, OffsetsDeleted),
        *(PartitionsAssigned, GrantEnded, TopicsDeleted),
        *(GroupStateChanged, GroupDeleted, GroupForwarded, HostingStarted, GroupAdopted),
    )
)
"""The events that decide about owners and offsets."""


@dataclass(slots=True)
class OffsetFold:
    """The offsets of one group. Takes its events in their order."""

    cluster_id: str
    group_id: str
    waiting: list[_Step] = field(default_factory=list)
    """In the order of their places."""
    ends: list[_End] = field(default_factory=list)
    partitions: dict[str, dict[int, "Partition"]] = field(default_factory=dict)
    """By topic and number."""
    emptied_at: _At | None = None
    """When the group had no members last. A restart may have forgotten them without a release."""
    open: list[_Open] = field(default_factory=list)
    """At most OPEN_MAX. Epochs may tell the order of two logs at any time."""
    is_forwarded: bool = False
    """Whether the cluster serves the group. What members give up then, they had from the engine,
    and the cluster may grant it to others without an event."""

    def take(self, told: Told) -> None:
        """Take the next event, one of `KINDS`."""
        at = told.at_ms, told.position
        span_ms = told.at_ms, told.at_ms
        match told.event:
            case OffsetsCommitted() as event:
                span_ms = told.span_ms(event)
                placed_ms = max(span_ms[1], told.at_ms - TOLD_MS_MAX)
                at = min(told.at_ms, placed_ms), told.position
            case GrantEnded() if self.is_forwarded:
                return
            case PartitionsAssigned() | HostingStarted() | GroupAdopted():
                self.is_forwarded = False
            case TopicsDeleted() | GroupDeleted() | GroupForwarded() as event:
                self.is_forwarded = self.is_forwarded or isinstance(event, GroupForwarded)
                self.ends.append(_End(at, getattr(event, "topics", None)))
                return
            case _:
                pass
        step = _Step(at, told, span_ms)
        if not self.waiting or self.waiting[-1].at < at:
            self.waiting.append(step)
        else:
            insort(self.waiting, step, key=itemgetter(0))

    def close(self, now_ms: int) -> tuple[list[OffsetRow], list[WrongStartRow]]:
        """The rows that no event from now on can change."""
        ready = bisect_left(self.waiting, (now_ms - _WAIT_MS, 0), key=itemgetter(0))
        return self._rows(ready)

    def finish(
        self, is_open: Callable[[Moment, Moment], bool]
    ) -> tuple[list[OffsetRow], list[WrongStartRow]]:
        """All other rows, as if nothing followed. `is_open` tells whether two events may have
        happened in either order."""
        commits, starts = self._rows(len(self.waiting))
        for row, at, others in self.open:
            if any(is_open(at, other) for other in others):
                row.finding = "unsure"
            if isinstance(row, OffsetRow):
                commits.append(row)
            else:
                starts.append(row)
        return commits, starts

    def _rows(self, ready: int) -> tuple[list[OffsetRow], list[WrongStartRow]]:
        """See `OffsetRow` and `WrongStartRow`."""
        commits: list[OffsetRow] = []
        starts: list[WrongStartRow] = []
        ends: dict[str, _Ends] = {}
        for number, step in enumerate(islice(self.waiting, ready)):
            event = step.told.event
            match event:
                case OffsetsCommitted():
                    self._committed(step, event, ends, commits)
                case OffsetsFetched():
                    for topic, some in event.starts.items():
                        for each, followed in self._live(step, topic, some, ends):
                            behind = islice(self.waiting, number + 1, None)
                            starts += self._fetched(followed, step, each, behind, ends[topic])
                case PartitionsAssigned() | GrantEnded() | OffsetsDeleted():
                    for topic, numbers in event.partitions.items():
                        for _number, followed in self._live(step, topic, numbers, ends):
                            followed.moved(step)
                case GroupStateChanged(to_state=ClassicPhase.EMPTY):
                    self.emptied_at = step.at
                case _:
                    pass
        del self.waiting[:ready]
        return commits, starts

    def _live(
        self, step: _Step, topic: str, some: Iterable[E], ends: dict[str, "_Ends"]
    ) -> Iterator[tuple[E, "Partition"]]:
        """The partitions of a topic in their present lives."""
        its, life = self._of_topic(step, topic, ends)
        for each in some:
            number = each if isinstance(each, int) else each.partition
            yield each, self._in_life(its, topic, number, life)

    def _of_topic(
        self, step: _Step, topic: str, ends: dict[str, "_Ends"]
    ) -> tuple[dict[int, "Partition"], int]:
        """The known partitions of a topic, and the number of its present life."""
        if (of_topic := ends.get(topic)) is None:
            of_topic = ends[topic] = self._ends_of(topic)
        return self.partitions.setdefault(topic, {}), bisect_left(of_topic.all, step.at)

    def _in_life(
        self, its: dict[int, "Partition"], topic: str, number: int, life: int
    ) -> "Partition":
        followed = its.get(number)
        if followed is None or followed.life < life:
            followed = its[number] = Partition(topic, number, life)
        if self.emptied_at is not None:
            followed.emptied(self.emptied_at)
        return followed

    def _committed(
        self, step: _Step, event: OffsetsCommitted, ends: dict[str, "_Ends"], rows: list[OffsetRow]
    ) -> None:
        """Add the rows of a commit. Most of a report's time is spent here."""
        at, told, (from_ms, to_ms) = step
        cluster_id, group_id = self.cluster_id, self.group_id
        gateway_id, process_id, sequence = told.hosting.gateway_id, told.process_id, told.sequence
        member_id, is_transactional = event.member_id, event.is_transactional
        is_named = member_id != NO_MEMBER
        # A commit in a transaction may omit the member id.
        is_unsaid = is_transactional and not is_named
        source = step.source
        never_emptied = self.emptied_at is None
        for topic, some in event.offsets.items():
            its, life = self._of_topic(step, topic, ends)
            for committed in some:
                number, first = committed.partition, committed.first
                lowest, last = committed.lowest, committed.last
                followed = its.get(number)
                if followed is None or followed.life < life or not never_emptied:
                    followed = self._in_life(its, topic, number, life)
                owner_id, before = followed.owner_id, followed.before
                is_owner = owner_id is not None and (member_id == owner_id or is_unsaid)
                started_at: int | None = None
                if is_owner:
                    started_at = followed.start if followed.is_told else followed.found
                finding: Finding | None = None
                goes_on = is_named and first <= lowest and followed.highest <= lowest
                if not goes_on:
                    finding = followed.finding(
                        at, event, committed, started_at, ends[topic], is_owner=is_owner
                    )
                row = OffsetRow(  # in the order of the columns, because keywords take their time
                    cluster_id,
                    group_id,
                    topic,
                    number,
                    member_id,
                    owner_id,
                    is_transactional,
                    committed.commits,
                    first,
                    lowest,
                    last,
                    from_ms,
                    to_ms,
                    before,
                    started_at,
                    finding,
                    gateway_id,
                    process_id,
                    sequence,
                )
                is_fault = finding == "non_monotonic"
                if not (is_fault and self._leave_open(row, source, followed.others(source))):
                    rows.append(row)
                if is_owner:
                    followed.has_acted = True
                if is_transactional:
                    followed.in_transaction_at = at
                    continue
                storing = followed.storing
                if storing is not None and storing.hosting.gateway_id != gateway_id:
                    followed.elsewhere = storing, followed.stored
                followed.before = followed.stored = last
                followed.storing = followed.before_by = source
                followed.is_foreign = owner_id is not None and not is_owner
                if is_owner:
                    followed.own = last
                if goes_on:
                    followed.highest = last
                else:
                    followed.find_highest()

    def _fetched(
        self,
        followed: "Partition",
        step: _Step,
        fetched: FetchedOffset,
        later: Iterable[_Step],
        ends: "_Ends",
    ) -> Iterator[WrongStartRow]:
        """An answer to a fetch."""
        assert isinstance(step.told.event, OffsetsFetched)
        member_id = step.told.event.member_id
        offset = fetched.offset if fetched.offset >= 0 else None
        # An owner may fetch without a member id.
        is_owner = followed.owner_id is not None and member_id in (followed.owner_id, NO_MEMBER)
        is_start = is_owner and not followed.has_acted
        stored, storing = followed.stored, followed.storing
        finding = None
        if is_owner:
            finding = followed.wrong_start(step, offset, later, ends, is_start=is_start)
            followed.has_acted = True
        if is_start:
            followed.is_told, followed.start = True, offset
        source = step.source
        others = followed.others(source) if finding == "lost" else []
        followed.before, followed.before_by = offset, source
        followed.highest = max(followed.highest, fetched.offset)
        if finding is not None and stored is not None and storing is not None:
            row = WrongStartRow(
                cluster_id=self.cluster_id,
                group_id=self.group_id,
                topic=followed.topic,
                partition=followed.number,
                finding=finding,
                member_id=member_id,
                owner_id=followed.owner_id or "",
                stored=stored,
                stored_ms=storing.at[0],
                told=offset,
                at_ms=step.at[0],
                gateway_id=step.told.hosting.gateway_id,
                process_id=step.told.process_id,
                sequence=step.told.sequence,
            )
            if not self._leave_open(row, source, others):
                yield row

    def _leave_open(
        self, row: OffsetRow | WrongStartRow, source: _Source, others: list[Moment]
    ) -> bool:
        """Leave a fault to the end, if events of other logs may have come later; beyond OPEN_MAX it
        is unsure at once. Returns whether it is left."""
        if not others:
            return False
        if len(self.open) >= OPEN_MAX:
            row.finding = "unsure"
            return False
        self.open.append(_Open(row, source.moment, others))
        return True

    def _ends_of(self, topic: str) -> "_Ends":
        its = [end for end in self.ends if end.topics is None or topic in end.topics]
        return _Ends([end.at for end in its], [end.at for end in its if end.topics is not None])


class _Ends(NamedTuple):
    """The ends of one topic."""

    all: Sequence[_At]
    """Including those of the whole group."""
    gone: Sequence[_At]

    def are_soon(self, at: _At) -> bool:
        """Whether a later event tells that the topic had perhaps been gone."""
        soon = bisect_left(self.gone, at)
        return soon < len(self.gone) and self.gone[soon][0] - at[0] <= GONE_TOLD_MS_MAX


@dataclass(slots=True)
class Partition:
    """What is known of one partition. Its methods take the steps in their order."""

    topic: str
    number: int
    life: int
    """How often it has started over: because its topic was recreated, or its group was deleted or
    forwarded."""
    is_owner_known: bool = False
    owner_id: str | None = None
    """Null if there is none, or it is unknown."""
    granted_to: str | None = None
    granted_by: _Source | None = None
    """The latest grant, to anybody."""
    stored: int | None = None
    """The latest offset that was committed without a transaction; null if there is none, or it was
    deleted."""
    storing: _Source | None = None
    """The event that stored it, or deleted it."""
    elsewhere: tuple[_Source, int | None] | None = None
    """The same of the latest such event in another gateway's log before."""
    is_foreign: bool = False
    """Whether somebody other than the owner did."""
    before: int | None = None
    """The offset in force, as last committed or fetched."""
    before_by: _Source | None = None
    in_transaction_at: _At | None = None
    """The latest transactional commit."""
    began: _At | None = None
    """When the latest owner got the partition."""
    found: int | None = None
    """The offset that was stored then."""
    is_told: bool = False
    """Whether the owner was told an offset before it committed."""
    has_acted: bool = False
    """Whether it fetched or committed."""
    start: int | None = None
    """What it was told."""
    own: int | None = None
    """Its latest commit without a transaction."""
    highest: int = -1
    """No offset that a commit is compared with is higher."""

    def moved(self, step: _Step) -> None:
        """The partition was granted or released, or its offset was deleted."""
        told = step.told
        match told.event:
            case PartitionsAssigned(member_id=member_id):
                if self.owner_id != member_id:
                    self.began = step.at
                    self.found = self.stored
                    self.is_told = self.has_acted = False
                    self.start = self.own = None
                self.is_owner_known, self.owner_id = True, member_id
                self.granted_to, self.granted_by = member_id, step.source
            case GrantEnded(member_id=member_id):
                if self.granted_to in (None, member_id):
                    self.is_owner_known, self.owner_id = True, None
            case OffsetsDeleted():
                self.storing = self.before_by = step.source
                self.stored = self.before = None
                self.is_foreign = True
            case _:
                pass

    def others(self, source: _Source) -> list[Moment]:
        """The events of other logs that what comes from this one is compared with, and that may
        have happened after it."""
        return [
            each.moment
            for each in (self.storing, self.before_by, self.granted_by)
            if each is not None
            and each.hosting.gateway_id != source.hosting.gateway_id
            and abs(each.at[0] - source.at[0]) <= CLOCKS_DIFFER_MS_MAX
        ]

    def emptied(self, at: _At) -> None:
        """The group had no members then."""
        if self.granted_by is not None and self.granted_by.at < at:
            self.owner_id = None

    def wrong_start(
        self,
        step: _Step,
        told: int | None,
        later: Iterable[_Step],
        ends: _Ends,
        *,
        is_start: bool,
    ) -> Literal["lost", "skipped"] | None:
        """How the offset that an owner was told differs from the stored one."""
        stored, storing = self.stored, self.storing
        if stored is None or storing is None or stored == told:
            return None
        was_stored = self.granted_by is not None and storing.at < self.granted_by.at
        is_behind_transaction = (
            self.in_transaction_at is not None and self.in_transaction_at > storing.at
        )
        is_named = getattr(step.told.event, "member_id", NO_MEMBER) != NO_MEMBER
        if not (is_named or was_stored) or is_behind_transaction or ends.are_soon(step.at):
            return None
        if told is None or told < stored:
            return "lost"
        is_skip = is_start and was_stored and self._is_skip(step, told, storing, later)
        return "skipped" if is_skip else None

    def _is_skip(self, step: _Step, told: int, storing: _Source, later: Iterable[_Step]) -> bool:
        """Whether no commit explains that a new owner was told more than what was stored."""
        source = step.source
        if source.hosting.gateway_id != storing.hosting.gateway_id:
            return False
        if source.process_id != storing.process_id:
            return False
        if self.elsewhere is not None:
            elsewhere, stored = self.elsewhere
            is_near = storing.at[0] - elsewhere.at[0] <= CLOCKS_DIFFER_MS_MAX
            if is_near and stored is not None and stored >= told:
                return False
        asked_by = getattr(step.told.event, "member_id", None)
        for other in later:
            if other.at[0] > step.at[0] + GONE_TOLD_MS_MAX:
                break
            if (
                getattr(other.told.event, "member_id", None) != asked_by
                and other.span_ms[0] <= step.at[0] + IN_FLIGHT_MS_MAX
                and any(each.last >= told for each in other.details(self))
            ):
                return False
        return True

    def finding(
        self,
        at: _At,
        event: OffsetsCommitted,
        committed: CommittedOffsets,
        started_at: int | None,
        ends: _Ends,
        *,
        is_owner: bool,
    ) -> Finding | None:
        """How a commit went back, if it did."""
        lowest, before = committed.lowest, self.before
        if self._was_fetched_since(event.from_ms) and before is not None:
            # Some of these commits were stored before the fetch.
            before = before if committed.last < before else self.stored
        latest = self.own if self.is_foreign and is_owner else self.stored
        turns_back = lowest < committed.first and not event.is_transactional
        is_lower = turns_back or (before is not None and lowest < before)
        is_behind = started_at is not None and lowest < started_at
        goes_back = turns_back or (latest is not None and lowest < latest)
        if not (is_lower or is_behind or goes_back):
            if event.member_id != NO_MEMBER:
                return None
        elif ends.are_soon(at):
            return "reset"
        has_no_owner = self.is_owner_known and self.owner_id is None
        is_named = event.member_id != NO_MEMBER
        if has_no_owner and is_named:
            return "non_monotonic" if is_lower else None
        # The fetch of a new owner waits for a reset that was under way when it joined.
        is_outside = not is_named and not event.is_transactional
        has_begun = self.owner_id is not None and (self.has_acted or not is_outside)
        if has_begun and not is_owner:
            return "non_monotonic" if is_lower else None
        if is_behind:
            return "non_monotonic"
        if is_outside and not has_begun:
            return "reset" if has_no_owner or is_lower else None
        return "seek" if goes_back and not (is_owner and self._started_lower()) else None

    def _was_fetched_since(self, from_ms: int) -> bool:
        """Whether the offset in force is known from a fetch, and from one after that time."""
        by = self.before_by
        return by is not None and by is not self.storing and by.at[0] > from_ms

    def _started_lower(self) -> bool:
        """Whether the owner was told less than what had been stored when it began."""
        stored, storing = self.stored, self.storing
        if not self.is_told or stored is None or storing is None or self.began is None:
            return False
        told = -1 if self.start is None else self.start
        return storing.at < self.began and told < stored

    def find_highest(self) -> None:
        """Recompute the highest offset after a commit that went back."""
        known = (self.before, self.stored, self.own, self.start, self.found)
        self.highest = max((each for each in known if each is not None), default=-1)
