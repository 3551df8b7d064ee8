"""The history of each partition's owners and offsets: one step per event and partition.

A commit is placed where the last commit of its event was stored. The event is told some seconds
later, possibly by a gateway that has given up the group meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

GONE_TOLD_MS_MAX = 30_000
"""How long after a topic was recreated and consumed a gateway may report that it is gone."""

PartitionEvent: TypeAlias = (
    PartitionsAssigned | PartitionsReleased | OffsetsFetched | OffsetsCommitted | OffsetsDeleted
)


class At(NamedTuple):
    """A place in time."""

    at_ms: int
    position: int


class Stored(NamedTuple):
    """The latest commit."""

    at: At
    offset: int | None
    """Null if it was deleted."""


class Start(NamedTuple):
    """What an owner was told when it began."""

    at: At
    offset: int | None


@dataclass(slots=True)
class Step:
    """An event of one partition, and what was true then."""

    told: Told
    event: PartitionEvent
    at: At
    topic: str
    partition: int
    committed: CommittedOffsets | None = None
    fetched: FetchedOffset | None = None
    life: int = 0
    """How often the partition has started over: because its topic was recreated, or its group was
    deleted or forwarded."""
    is_gone_soon: bool = False
    """Whether a later event tells that the topic had perhaps been gone."""

    is_owner_known: bool = False
    owner_id: str | None = None
    """Null if there is none, or it is unknown."""
    acting_id: str | None = None
    """The member that acted. An event without a member id counts as the owner's where owners may
    omit it."""
    granted_at: At | None = None
    """The latest grant, to anybody."""
    began: At | None = None
    """When the latest owner got the partition."""
    in_transaction_at: At | None = None
    """The latest transactional commit."""
    stored: Stored | None = None
    """The latest other commit before this event."""
    before: int | None = None
    """The offset in force before this event."""
    start: Start | None = None
    """What the latest owner was told after it began, unless it had committed before it asked."""
    found: int | None = None
    """The offset that was stored when the latest owner got the partition."""

    @property
    def is_owner(self) -> bool:
        """Whether the owner acted."""
        return self.owner_id is not None and self.acting_id == self.owner_id

    @property
    def offset(self) -> int | None:
        """The fetched offset; null if there was none."""
        return self.fetched.offset if self.fetched and self.fetched.offset >= 0 else None


_KINDS = (
    *(PartitionsAssigned, PartitionsReleased),
    *(OffsetsCommitted, OffsetsFetched, OffsetsDeleted),
)


def offset_history(history: History) -> list[Step]:
    """The steps of each partition in their order."""
    found: dict[tuple[str, int], list[Step]] = {}
    for told in history.of(*_KINDS):
        for step in _steps_of(told):
            found.setdefault((step.topic, step.partition), []).append(step)
    ends = list(_ends(history.of(TopicsGone, GroupDeleted, GroupForwarded)))
    for steps in found.values():
        steps.sort(key=lambda step: step.at)
        if ends:
            _tell_ends(steps, ends)
        _Partition().tell(steps)
    return [step for steps in found.values() for step in steps]


def _steps_of(told: Told) -> Iterator[Step]:
    at = At(told.at_ms, told.position)
    match told.event:
        case OffsetsCommitted() as event:
            at = At(min(told.at_ms, told.span_ms(event)[1]), told.position)
            for topic, offsets in event.offsets.items():
                for each in offsets:
                    yield Step(told, event, at, topic, each.partition, committed=each)
        case OffsetsFetched() as event:
            for topic, starts in event.starts.items():
                for start in starts:
                    yield Step(told, event, at, topic, start.partition, fetched=start)
        case PartitionsAssigned() | PartitionsReleased() | OffsetsDeleted() as event:
            for topic, numbers in event.partitions.items():
                for number in numbers:
                    yield Step(told, event, at, topic, number)
        case _:
            pass


class _End(NamedTuple):
    """A topic, or everything, starts over."""

    at: At
    topics: Sequence[str] | None
    """Null if it concerns the whole group."""


def _ends(told: Iterable[Told]) -> Iterator[_End]:
    for each in told:
        at = At(each.at_ms, each.position)
        match each.event:
            case TopicsGone(topics=topics):
                yield _End(at, topics)
            case GroupDeleted() | GroupForwarded():
                yield _End(at, None)
            case _:
                pass


def _tell_ends(steps: Sequence[Step], ends: Sequence[_End]) -> None:
    """`ends` are in their order, as the steps are."""
    topic = steps[0].topic
    of_topic = [end for end in ends if end.topics is None or topic in end.topics]
    gone = [end.at for end in of_topic if end.topics is not None]
    life = soon = 0
    for step in steps:
        while life < len(of_topic) and of_topic[life].at < step.at:
            life += 1
        while soon < len(gone) and gone[soon] < step.at:
            soon += 1
        step.life = life
        step.is_gone_soon = soon < len(gone) and (
            gone[soon].at_ms - step.at.at_ms <= GONE_TOLD_MS_MAX
        )


class _Partition:
    """Follows one partition."""

    def __init__(self) -> None:
        self._life = 0
        self._begin()

    def _begin(self) -> None:
        self._is_owner_known = False
        self._owner_id: str | None = None
        self._granted_to: str | None = None
        self._granted_at: At | None = None
        self._began: At | None = None
        self._in_transaction_at: At | None = None
        self._own_at: At | None = None
        self._stored: Stored | None = None
        self._before: int | None = None
        self._start: Start | None = None
        self._found: int | None = None

    def tell(self, steps: Iterable[Step]) -> None:
        """Fill in what was true at each step."""
        for step in steps:
            if step.life != self._life:
                self._life = step.life
                self._begin()
            if step.committed is None:
                self._move(step)
            self._tell(step)
            self._note(step)

    def _move(self, step: Step) -> None:
        match step.event:
            case PartitionsAssigned():
                self._assigned(step, step.event.member_id)
            case PartitionsReleased(member_id=member_id):
                if self._granted_to in (None, member_id):
                    self._is_owner_known, self._owner_id = True, None
            case _:
                pass

    def _assigned(self, step: Step, member_id: str) -> None:
        if self._owner_id != member_id:
            self._began = step.at
            self._found = self._stored.offset if self._stored else None
        self._is_owner_known, self._owner_id = True, member_id
        self._granted_to, self._granted_at = member_id, step.at

    def _tell(self, step: Step) -> None:
        step.is_owner_known, step.owner_id = self._is_owner_known, self._owner_id
        step.acting_id = self._acting_id(step.event)
        step.granted_at, step.began = self._granted_at, self._began
        if step.fetched is not None and step.is_owner and not self._has_asked():
            self._start = Start(step.at, step.offset)
        if isinstance(step.event, OffsetsCommitted) and step.event.is_transactional:
            self._in_transaction_at = step.at
        step.in_transaction_at = self._in_transaction_at
        step.stored, step.before = self._stored, self._before
        step.start, step.found = self._start, self._found

    def _acting_id(self, event: PartitionEvent) -> str | None:
        if isinstance(event, OffsetsCommitted):
            is_unsaid = event.is_transactional and event.member_id == NO_MEMBER
        elif isinstance(event, OffsetsDeleted):
            return None
        else:
            is_unsaid = isinstance(event, OffsetsFetched) and event.member_id == NO_MEMBER
        return self._owner_id if is_unsaid else event.member_id

    def _has_asked(self) -> bool:
        """Whether the owner has fetched or committed since it began."""
        return self._own_at is not None and self._began is not None and self._own_at > self._began

    def _note(self, step: Step) -> None:
        """What counts from the next step on."""
        match step.event:
            case OffsetsCommitted(is_transactional=is_transactional):
                if step.committed is not None and not is_transactional:
                    self._stored = Stored(step.at, step.committed.last)
                    self._before = self._stored.offset
            case OffsetsFetched():
                self._before = step.offset
            case OffsetsDeleted():
                self._stored, self._before = Stored(step.at, None), None
            case _:
                pass
        if step.is_owner and isinstance(step.event, OffsetsCommitted | OffsetsFetched):
            self._own_at = step.at
