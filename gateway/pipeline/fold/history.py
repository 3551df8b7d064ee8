"""The history of a group: each event once, in the order in which the events happened.

Removes repeats, which come from two gateways with one state log, from restarts, and from files that
are read twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

from msgspec import convert
from pydantic import BeforeValidator, PlainSerializer, PlainValidator

from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import GroupAdopted, GroupForwarded, GroupHosted
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


class Moment(NamedTuple):
    """A place in a history."""

    position: int
    at_ms: int | None
    """Null before the first event."""
    log: str | None = None
    """The log of its event, which is a gateway's; null if no single event determines it."""


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
    gateway_id: str
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
        return Moment(self.position, self.at_ms, self.gateway_id)

    def not_before(self, at_ms: int) -> int:
        """A time in the event, but not before a moment at which the clock was behind."""
        return at_ms if self.behind_ms is None else max(at_ms, self.behind_ms)

    def span_ms(self, commits: OffsetsCommitted) -> tuple[int, int]:
        """When the first and the last of its commits were stored."""
        if self.behind_ms is None:
            return commits.from_ms, commits.to_ms
        return self.not_before(commits.from_ms), self.not_before(commits.to_ms)


TURNS = (GroupForwarded, GroupHosted, GroupAdopted)
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
    forced: AbstractSet[frozenset[str]] = frozenset()
    """Pairs of logs whose order is known from their epochs."""
    words: Sequence[Mapping[str, Words]] = ()
    """When members spoke of partitions, in events that are not kept: before the first of `TURNS`,
    and after each of them."""

    def is_open(self, one: Moment, other: Moment) -> bool:
        """Whether the order of two moments is unknown."""
        if None in (one.log, other.log, one.at_ms, other.at_ms) or one.log == other.log:
            return False
        apart_ms = abs((one.at_ms or 0) - (other.at_ms or 0))
        logs = frozenset(filter(None, (one.log, other.log)))
        return apart_ms <= CLOCKS_DIFFER_MS_MAX and logs not in self.forced

    def of(self, *kinds: type[GatewayEvent]) -> list[Told]:
        """The events of these kinds, in their order."""
        wanted = frozenset(kinds)
        return [told for told in self.told if type(told.event) in wanted]


_InSequence: TypeAlias = tuple[int, int, bool, int, str, int, int]
"""See `_in_sequence`."""


class LateLineError(Exception):
    """A line belongs before others that have been taken: order all of them anew."""


@dataclass(slots=True)
class _Log:
    """What is known of one gateway's lines about a group. It takes them in the order of their
    sequences, each once."""

    first_ms: int = 0
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
    epoch_min: int | None = None
    """The lowest and the highest epoch or generation of the group."""
    epoch_max: int | None = None

    def take(self, lines: Iterable[tuple[_InSequence, Line]]) -> "list[_Placed]":
        """The next lines in their places, without repeats. Raises LateLineError."""
        placed: list[_Placed] = []
        latest, number, began_ms, told_ms = self.latest, self.number, self.began_ms, self.told_ms
        for in_order, line in lines:
            if latest is not None and in_order < latest:
                raise LateLineError
            number_before, number = number, (line.process_id, line.began_ms, line.sequence)
            if number == number_before:
                continue
            if number_before is None:
                self.first_ms = line.at_ms
            latest, place = in_order, in_order[1]
            place_before = self.place if line.began_ms == began_ms else 0
            self.place, began_ms = place, line.began_ms
            # An event beside the sequence carries the number of the latest event in the sequence.
            is_after_hole = place_before < (place - 1 if line.process_id is None else place)
            if line.at_ms >= told_ms:
                told_ms = line.at_ms
            else:  # all later events come from a clock that had been behind
                self.behind_ms = told_ms
            if line.fields is not None and _EPOCHS[type(line.fields)]:
                self._learn_epochs(line.fields)
            placed.append(_Placed(line, told_ms, self.behind_ms, is_after_hole, in_order))
        self.latest, self.number, self.began_ms, self.told_ms = latest, number, began_ms, told_ms
        return placed

    def _learn_epochs(self, event: GatewayEvent) -> None:
        for name in _EPOCHS[type(event)]:
            epoch = getattr(event, name)
            if epoch is not None and epoch > 0:
                lowest, highest = self.epoch_min, self.epoch_max
                self.epoch_min = epoch if lowest is None else min(lowest, epoch)
                self.epoch_max = epoch if highest is None else max(highest, epoch)


@dataclass(slots=True)
class Order:
    """Puts the lines of a group in order, and may stop and go on between any two of them."""

    logs: dict[str, _Log] = field(default_factory=dict)
    """By gateway."""
    position: int = 0
    before_ms: int | None = None
    """The time of the latest event."""
    latest: tuple[int, int, str, int, bool, int, str, int, int] | None = None
    """Its order."""
    hole: Moment | None = None
    forced: set[frozenset[str]] = field(default_factory=set)
    """Pairs of logs whose order is known from their epochs."""

    def take(self, lines: Iterable[Line]) -> Iterator[Told]:
        """The next lines, in any order, as events in their order. An unreadable event is a hole.
        Events with an unknown name are no hole: they do not change the meaning of others, and no
        table asks for them. Raises LateLineError: then the state is of no use any more."""
        of_gateways: dict[str, list[tuple[_InSequence, Line]]] = {}
        for line in lines:
            if line.fields is not None or not line.is_known:
                of_gateways.setdefault(line.gateway_id, []).append((_in_sequence(line), line))
        new: dict[str, list[_Placed]] = {}
        for gateway_id, some in of_gateways.items():
            some.sort(key=itemgetter(0))
            new[gateway_id] = self.logs.setdefault(gateway_id, _Log()).take(some)
        if len(self.logs) > 1:
            self._force(new)
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
                    line.gateway_id,
                    line.process_id,
                    line.sequence,
                    placed.told_ms,
                    self.position,
                    self.hole,
                    placed.behind_ms,
                )
        if once:
            self.latest = once[-1].order()

    def _force(self, new: Mapping[str, Sequence["_Placed"]]) -> None:
        """Move each log behind those that end with a lower epoch of the group than it begins with,
        if only clocks that differ contradict that."""
        is_new = self.latest is None
        known = [
            (log.epoch_min, log.epoch_max, gateway_id)
            for gateway_id, log in self.logs.items()
            if log.epoch_min is not None and log.epoch_max is not None
        ]
        known.sort()
        forced_before, self.forced = self.forced, set()
        for rank, (low, high, later) in enumerate(known):
            behind_ms = None
            for _low, high_before, earlier in known[:rank]:
                if not (high_before <= low and high_before < high):
                    continue
                begun_ms = new[later][0].told_ms if is_new else self.logs[later].first_ms
                ended_ms = new[earlier][-1].told_ms if is_new else self.logs[earlier].told_ms
                if ended_ms - begun_ms > CLOCKS_DIFFER_MS_MAX:
                    continue
                self.forced.add(frozenset((earlier, later)))
                if begun_ms <= ended_ms:
                    if not is_new:
                        raise LateLineError
                    behind_ms = ended_ms if behind_ms is None else max(behind_ms, ended_ms)
            if behind_ms is not None:
                for each in new.get(later, ()):
                    each.move_behind(behind_ms, rank)
        if forced_before - self.forced:  # one log had perhaps been moved behind the other
            raise LateLineError


def clusters(started: Iterable[tuple[Line, GatewayStarted]]) -> Mapping[str, str]:
    """The cluster of each gateway, as its latest start names it."""
    in_order = sorted(started, key=lambda each: (each[0].at_ms, each[0].sequence))
    return {line.gateway_id: event.cluster_id or "" for line, event in in_order}


@dataclass(slots=True)
class _Placed:
    line: Line
    told_ms: int
    """The latest time that the gateway had told by then."""
    behind_ms: int | None
    is_after_hole: bool
    in_sequence: _InSequence
    rank: int = 0
    """The order of logs that epochs have moved to the same time."""

    def move_behind(self, ended_ms: int, rank: int) -> None:
        """Move it behind the end of another log; nothing that it tells was earlier."""
        if self.told_ms <= ended_ms:
            self.told_ms, self.rank = ended_ms, rank
        self.behind_ms = ended_ms if self.behind_ms is None else max(self.behind_ms, ended_ms)

    def order(self) -> tuple[int, int, str, int, bool, int, str, int, int]:
        """The order of the events of all gateways."""
        return self.told_ms, self.rank, self.line.gateway_id, *self.in_sequence[1:]


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
        if name in {each.name for each in fields_of(event)}
    ]
    for event in EVENTS.values()
}
"""The fields of each event that have an epoch or a generation of the group."""
