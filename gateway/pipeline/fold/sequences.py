"""Checks the numbers of lines: which are missing, and which have two versions."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from pydantic import TypeAdapter

from gateway.pipeline.fold.history import LateLineError
from gateway.pipeline.fold.lines import TEXT_MAX, Line
from gateway.pipeline.fold.row import BaseRow


@dataclass(slots=True, kw_only=True)
class OfSequence(BaseRow):
    """A row about the sequence of a group or of a process."""

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str | None
    """The group whose sequence it is; null for the sequence of a process."""
    gateway_id: str
    process_id: str | None
    """The process whose sequence it is; null for the sequence of a group."""


@dataclass(slots=True, kw_only=True)
class SequenceRow(OfSequence):
    """Gaps in the sequences of events: numbers of lines that were written but are not there.

    Only the envelope is read, so an event that this version does not know is not a gap.

    Numbers without a line. Numbers before the first line of a sequence, or after the last, are not
    missed, unless it is a group's sequence and an event beside it shows that the sequence had begun
    earlier, or had gone further.
    """

    missing_from: int
    """The first missing number."""
    missing_to: int
    """The last missing number."""
    from_ms: int
    """The time of the event before them, in milliseconds since 1970 (UTC)."""
    to_ms: int
    """The time of the event after them, in milliseconds since 1970 (UTC)."""


class SequenceKey(NamedTuple):
    """The key of a sequence, which belongs to a group or to a process."""

    gateway_id: str
    group_id: str | None
    process_id: str | None
    began_ms: int | None
    """For a group's sequence."""


class Number(NamedTuple):
    """A number that a line has."""

    sequence: int
    at_ms: int
    event: str
    content: int
    """A hash of the line."""
    is_good: bool
    """Whether the event can be read."""


def key_of(line: Line) -> SequenceKey:
    """The sequence of a line."""
    if line.is_beside:
        return SequenceKey(line.gateway_id, None, line.process_id, None)
    return SequenceKey(line.gateway_id, line.group_id, None, line.began_ms)


def number_of(line: Line) -> Number:
    """The number of a line."""
    event = line.event[:TEXT_MAX]
    return Number(line.sequence, line.at_ms, event, line.content, line.fields is not None)


def sequences(
    cluster_id: str,
    key: SequenceKey,
    numbers: Sequence[Number],
    reached: Iterable[tuple[int, int]] = (),
) -> Iterator[SequenceRow]:
    """The gaps of one sequence, whose numbers are sorted; repeated lines change nothing. For a
    group's sequence, `reached` are the numbers that it had reached according to events beside it,
    with the times of these events."""
    told_ms = _first_ms((each.sequence, each.at_ms) for each in numbers)
    reached_ms = _first_ms(reached)
    for missing_from, missing_to in _missing(list(told_ms), reached_ms):
        before = missing_from - 1
        # An event beside the sequence comes after the number that it names.
        from_ms = _least(told_ms.get(before), reached_ms.get(before))
        to_ms = _least(told_ms.get(missing_to + 1), reached_ms.get(missing_to))
        if from_ms is not None and to_ms is not None:
            yield SequenceRow(
                cluster_id=cluster_id,
                group_id=key.group_id,
                gateway_id=key.gateway_id,
                process_id=key.process_id,
                missing_from=missing_from,
                missing_to=missing_to,
                from_ms=from_ms,
                to_ms=to_ms,
            )


def _first_ms(marks: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The earliest time at each number."""
    found: dict[int, int] = {}
    for number, at_ms in marks:
        found[number] = min(found.get(number, at_ms), at_ms)
    return found


def _missing(numbers: Sequence[int], reached: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The missing numbers as ranges. Numbers before the first line are missing if an event beside
    the sequence shows a lower number; those after its last line, if one shows a higher number."""
    if not numbers:
        return
    known = [number for number in reached if number >= 0]
    if known and min(known) + 1 < numbers[0]:
        yield min(known) + 1, numbers[0] - 1
    for number, following in pairwise(numbers):
        if number + 1 < following:
            yield number + 1, following - 1
    if known and max(known) > numbers[-1]:
        yield numbers[-1] + 1, max(known)


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


@dataclass(slots=True, kw_only=True)
class ContradictionRow(OfSequence):
    """Sequence numbers with two lines that differ: only one of them can be what the gateway wrote.

    A repeated line is identical to the byte. Unreadable lines are in `rejected`.

    One number. The tables use the one of its lines with the earliest time.
    """

    sequence: int
    """The sequence number."""
    event: str
    """The event in one of the lines."""
    other_event: str
    """The event in another line; it may have the same name and differ in its fields."""
    at_ms: int
    """The earliest time in those lines, in milliseconds since 1970 (UTC)."""


def contradictions(
    cluster_id: str, key: SequenceKey, numbers: Iterable[Number]
) -> Iterator[ContradictionRow]:
    """The contradictions in one sequence, whose numbers are sorted."""
    versions: dict[int, list[Number]] = {}
    for one, other in pairwise(number for number in numbers if number.is_good):
        if one.sequence == other.sequence:
            versions.setdefault(one.sequence, [one]).append(other)
    for sequence, some in versions.items():
        in_order = sorted(some, key=attrgetter("content"))
        if in_order[0].content == in_order[-1].content:
            continue
        yield ContradictionRow(
            cluster_id=cluster_id,
            group_id=key.group_id,
            gateway_id=key.gateway_id,
            process_id=key.process_id,
            sequence=sequence,
            event=in_order[0].event,
            other_event=in_order[-1].event,
            at_ms=min(number.at_ms for number in in_order),
        )


@dataclass(slots=True)
class Run:
    """Numbers without a gap between them, with the times of the first and the last."""

    first: int
    last: int
    first_ms: int
    last_ms: int


@dataclass(slots=True)
class ProcessFold:
    """The fold of a process's sequence. Its state grows with gaps and contradictions only."""

    runs: list[Run] = field(default_factory=list)
    found: list[ContradictionRow] = field(default_factory=list)

    def take(self, key: SequenceKey, numbers: Iterable[Number]) -> None:
        """Take further numbers, which are sorted. Raises LateLineError if it has had one of them,
        because only the lines tell whether they are the same."""
        same: list[Number] = []
        for each in numbers:
            if same and each.sequence == same[0].sequence:
                same.append(each)
                continue
            self.found += contradictions("", key, same) if len(same) > 1 else ()
            same = [each]
            self._add(each.sequence, each.at_ms)
        self.found += contradictions("", key, same)

    def finish(
        self, cluster_id: str, key: SequenceKey
    ) -> tuple[list[SequenceRow], list[ContradictionRow]]:
        """All rows, as if nothing followed."""
        gaps = [
            SequenceRow(
                cluster_id=cluster_id,
                group_id=None,
                gateway_id=key.gateway_id,
                process_id=key.process_id,
                missing_from=before.last + 1,
                missing_to=after.first - 1,
                from_ms=before.last_ms,
                to_ms=after.first_ms,
            )
            for before, after in pairwise(self.runs)
        ]
        return gaps, [replace(row, cluster_id=cluster_id) for row in self.found]

    def _add(self, number: int, at_ms: int) -> None:
        runs = self.runs
        if runs and number == runs[-1].last + 1:
            runs[-1].last, runs[-1].last_ms = number, at_ms
            return
        place = bisect_right(runs, number, key=attrgetter("first"))
        before = runs[place - 1] if place else None
        after = runs[place] if place < len(runs) else None
        if before is not None and number <= before.last:
            raise LateLineError
        if before is not None and number == before.last + 1:
            before.last, before.last_ms = number, at_ms
            if after is not None and number + 1 == after.first:
                before.last, before.last_ms = after.last, after.last_ms
                del runs[place]
        elif after is not None and number + 1 == after.first:
            after.first, after.first_ms = number, at_ms
        else:
            runs.insert(place, Run(number, number, at_ms, at_ms))


PROCESS_STATES: TypeAdapter[ProcessFold] = TypeAdapter(ProcessFold)
"""States of processes in JSON."""
