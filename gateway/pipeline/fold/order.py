"""Orders the lines of a group.

One gateway's log orders itself: by the group's own sequence, with the lines of a process at the
number that they name. Commits stand where the cluster stored them, not where they were told.

Logs of different gateways are merged by their clocks, which may differ by a minute, as far as no
line states their order: the cluster has one anchor at a time, so the generations with which anchors
joined order the beginnings of hostings, and a hosting that ended by its gateway's own will ended
before the next one began.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gateway.pipeline.fold.lines import Line

CLOCKS_DIFFER_MS_MAX = 60_000
"""How far the clocks of two gateways may differ."""
REPORT_DELAY_MS_MAX = 60_000
"""How long after it was stored a commit is reported at the latest."""

Key: TypeAlias = tuple[int, int, int, int, int, int]


def key_of(line: Line) -> Key:
    """The place of a line in its log: the beginning of the group's sequence, the number, lines of a
    process behind those of the group, and their time, run and number."""
    if line.process_id is None:
        return line.began_ms or 0, line.sequence, 0, line.at_ms, line.run or 0, 0
    number, at_ms, began_ms = line.after or 0, line.at_ms, line.began_ms or 0
    if line.event == "offsets_committed" and line.fields is not None:
        to_ms, last_sequence = line.fields.to_ms, line.fields.last_sequence
        if to_ms < at_ms:
            at_ms = max(to_ms, at_ms - REPORT_DELAY_MS_MAX)
        if last_sequence is not None and last_sequence < number:
            number = last_sequence
    if not number:  # without a sequence of the group, `began_ms` is the time of the line
        began_ms = min(began_ms, at_ms) if began_ms else at_ms
    return began_ms, number, 1, at_ms, line.run or 0, line.sequence


@dataclass(slots=True, eq=False)
class Hosting:
    """One hosting of the group, or the lines of one log in which no gateway hosts it."""

    gateway_id: str
    run: int
    number: int | None
    first_ms: int
    last_ms: int
    generation: int | None = None
    """The anchor's generation when it joined."""
    end: str | None = None
    """The cause that `hosting_ended` names."""
    not_before_ms: int = 0
    """The end of all hostings that are known to have come earlier."""


_OWN_WILL = frozenset(("released", "group_deleted", "gateway_ended", "forgotten"))
"""The ends of hostings by their gateways' own will, before others could begin."""

Relation: TypeAlias = Literal["before", "starts before", "after", "starts after", "unknown"]
_REVERSED: dict[Relation, Relation] = {
    "before": "after",
    "starts before": "starts after",
    "after": "before",
    "starts after": "starts before",
    "unknown": "unknown",
}


def relation(one: Hosting, other: Hosting) -> Relation:
    """How two hostings in different logs are ordered, as far as that is certain."""
    if one.last_ms + CLOCKS_DIFFER_MS_MAX < other.first_ms:
        return "before"
    if other.last_ms + CLOCKS_DIFFER_MS_MAX < one.first_ms:
        return "after"
    apart_ms = other.first_ms - one.first_ms
    if one.number is None or other.number is None:
        return "unknown"  # the cluster had the group: both gateways may forward it
    if abs(apart_ms) > CLOCKS_DIFFER_MS_MAX:
        is_first = apart_ms > 0
    elif None not in (one.generation, other.generation) and one.generation != other.generation:
        generations = one.generation or 0, other.generation or 0
        is_first = generations[0] < generations[1]
        if is_first != (apart_ms > 0) and min(generations) <= 1:
            return "unknown"  # the cluster may have forgotten the group in between
    else:
        return "unknown"
    how: Relation = "before" if (one if is_first else other).end in _OWN_WILL else "starts before"
    return how if is_first else _REVERSED[how]


class Source(Struct, frozen=True):
    """A line in its place, as a finding names it."""

    at_ms: int
    """Never decreases within a group, whatever the clocks did."""
    hosting: Hosting
    process_id: str | None
    sequence: int
    clock_ms: int
    """What the gateway's clock showed."""
    number: int
    """The number of the group's sequence that it has, or that it follows."""

    @property
    def gateway_id(self) -> str:
        """The log that the line is in."""
        return self.hosting.gateway_id

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that name the line."""
        names = ("gateway_id", "process_id", "sequence")
        return {name: getattr(self, name) for name in names}


class EventFold:
    """A part of the fold of a group. Its method `_on_NAME` takes the event NAME."""

    handlers: ClassVar[Mapping[str, Callable[..., None]]]

    def __init_subclass__(cls) -> None:
        methods = vars(cls).items()
        cls.handlers = {
            name.removeprefix("_on_"): method for name, method in methods if name.startswith("_on_")
        }


class OutOfOrderError(Exception):
    """The lines of a group need all to be in memory: their times do not order them."""


@dataclass(slots=True)
class LogHostings:
    """The lines of one gateway about the group, each once and in their order."""

    key: Key = (0,) * 6
    at_ms: int = 0
    hostings: list[Hosting] = field(default_factory=list)

    def place(self, key: Key, line: Line) -> Source:
        """The place of the next line. Raises OutOfOrderError if it comes too late."""
        if key < self.key:
            raise OutOfOrderError
        self.key = key
        at_ms = self.at_ms = max(self.at_ms, key[3])
        fields, clock_ms = line.fields, line.at_ms
        hosting = self.hostings[-1] if self.hostings else None
        if hosting is None or hosting.run != (line.run or 0) or hosting.number != line.hosting:
            hosting = Hosting(line.gateway_id, line.run or 0, line.hosting, at_ms, at_ms)
            self.hostings.append(hosting)
        hosting.last_ms = at_ms
        if fields is None:
            pass
        elif line.event == "offsets_committed":
            clock_ms = fields.to_ms
        elif line.event in ("hosting_started", "anchor_joined"):
            hosting.generation = fields.anchor_generation
        elif line.event == "hosting_ended":
            hosting.end = fields.cause
        return Source(at_ms, hosting, line.process_id, line.sequence, clock_ms, key[1])


def in_memory(lines: Iterable[Line]) -> tuple[list[tuple[Line, Source]], "Hostings"]:
    """All lines of a group in their places, with what is known of its hostings."""
    lines_by_log: dict[str, list[tuple[Key, Line]]] = {}
    for line in lines:
        lines_by_log.setdefault(line.gateway_id, []).append((key_of(line), line))
    placed: list[list[tuple[Line, Source]]] = []
    logs: list[LogHostings] = []
    for waiting in lines_by_log.values():
        waiting.sort(key=itemgetter(0))
        log = LogHostings()
        placed.append([(line, log.place(key, line)) for key, line in waiting])
        logs.append(log)
    hostings = Hostings(logs)
    if len(placed) == 1:
        return placed[0], hostings
    merged = [item for log_lines in placed for item in hostings.move_behind(log_lines)]
    merged.sort(key=itemgetter(0, 1))  # stable: each log stays in its order
    return [(line, source) for _at_ms, _is_moved, line, source in merged], hostings


class Hostings:
    """The hostings of a group in all logs."""

    def __init__(self, logs: Sequence[LogHostings]) -> None:
        self._relations: dict[tuple[int, int], Relation] = {}
        self._succeeded: set[int] = set()
        """The hostings at whose end another log has hosted the group."""
        for one_log, other_log in combinations(logs, 2):
            for one in one_log.hostings:
                for other in _near(one, other_log.hostings):
                    self._relate(one, other, relation(one, other))
                    if None not in (one.number, other.number):
                        apart_ms = other.last_ms - one.last_ms
                        if apart_ms >= -CLOCKS_DIFFER_MS_MAX:
                            self._succeeded.add(id(one))
                        if apart_ms <= CLOCKS_DIFFER_MS_MAX:
                            self._succeeded.add(id(other))
            self._infer_order(one_log.hostings, other_log.hostings)
            self._infer_order(other_log.hostings, one_log.hostings)

    def _infer_order(self, ones: Sequence[Hosting], others: Sequence[Hosting]) -> None:
        """What precedes a hosting in its log came before all that follows it."""
        first = len(others)
        for one in reversed(ones):
            before = (n for n in range(first) if self.relation(one, others[n]) == "before")
            first = next(before, first)
            for other in others[first:]:
                if self._relations.get((id(one), id(other))) not in (None, "before", "after"):
                    self._relate(one, other, "before")

    def _relate(self, one: Hosting, other: Hosting, how: Relation) -> None:
        self._relations[id(one), id(other)] = how
        self._relations[id(other), id(one)] = _REVERSED[how]
        if how == "before":
            other.not_before_ms = max(other.not_before_ms, one.last_ms)
        elif how == "after":
            one.not_before_ms = max(one.not_before_ms, other.last_ms)

    def move_behind(
        self, placed: Iterable[tuple[Line, Source]]
    ) -> Iterator[tuple[int, bool, Line, Source]]:
        """The lines of a log with their times and whether they were moved behind the hostings that
        came earlier, because clocks contradict that."""
        not_before_ms = 0
        for line, source in placed:
            not_before_ms = max(not_before_ms, source.hosting.not_before_ms)
            at_ms = max(source.at_ms, not_before_ms)
            yield at_ms, at_ms == not_before_ms, line, replace(source, at_ms=at_ms)

    def relation(self, one: Hosting, other: Hosting) -> Relation:
        """How two hostings are ordered."""
        if one is other or one.gateway_id == other.gateway_id:
            return "before" if (one.first_ms, one.run) <= (other.first_ms, other.run) else "after"
        how = self._relations.get((id(one), id(other)))
        if how is not None:
            return how
        return "before" if one.last_ms < other.first_ms else "after"

    def has_successor(self, hosting: Hosting) -> bool:
        """Whether another log has hosted the group around the end of a hosting."""
        return id(hosting) in self._succeeded

    def is_certain(self, one: Source, other: Source) -> bool:
        """Whether the order of two lines is certain."""
        if one.gateway_id == other.gateway_id:
            return True
        if abs(one.at_ms - other.at_ms) > CLOCKS_DIFFER_MS_MAX:
            return True
        return self.relation(one.hosting, other.hosting) in ("before", "after")


NO_HOSTINGS = Hostings(())
"""The hostings of a group with one log, whose lines are in order without them."""


def _near(hosting: Hosting, others: Sequence[Hosting]) -> Iterator[Hosting]:
    """The hostings of another log whose order with this one cannot be told from clocks alone."""
    first = bisect_left(
        others, hosting.first_ms - CLOCKS_DIFFER_MS_MAX, key=lambda other: other.last_ms
    )
    for other in others[first:]:
        if other.first_ms > hosting.last_ms + CLOCKS_DIFFER_MS_MAX:
            return
        yield other
