"""The history of a group: each event once, in the order in which the events happened.

Removes repeats, which come from two gateways with one state log, from restarts, and from files that
are read twice.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from operator import attrgetter, itemgetter
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

from msgspec import convert
from pydantic import BeforeValidator, PlainSerializer, PlainValidator

from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import (
    AdoptionStarted,
    GenerationWentBack,
    GroupAdopted,
    GroupForwarded,
    GroupTaken,
    HostingStarted,
)
from gateway.events.member_events import PartitionsStated
from gateway.events.offset_events import OffsetsCommitted
from gateway.pipeline.fold.lines import Line

K = TypeVar("K")
V = TypeVar("V")


def _pairs(of: dict[Any, Any]) -> list[Any]:
    return list(of.items())


def _dictionary(pairs: Any) -> Any:
    return {_tuple(key): value for key, value in pairs} if isinstance(pairs, list) else pairs


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


Pairs: TypeAlias = Annotated[dict[K, V], PlainSerializer(_pairs), BeforeValidator(_dictionary)]
"""A dictionary with any keys."""


CLOCKS_DIFFER_MS_MAX = 60_000
"""How far the clocks of two gateways may differ. Unless epochs force their order, events of two
logs that are closer together may have happened in either order."""


class Hosting(NamedTuple):
    """A part of a gateway's log about a group: from one take-over of the group to the next, or
    until another member has taken the group."""

    gateway_id: str
    number: int


class Moment(NamedTuple):
    """A place in a history."""

    position: int
    at_ms: int | None
    """Null before the first event."""
    hosting: Hosting | None = None
    """That of its event; null if no single event determines it."""


def _event(told: GatewayEvent | Sequence[Any]) -> GatewayEvent:
    if isinstance(told, GatewayEvent):
        return told
    name, fields = told
    return convert(fields, EVENTS[name])


Event: TypeAlias = Annotated[
    GatewayEvent,
    PlainValidator(_event),
    PlainSerializer(lambda event: (event.name, event.fields)),
]
"""In JSON its name and its fields."""


@dataclass(slots=True)
class Told:
    """An event in its place. `at_ms` never decreases within a group, whatever the clocks did."""

    event: Event
    hosting: Hosting
    process_id: str | None
    sequence: int
    at_ms: int
    position: int
    """Counts a group's events from 1."""
    hole: Moment | None
    """The event before the last place where events of the group's sequence are missing or
    unreadable (position 0 if there is none); null without such a place."""
    behind_ms: int | None
    """A moment at which the gateway's clock was behind: nothing that it tells was earlier."""

    @property
    def moment(self) -> Moment:
        """Its place and time."""
        return Moment(self.position, self.at_ms, self.hosting)

    def not_before(self, at_ms: int) -> int:
        """A time in the event, but not before a moment at which the clock was behind."""
        return at_ms if self.behind_ms is None else max(at_ms, self.behind_ms)

    def span_ms(self, commits: OffsetsCommitted) -> tuple[int, int]:
        """When the first and the last of its commits were stored."""
        if self.behind_ms is None:
            return commits.from_ms, commits.to_ms
        return self.not_before(commits.from_ms), self.not_before(commits.to_ms)


TURNS = (GroupForwarded, HostingStarted, GroupAdopted)
"""The events after which the cluster or the gateway serves the group."""


@dataclass(slots=True)
class Words:
    """When a member spoke of partitions, by commits or statements."""

    first: int
    """The position of the first such event, and its time."""
    first_ms: int
    last: int


@dataclass(frozen=True, slots=True)
class History:
    """The events of one group, except those that are summed up at once."""

    cluster_id: str
    group_id: str
    told: Sequence[Told]
    forced: AbstractSet[frozenset[Hosting]] = frozenset()
    """Pairs of hostings whose order is known from their epochs."""
    words: Sequence[Mapping[str, Words]] = ()
    """When members spoke of partitions, in events that are not kept: before the first of `TURNS`,
    and after each of them."""

    def is_open(self, one: Moment, other: Moment) -> bool:
        """Whether the order of two moments is unknown."""
        if one.hosting is None or other.hosting is None or None in (one.at_ms, other.at_ms):
            return False
        if one.hosting.gateway_id == other.hosting.gateway_id:
            return False
        apart_ms = abs((one.at_ms or 0) - (other.at_ms or 0))
        hostings = frozenset((one.hosting, other.hosting))
        return apart_ms <= CLOCKS_DIFFER_MS_MAX and hostings not in self.forced

    def of(self, *kinds: type[GatewayEvent]) -> list[Told]:
        """The events of these kinds, in their order."""
        wanted = frozenset(kinds)
        return [told for told in self.told if type(told.event) in wanted]


_InSequence: TypeAlias = tuple[int, int, bool, int, str, int, int]
"""See `_in_sequence`."""
_InOrder: TypeAlias = tuple[int, int, str, int, int, bool, int, str, int, int]
"""See `_Placed.order`."""


class LateLineError(Exception):
    """A line belongs before others that have been taken: order all of them again."""


_Time: TypeAlias = tuple[int, int]
"""A time, and a rank among the hostings that epochs have moved to it."""
_NEVER = 0, 0


@dataclass(slots=True)
class _Hosted:
    """What is known of the lines of a hosting."""

    hosting: Hosting
    begun_ms: int
    ended_ms: int
    """The first and the latest time that the gateway told."""
    reached_before: int
    """The highest epoch in the log until then."""
    is_taken: bool
    """Whether another member has the group by now, so that epochs tell no order any more."""
    epochs: tuple[int, int] = (0, 0)
    """The lowest and the highest epoch or generation of the group; 0 without any."""
    not_before: _Time = _NEVER
    """Where the hostings end that came earlier, if clocks contradict that."""

    @property
    def ended(self) -> _Time:
        """The place of its last event."""
        return max((self.ended_ms, 0), self.not_before)

    @property
    def reached(self) -> int:
        """The highest epoch in the log until its end."""
        return max(self.reached_before, self.epochs[1])

    def learn_epochs(self, event: GatewayEvent) -> None:
        """Learn the epochs and generations in an event."""
        if self.is_taken:
            return
        for name in _EPOCHS[type(event)]:
            epoch = getattr(event, name)
            if epoch is not None and epoch > 0:
                lowest, highest = self.epochs
                self.epochs = min(lowest or epoch, epoch), max(highest, epoch)

    def is_forced_behind(self, other: "_Hosted") -> bool:
        """Whether its epochs follow those of the other, and at most clocks that differ contradict
        that. Two that have one epoch only may be in either order. So may all whose logs had passed
        each other before, because epochs have begun again. They may have done so in the other if
        it has the first ones, and clocks that differ less explain that it came later."""
        if not other.epochs[0] or self.epochs == other.epochs:
            return False
        if self.reached_before > other.epochs[0] or other.reached > self.epochs[0]:
            return False
        differ_ms, differ_else_ms = other.ended_ms - self.begun_ms, self.ended_ms - other.begun_ms
        if other.epochs[0] <= _FIRST_EPOCH_MAX and differ_ms > differ_else_ms:
            return False
        return other.ended[0] - self.begun_ms <= CLOCKS_DIFFER_MS_MAX


@dataclass(slots=True)
class _Log:
    """What is known of one gateway's lines about a group. It takes them in the order of their
    sequences, each once."""

    hosted: list[_Hosted] = field(default_factory=list)
    """In their order, also of their times."""
    not_before: _Time = _NEVER
    """The latest of theirs."""
    told_ms: int = 0
    """The latest time that the gateway told."""
    behind_ms: int | None = None
    began_ms: int | None = None
    """The beginning of the current sequence; one that begins again follows the one before it."""
    place: int = 0
    """The place reached in it."""
    number: tuple[str | None, int | None, int] | None = None
    """Of the last line."""
    latest: _InSequence | None = None
    """The order of the last line."""

    def take(self, lines: Iterable[tuple[_InSequence, Line]]) -> "list[_Placed]":
        """The next lines in their places, without repeats. Raises LateLineError."""
        hosted = self.hosted[-1] if self.hosted else None
        placed: list[_Placed] = []
        latest, number, began_ms, told_ms = self.latest, self.number, self.began_ms, self.told_ms
        for in_order, line in lines:
            if latest is not None and in_order < latest:
                raise LateLineError
            number_before, number = number, (line.process_id, line.began_ms, line.sequence)
            if number == number_before:
                continue
            latest, place = in_order, in_order[1]
            place_before = self.place if line.began_ms == began_ms else 0
            self.place, began_ms = place, line.began_ms
            # An event beside the sequence carries the number of the latest event in the sequence.
            is_after_hole = place_before < (place - 1 if line.process_id is None else place)
            if line.at_ms >= told_ms:
                told_ms = line.at_ms
            else:  # all later events come from a clock that had been behind
                self.behind_ms = told_ms
            event = line.fields
            if hosted is None or type(event) in _BEGINNINGS:
                hosting = Hosting(line.gateway_id, len(self.hosted))
                reached = hosted.reached if hosted else 0
                is_taken = type(event) in _LOSSES
                hosted = _Hosted(hosting, told_ms, told_ms, reached, is_taken)
                self.hosted.append(hosted)
            hosted.ended_ms = told_ms
            if event is not None and _EPOCHS[type(event)]:
                hosted.learn_epochs(event)
            placed.append(_Placed(line, hosted, told_ms, self.behind_ms, is_after_hole, in_order))
        self.latest, self.number, self.began_ms, self.told_ms = latest, number, began_ms, told_ms
        return placed

    def move(self, placed: Iterable["_Placed"]) -> None:
        """Move lines behind the hostings that came earlier; they stay in their order."""
        for each in placed:
            self.not_before = max(self.not_before, each.hosted.not_before)
            if self.not_before != _NEVER:
                each.move_behind(self.not_before)

    def near(self, hosted: _Hosted) -> Iterator[_Hosted]:
        """Its hostings whose order with that of another log their times do not tell."""
        first = bisect_left(self.hosted, hosted.begun_ms - _NEAR_MS_MAX, key=attrgetter("ended_ms"))
        for number in range(first, len(self.hosted)):
            each = self.hosted[number]
            if each.begun_ms > hosted.ended_ms + _NEAR_MS_MAX:
                return
            yield each


_LOSSES = frozenset((GenerationWentBack, GroupTaken))
"""The events after which another coordinator may have had the group."""
_BEGINNINGS = _LOSSES | {AdoptionStarted, GroupAdopted, HostingStarted}
"""The events with which a hosting begins. An adoption tells of the group before it is complete."""
_FIRST_EPOCH_MAX = 2
"""A new group begins with this epoch at the latest."""
_NEAR_MS_MAX = 2 * CLOCKS_DIFFER_MS_MAX
"""An event may be told a minute after the commits in it."""


@dataclass(slots=True)
class Order:
    """Puts the lines of a group in order, and may stop and go on between any two of them."""

    logs: dict[str, _Log] = field(default_factory=dict)
    """By gateway."""
    position: int = 0
    before_ms: int | None = None
    """The time of the latest event."""
    latest: _InOrder | None = None
    """Its order."""
    hole: Moment | None = None

    def take(self, lines: Iterable[Line]) -> Iterator[Told]:
        """The next lines, in any order, as events in their order. An unreadable event is a hole.
        Events with an unknown name are no hole: they do not change the meaning of others, and no
        table asks for them. Raises LateLineError: then the state is of no use any more."""
        of_gateways: dict[str, list[tuple[_InSequence, Line]]] = {}
        for line in lines:
            if line.fields is not None or not line.is_known:
                of_gateways.setdefault(line.gateway_id, []).append((_in_sequence(line), line))
        known = {gateway_id: len(log.hosted) for gateway_id, log in self.logs.items()}
        new: dict[str, list[_Placed]] = {}
        for gateway_id, some in of_gateways.items():
            some.sort(key=itemgetter(0))
            new[gateway_id] = self.logs.setdefault(gateway_id, _Log()).take(some)
        if len(self.logs) > 1:
            self._force(new, known)
            for gateway_id, its in new.items():
                self.logs[gateway_id].move(its)
        once = [placed for its in new.values() for placed in its]
        if len(new) > 1:
            once.sort(key=_Placed.order)
        if once and self.latest is not None and once[0].order() < self.latest:
            raise LateLineError
        for placed in once:
            self.position += 1
            if placed.is_after_hole:
                self.hole = Moment(self.position - 1, self.before_ms)
            line, self.before_ms = placed.line, placed.told_ms
            if line.fields is not None:
                yield Told(
                    line.fields,
                    placed.hosted.hosting,
                    line.process_id,
                    line.sequence,
                    placed.told_ms,
                    self.position,
                    self.hole,
                    placed.behind_ms,
                )
        if once:
            self.latest = once[-1].order()

    def forced(self) -> set[frozenset[Hosting]]:
        """Pairs of hostings whose order is known from their epochs, or from those of others: what
        follows in the log of the later one came later, too, and what precedes the earlier one in
        its log came earlier."""
        found: set[frozenset[Hosting]] = set()
        for log in self.logs.values():
            latest: dict[str, int] = {}
            for later in log.hosted:
                near = list(self._near(later))
                for each in filter(later.is_forced_behind, near):
                    gateway_id, number = each.hosting
                    latest[gateway_id] = max(number, latest.get(gateway_id, 0))
                for gateway_id, number in (each.hosting for each in near):
                    if number <= latest.get(gateway_id, -1):
                        found.add(frozenset((later.hosting, Hosting(gateway_id, number))))
        return found

    def _force(self, new: Mapping[str, Sequence["_Placed"]], known: Mapping[str, int]) -> None:
        """Find which hostings came earlier than others, if clocks contradict that. `known` counts
        those of each log that have been placed. Raises LateLineError if they must move."""
        changed = {id(each.hosted): each.hosted for its in new.values() for each in its}
        for one in list(changed.values()):
            changed.update((id(each), each) for each in self._near(one))
        for later in sorted(changed.values(), key=attrgetter("epochs")):
            earlier = filter(later.is_forced_behind, self._near(later))
            ends = (each.ended for each in earlier if later.begun_ms <= each.ended[0])
            end_ms, rank = max(ends, default=(0, -1))
            if (end_ms, rank + 1) == later.not_before:
                continue
            if later.hosting.number < known.get(later.hosting.gateway_id, 0):
                raise LateLineError
            later.not_before = end_ms, rank + 1

    def _near(self, hosted: _Hosted) -> Iterator[_Hosted]:
        """The hostings of other logs whose order with this one their times do not tell."""
        for gateway_id, log in self.logs.items():
            if gateway_id != hosted.hosting.gateway_id:
                yield from log.near(hosted)


def clusters(started: Iterable[tuple[Line, GatewayStarted]]) -> Mapping[str, str]:
    """The cluster of each gateway, as its latest start names it."""
    in_order = sorted(started, key=lambda each: (each[0].at_ms, each[0].sequence))
    return {line.gateway_id: event.cluster_id or "" for line, event in in_order}


@dataclass(slots=True)
class _Placed:
    line: Line
    hosted: _Hosted
    told_ms: int
    """The latest time that the gateway had told by then."""
    behind_ms: int | None
    is_after_hole: bool
    in_sequence: _InSequence
    rank: int = 0
    """The order of hostings that epochs have moved to the same time."""

    def move_behind(self, ended: _Time) -> None:
        """Move it behind the end of another hosting; nothing that it tells was earlier."""
        self.told_ms, self.rank = max((self.told_ms, 0), ended)
        ended_ms, _rank = ended
        self.behind_ms = ended_ms if self.behind_ms is None else max(self.behind_ms, ended_ms)

    def order(self) -> _InOrder:
        """The order of the events of all gateways."""
        return self.told_ms, self.rank, self.line.gateway_id, *self.in_sequence


def _in_sequence(line: Line) -> _InSequence:
    """The order of one gateway's lines. If lines with the same place contradict each other, the
    first one counts, and the choice is the same in every run. An event beside the group's sequence
    is placed after the event that it names."""
    return (
        -1 if line.began_ms is None else line.began_ms,
        line.sequence if line.after is None else line.after,
        line.process_id is not None,
        line.at_ms,
        line.process_id or "",
        line.sequence,
        line.content,
    )


_EPOCHS: Mapping[type[GatewayEvent], Sequence[str]] = {
    event: [
        name
        for name in ("group_epoch", "assignment_epoch", "generation", "member_epoch")
        if name in {each.name for each in fields_of(event)} and event is not PartitionsStated
    ]
    for event in EVENTS.values()
}
"""The fields of each event that have an epoch or a generation of the group. What a member states
may be one from long ago."""
