"""What really happened, computed from the clients' own reports.

The ledger counts the deliveries of each record, and knows the owners of each partition over time,
the acknowledged commits, and where each owner began. Pure: no clock, no IO. Reports of one process
come in order, but those of different processes do not. Everything about time is therefore computed
from the reports' timestamps, on demand.

An *owner* of a partition is a process, from its assign callback until its revoke (or lost) callback
has returned, or the process is dead. A *member* is a place in the group that a process fills; its
replacement fills the same place.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ConsumedReport,
    ConsumerReport,
    LostReport,
    RevokedReport,
    TroubledReport,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One consumer process: its member, and its number among the member's processes."""

    member: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """An acknowledged commit for one partition: its process, the time of the answer, and the
    offset."""

    process: Process
    at_s: float
    offset: int


class End(Enum):
    """How an ownership ended."""

    REVOKED = "revoked"
    LOST = "lost"
    CLOSED = "closed"
    DEAD = "dead"


@dataclass(slots=True, kw_only=True)
class Ownership:
    """The ownership of a partition by a process; `until_s` is None while it lasts."""

    partition: int
    process: Process
    since_s: float
    until_s: float | None = None
    end: End | None = None
    lowest_offset: int | None = None
    """The lowest offset that the owner consumed or committed."""

    def reach(self, offset: int) -> None:
        """Note that the owner was at this offset."""
        if self.lowest_offset is None or offset < self.lowest_offset:
            self.lowest_offset = offset

    def overlaps(self, later: "Ownership") -> bool:
        """Whether a later ownership began before this one ended."""
        return self.until_s is None or later.since_s < self.until_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """The effect of one step on the group's members and partitions."""

    partitions_moved: int
    """Partitions that another member came to own, even for a moment."""

    members_disturbed: int
    """Members besides the replaced one that had to give up a partition, even for a moment."""

    unowned_partition_s: float
    """Seconds without an owner, summed over the partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a rebalance did to one member: how many partitions it gave up, and how many it got."""

    member: str
    gave_up: int
    got: int


class Ledger:
    """The ledger of one run. Record n is in partition n modulo the number of partitions."""

    def __init__(self, partitions: int) -> None:
        self._acknowledged: list[list[Acknowledged]] = [[] for _ in range(partitions)]
        self._history: list[list[Ownership]] = [[] for _ in range(partitions)]
        self._open: dict[tuple[Process, int], Ownership] = {}
        self._deliveries: Counter[int] = Counter()
        self.acknowledged_commits: dict[int, int] = {}
        """The highest acknowledged commit of each partition."""

    def record(self, process: Process, report: ConsumerReport) -> None:
        """Enter one report."""
        match report:
            case AssignedReport():
                self._assign(process, report)
            case RevokedReport():
                self._release(process, report.partitions, report.at_s, End.REVOKED)
            case LostReport():
                self._release(process, report.partitions, report.at_s, End.LOST)
            case ClosedReport():
                self._release(process, self._owned_by(process), report.at_s, End.CLOSED)
            case ConsumedReport():
                for start, stop, step in report.runs:
                    self._deliveries.update(range(start, stop, step))
                    self._reach(process, report.partition, start // len(self._history))
            case CommittedReport():
                for partition, offset in report.offsets:
                    known = self.acknowledged_commits.get(partition, 0)
                    self.acknowledged_commits[partition] = max(known, offset)
                    self._acknowledged[partition].append(
                        Acknowledged(process=process, at_s=report.at_s, offset=offset)
                    )
                    self._reach(process, partition, offset)
            case TroubledReport():
                pass

    def process_ended(self, process: Process, at_s: float) -> None:
        """Enter the end of a process: a dead process owns nothing."""
        self._release(process, self._owned_by(process), at_s, End.DEAD)

    def owners(self) -> dict[int, set[str]]:
        """The members that own each partition now, as far as reported."""
        owners: dict[int, set[str]] = {partition: set() for partition in range(len(self._history))}
        for process, partition in self._open:
            owners[partition].add(process.member)
        return owners

    def count_delivered(self) -> int:
        """The number of deliveries, including repeated ones."""
        return self._deliveries.total()

    def delivered_numbers(self) -> int:
        """The number of records that were delivered at least once."""
        return len(self._deliveries)

    def never_delivered(self, produced: int) -> int:
        """The number of records below `produced` that were never delivered."""
        return sum(number not in self._deliveries for number in range(produced))

    def delivered_again(self) -> int:
        """The number of records that were delivered more than once."""
        return sum(times > 1 for times in self._deliveries.values())

    def owned_twice(self) -> set[int]:
        """The partitions that had two owners at any time. There must be none."""
        return {first.partition for first, _ in self.overlaps() if first.end is not End.LOST}

    def held_after_fencing(self) -> set[int]:
        """The partitions that a fenced process still held when another one got them.

        Only a timer fences it, so it cannot know. Its commits are refused. This is counted apart
        from two owners.
        """
        return {first.partition for first, _ in self.overlaps() if first.end is End.LOST}

    def overlaps(self) -> Iterator[tuple[Ownership, Ownership]]:
        """The pairs of overlapping ownerships, the earlier one first, including fenced owners."""
        for history in self._histories():
            for index, first in enumerate(history):
                for later in history[index + 1 :]:
                    if first.overlaps(later):
                        yield first, later

    def went_back(self) -> set[int]:
        """The partitions in which an owner consumed or committed below an earlier commit.

        That is, below a commit that was acknowledged before it became the owner, unless the
        committer itself went back later. Records that were consumed but not committed may come
        again; committed ones may not.
        """
        return {
            owned.partition
            for history in self._history
            for owned in history
            if owned.lowest_offset is not None
            and owned.lowest_offset < self._committed_before(owned)
        }

    def history(self, partition: int) -> list[Ownership | Acknowledged]:
        """The ownerships and acknowledged commits of a partition, in order of time."""
        owned, acknowledged = self._history[partition], self._acknowledged[partition]
        booked: list[Ownership | Acknowledged] = [*owned, *acknowledged]
        return sorted(booked, key=_booked_s)

    def disturbance(self, replaced: str | None, since_s: float, until_s: float) -> Disturbance:
        """The effects from `since_s` to `until_s`, while one member was replaced."""
        moved = 0
        disturbed: set[str] = set()
        unowned_s = 0.0
        for history in self._histories():
            step = [
                owned
                for owned in history
                if owned.since_s < until_s and (owned.until_s is None or owned.until_s > since_s)
            ]
            moved += any(a.process.member != b.process.member for a, b in pairwise(step))
            disturbed |= {
                owned.process.member
                for owned in step
                if owned.until_s is not None and owned.until_s <= until_s
            }
            if history:  # before its first owner a partition is not unowned
                unowned_s += _unowned_s(step, max(since_s, history[0].since_s), until_s)
        return Disturbance(
            partitions_moved=moved,
            members_disturbed=len(disturbed - {replaced}),
            unowned_partition_s=unowned_s,
        )

    def changes(self, replaced: str | None, since_s: float, until_s: float) -> tuple[Change, ...]:
        """What each member saw between these times, apart from the one that was replaced."""
        gave_up, got = Counter[str](), Counter[str]()
        for owned in itertools.chain.from_iterable(self._history):
            got[owned.process.member] += since_s < owned.since_s <= until_s
            ended_s = owned.until_s
            gave_up[owned.process.member] += ended_s is not None and since_s < ended_s <= until_s
        return tuple(
            Change(member=member, gave_up=gave_up[member], got=got[member])
            for member in sorted(got)
            if member != replaced and (gave_up[member] or got[member])
        )

    def _assign(self, process: Process, report: AssignedReport) -> None:
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
        """The offset that the owner had to begin from.

        A client repeats a commit that was refused temporarily, and may have sent a newer one
        meanwhile. For each process the last answer therefore counts, not the highest offset. The
        time of an answer says little about the time at which the commit was stored.
        """
        last: dict[Process, int] = {}
        for commit in self._acknowledged[owned.partition]:
            if commit.at_s <= owned.since_s:
                last[commit.process] = commit.offset
            elif commit.process in last and commit.process != owned.process:
                last[commit.process] = min(last[commit.process], commit.offset)
        return max(last.values(), default=0)

    def _owned_by(self, process: Process) -> tuple[int, ...]:
        return tuple(partition for owner, partition in self._open if owner == process)

    def _histories(self) -> Iterator[list[Ownership]]:
        for history in self._history:
            yield sorted(history, key=lambda owned: owned.since_s)


def _booked_s(entry: Ownership | Acknowledged) -> float:
    return entry.since_s if isinstance(entry, Ownership) else entry.at_s


def _unowned_s(history: list[Ownership], since_s: float, until_s: float) -> float:
    unowned_s = 0.0
    owned_until_s = since_s
    for owned in history:
        unowned_s += max(0.0, owned.since_s - owned_until_s)
        owned_until_s = max(owned_until_s, until_s if owned.until_s is None else owned.until_s)
    return unowned_s + max(0.0, until_s - owned_until_s)
