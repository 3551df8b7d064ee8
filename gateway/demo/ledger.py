"""What really happened, computed from what the clients themselves reported.

Owns the books: how often each record was delivered, who owned each partition when, what was
acknowledged, and where each owner began. Pure: no clock, no IO. Reports of one process come in
order; those of different processes do not, so everything about time is computed from their own
stamps, on demand.

An *owner* of a partition is a process from its assign callback until its revoke (or lost)
callback was done, or it was dead. A *member* is the place in the group that a process fills; its
replacement fills the same place.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from gateway.demo.reports import (
    Assigned,
    Closed,
    Committed,
    Consumed,
    ConsumerReport,
    Lost,
    Revoked,
    Troubled,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One consumer process: which member it is, and the how manyth."""

    member: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A commit of one partition: whose it was, when the answer came, and the offset."""

    process: Process
    at_s: float
    offset: int


class End(Enum):
    """How a process came to own a partition no more."""

    REVOKED = "revoked"
    LOST = "lost"
    CLOSED = "closed"
    DEAD = "dead"


@dataclass(slots=True, kw_only=True)
class Ownership:
    """One process owning one partition for a while; `until_s` is None while it does."""

    partition: int
    process: Process
    since_s: float
    until_s: float | None = None
    end: End | None = None
    lowest_offset: int | None = None
    """Of the records that it consumed meanwhile, and of its commits."""

    def reach(self, offset: int) -> None:
        """Book that the owner was at this offset."""
        if self.lowest_offset is None or offset < self.lowest_offset:
            self.lowest_offset = offset

    def overlaps(self, later: "Ownership") -> bool:
        """Say whether a later ownership began before this one ended."""
        return self.until_s is None or later.since_s < self.until_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What one step did to the group's members and partitions."""

    partitions_moved: int
    """Partitions that another member came to own, even for a moment."""

    members_disturbed: int
    """Members, beside the replaced one, that had to give up a partition, even for a moment."""

    unowned_partition_s: float
    """Seconds without an owner, summed over the partitions."""


class Ledger:
    """The books of one run, in which record n is in partition n modulo their number."""

    def __init__(self, partitions: int) -> None:
        self._acknowledged: list[list[Acknowledged]] = [[] for _ in range(partitions)]
        self._history: list[list[Ownership]] = [[] for _ in range(partitions)]
        self._open: dict[tuple[Process, int], Ownership] = {}
        self._deliveries: Counter[int] = Counter()
        self.acknowledged_commits: dict[int, int] = {}
        """The highest acknowledged commit of each partition."""

    def hear(self, process: Process, report: ConsumerReport) -> None:
        """Book one report."""
        match report:
            case Assigned():
                self._assign(process, report)
            case Revoked():
                self._release(process, report.partitions, report.at_s, End.REVOKED)
            case Lost():
                self._release(process, report.partitions, report.at_s, End.LOST)
            case Closed():
                self._release(process, self._owned_by(process), report.at_s, End.CLOSED)
            case Consumed():
                for start, stop, step in report.runs:
                    self._deliveries.update(range(start, stop, step))
                    self._reach(process, report.partition, start // len(self._history))
            case Committed():
                for partition, offset in report.offsets:
                    known = self.acknowledged_commits.get(partition, 0)
                    self.acknowledged_commits[partition] = max(known, offset)
                    self._acknowledged[partition].append(
                        Acknowledged(process=process, at_s=report.at_s, offset=offset)
                    )
                    self._reach(process, partition, offset)
            case Troubled():
                pass

    def process_ended(self, process: Process, at_s: float) -> None:
        """Book the end of a process: the dead own nothing."""
        self._release(process, self._owned_by(process), at_s, End.DEAD)

    def owners(self) -> dict[int, set[str]]:
        """Return the members that own each partition now, as far as reported."""
        owners: dict[int, set[str]] = {partition: set() for partition in range(len(self._history))}
        for process, partition in self._open:
            owners[partition].add(process.member)
        return owners

    def delivered(self) -> int:
        """Count the deliveries, repeated ones included."""
        return self._deliveries.total()

    def delivered_numbers(self) -> int:
        """Count the record numbers that were delivered at least once."""
        return len(self._deliveries)

    def never_delivered(self, produced: int) -> int:
        """Count the record numbers below `produced` that no process ever got."""
        return sum(number not in self._deliveries for number in range(produced))

    def delivered_again(self) -> int:
        """Count the record numbers that were delivered more than once."""
        return sum(times > 1 for times in self._deliveries.values())

    def owned_twice(self) -> set[int]:
        """Return the partitions that had two owners at any time. There must be none."""
        return {first.partition for first, _ in self.overlaps() if first.end is not End.LOST}

    def held_after_fencing(self) -> set[int]:
        """Return the partitions that a fenced process still held when another got them.

        It was told by nothing but a timer, so it cannot know; its commits are refused. That is
        counted apart from two owners.
        """
        return {first.partition for first, _ in self.overlaps() if first.end is End.LOST}

    def overlaps(self) -> Iterator[tuple[Ownership, Ownership]]:
        """Yield what had two owners, those that were fenced included: the first and the later."""
        for history in self._histories():
            for index, first in enumerate(history):
                for later in history[index + 1 :]:
                    if first.overlaps(later):
                        yield first, later

    def went_back(self) -> set[int]:
        """Return the partitions in which an owner consumed or committed what was done before.

        That is, something below a commit that had been acknowledged before it became the owner,
        unless the one who had committed undid that by itself. What was consumed and not committed
        may come again; what was committed may not.
        """
        return {
            owned.partition
            for history in self._history
            for owned in history
            if owned.lowest_offset is not None
            and owned.lowest_offset < self._committed_before(owned)
        }

    def history(self, partition: int) -> list[Ownership | Acknowledged]:
        """Return who owned a partition and what was acknowledged, in order of time."""
        owned, acknowledged = self._history[partition], self._acknowledged[partition]
        booked: list[Ownership | Acknowledged] = [*owned, *acknowledged]
        return sorted(booked, key=_booked_s)

    def disturbance(self, replaced: str | None, since_s: float, until_s: float) -> Disturbance:
        """Compute what happened from `since_s` to `until_s`, while one member was replaced."""
        moved = 0
        disturbed: set[str] = set()
        unowned_s = 0.0
        for history in self._histories():
            step = [
                each
                for each in history
                if each.since_s < until_s and (each.until_s is None or each.until_s > since_s)
            ]
            moved += any(a.process.member != b.process.member for a, b in pairwise(step))
            disturbed |= {
                each.process.member
                for each in step
                if each.until_s is not None and each.until_s <= until_s
            }
            if history:  # before its first owner a partition misses none
                unowned_s += _unowned_s(step, max(since_s, history[0].since_s), until_s)
        return Disturbance(
            partitions_moved=moved,
            members_disturbed=len(disturbed - {replaced}),
            unowned_partition_s=unowned_s,
        )

    def _assign(self, process: Process, report: Assigned) -> None:
        for partition in report.partitions:
            if (process, partition) not in self._open:
                owned = Ownership(partition=partition, process=process, since_s=report.at_s)
                self._open[process, partition] = owned
                self._history[partition].append(owned)

    def _release(
        self, process: Process, partitions: tuple[int, ...], at_s: float, end: End
    ) -> None:
        for partition in partitions:
            owned = self._open.pop((process, partition), None)
            if owned is not None:
                owned.until_s = at_s
                owned.end = end

    def _reach(self, process: Process, partition: int, offset: int) -> None:
        owned = self._open.get((process, partition))
        if owned is not None:
            owned.reach(offset)

    def _committed_before(self, owned: Ownership) -> int:
        """Return what the owner had to begin from.

        A client sends a commit that was refused for the moment once more, and may have sent a newer
        one meanwhile: so of each process the last answer counts, not the highest offset. When it
        heard the answer says little of when the commit was stored.
        """
        last: dict[Process, int] = {}
        for each in self._acknowledged[owned.partition]:
            if each.at_s <= owned.since_s:
                last[each.process] = each.offset
            elif each.process in last and each.process != owned.process:
                last[each.process] = min(last[each.process], each.offset)
        return max(last.values(), default=0)

    def _owned_by(self, process: Process) -> tuple[int, ...]:
        return tuple(partition for owner, partition in self._open if owner == process)

    def _histories(self) -> Iterator[list[Ownership]]:
        for history in self._history:
            yield sorted(history, key=lambda each: each.since_s)


def _booked_s(entry: Ownership | Acknowledged) -> float:
    return entry.since_s if isinstance(entry, Ownership) else entry.at_s


def _unowned_s(history: list[Ownership], since_s: float, until_s: float) -> float:
    unowned_s = 0.0
    owned_until_s = since_s
    for each in history:
        unowned_s += max(0.0, each.since_s - owned_until_s)
        owned_until_s = max(owned_until_s, until_s if each.until_s is None else each.until_s)
    return unowned_s + max(0.0, until_s - owned_until_s)
