"""The history of a group: each event once, in the order in which the events happened.

Removes repeats, which come from two gateways with one state log, from restarts, and from files that
are read twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.offset_events import OffsetsCommitted
from gateway.pipeline.parsing import Line

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


@dataclass(frozen=True, slots=True)
class Told:
    """An event in its place. `at_ms` never decreases within a group, whatever the clocks did."""

    event: GatewayEvent
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
        return self.not_before(commits.from_ms), self.not_before(commits.to_ms)


@dataclass(frozen=True, slots=True)
class History:
    """All events of one group."""

    cluster_id: str
    group_id: str
    told: Sequence[Told]
    forced: AbstractSet[frozenset[str]] = frozenset()
    """Pairs of logs whose order is known from their epochs."""

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


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line of a group, with a hash of its text."""

    line: Line
    content: int


def history(cluster_id: str, group_id: str, lines: Iterable[Numbered]) -> History:
    """Order the lines of a group. An unreadable event is a hole. Events with an unknown name are no
    hole: they do not change the meaning of others, and no table asks for them."""
    readable = [each for each in lines if each.line.fields is not None or not each.line.is_known]
    readable.sort(key=_in_sequence)
    logs = [
        list(_of_gateway(some))
        for _, some in groupby(readable, key=lambda each: each.line.gateway_id)
    ]
    forced = _in_forced_order(logs) if len(logs) > 1 else frozenset()
    once = [placed for log in logs for placed in log]
    once.sort(key=_Placed.order)
    told: list[Told] = []
    hole: Moment | None = None
    before_ms: int | None = None
    for position, each in enumerate(once, 1):
        if each.is_after_hole:
            hole = Moment(position - 1, before_ms)
        line, before_ms = each.line, each.told_ms
        if line.fields is not None:
            told.append(
                Told(
                    event=line.fields,
                    gateway_id=line.gateway_id,
                    process_id=line.process_id,
                    sequence=line.sequence,
                    at_ms=each.told_ms,
                    position=position,
                    hole=hole,
                    behind_ms=each.behind_ms,
                )
            )
    return History(cluster_id, group_id, told, forced)


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
    among_equals: tuple[object, ...]
    rank: int = 0
    """The order of logs that epochs have moved to the same time."""

    def order(self) -> tuple[object, ...]:
        """The order of the events of all gateways."""
        return self.told_ms, self.rank, self.line.gateway_id, _place(self.line), *self.among_equals


def _place(line: Line) -> int:
    """An event beside the group's sequence is placed after the event that it names."""
    return line.sequence if line.after is None else line.after


def _among_equals(each: Numbered) -> tuple[object, ...]:
    """The order of events with the same place. If lines contradict each other, the first one
    counts, and the choice is the same in every run."""
    line = each.line
    return line.is_beside, line.at_ms, line.process_id or "", line.sequence, each.content


def _in_sequence(each: Numbered) -> tuple[object, ...]:
    line = each.line
    began_ms = -1 if line.began_ms is None else line.began_ms
    return line.gateway_id, began_ms, _place(line), *_among_equals(each)


def _of_gateway(lines: Iterable[Numbered]) -> Iterator[_Placed]:
    """The events of one gateway without repeats. A sequence that begins again follows the one
    before it."""
    number_before: tuple[object, ...] | None = None
    began_before: int | None = None
    place_before = told_ms = 0
    behind_ms: int | None = None
    for each in lines:
        line = each.line
        number = (line.process_id, line.began_ms, line.sequence)
        if number == number_before:
            continue
        if line.began_ms != began_before:
            place_before = 0
        number_before, began_before = number, line.began_ms
        place = _place(line)
        # An event beside the sequence carries the number of the latest event in the sequence.
        expected = place if line.is_beside else place - 1
        told_ms = max(told_ms, line.at_ms)
        if told_ms > line.at_ms:  # all later events come from a clock that had been behind
            behind_ms = told_ms
        yield _Placed(
            line=line,
            told_ms=told_ms,
            behind_ms=behind_ms,
            is_after_hole=expected > place_before,
            among_equals=_among_equals(each),
        )
        place_before = place


def _in_forced_order(logs: Sequence[Sequence[_Placed]]) -> AbstractSet[frozenset[str]]:
    """Move each log behind those that end with a lower epoch of the group than it begins with, if
    only clocks that differ contradict that. Returns the pairs whose order this determines."""
    spans = [(*_epochs(log), log) for log in logs]
    known = [(low, high, log) for low, high, log in spans if low is not None and high is not None]
    known.sort(key=lambda each: each[:2])
    forced: set[frozenset[str]] = set()
    for place, (low, high, log) in enumerate(known):
        for _low, high_before, before in known[:place]:
            ended_ms = before[-1].told_ms
            is_later = high_before <= low and high_before < high
            if is_later and ended_ms - log[0].told_ms <= CLOCKS_DIFFER_MS_MAX:
                forced.add(frozenset((before[0].line.gateway_id, log[0].line.gateway_id)))
                for each in log:
                    if each.told_ms >= ended_ms:
                        break
                    each.told_ms = each.behind_ms = ended_ms
                    each.rank = place
    return forced


def _epochs(log: Iterable[_Placed]) -> tuple[int | None, int | None]:
    """The lowest and the highest epoch or generation of the group in a log."""
    found = [
        epoch
        for each in log
        if each.line.fields is not None
        for name in _EPOCHS
        if (epoch := getattr(each.line.fields, name, None)) is not None and epoch > 0
    ]
    return min(found, default=None), max(found, default=None)


_EPOCHS = ("group_epoch", "assignment_epoch", "generation", "member_epoch")
