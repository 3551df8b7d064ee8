"""Judges whether everything was safe, for a terminal and for the page.

Faults are a partition with two owners, a commit that went back or was lost, and a claim without a
grant. Others are events that are missing, contradictory or unreadable, because then the answer is
unknown. It is also unknown without any group. Starts that may have skipped records are listed, but
are no fault: the answer to a commit may have been lost.

Where they mean the same, the names are Jepsen's: lost, skipped, non-monotonic.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from gateway.pipeline.fold.lines import RejectedRow
from gateway.pipeline.fold.offsets import OffsetRow, WrongStartRow
from gateway.pipeline.fold.ownership import DifferenceRow, OwnershipRow
from gateway.pipeline.fold.row import BaseRow
from gateway.pipeline.fold.sequences import ContradictionRow, SequenceRow
from gateway.pipeline.report.digest import Digest, Gravest
from gateway.pipeline.report.model import ClientVersion, Totals
from gateway.pipeline.report.wording import beginning, counted, number, partition_seconds
from gateway.readable import moment, shown

R = TypeVar("R", bound=BaseRow)

EVIDENCE_MAX = 20
"""Faults of one kind that are printed. The tables have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault: how often it was found, and the first EVIDENCE_MAX instances by time."""

    one: str
    """What one of them is called."""
    name: str
    """What several are called."""
    count: int
    evidence: tuple[str, ...]
    is_certain: bool = True
    """Whether it makes the verdict unsafe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The findings of each kind, including those with none."""

    faults: tuple[Fault, ...]
    has_groups: bool
    """Whether the events are about any group."""
    rejected: int
    """All unreadable lines, whatever they are about."""

    @property
    def is_safe(self) -> bool:
        """Whether there are groups, and no faults."""
        return self.has_groups and not any(
            fault.count and fault.is_certain for fault in self.faults
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict for people."""
        faults = [fault for fault in self.faults if fault.count or self.has_groups]
        told = [line for fault in faults for line in _printed(fault)]
        if not self.has_groups:
            told.append("nothing to judge: the events mention no group")
        if self.rejected:
            told.append(f"{counted(self.rejected, 'line')} could not be read")
        return tuple(told)


def judge(digest: Digest) -> Verdict:
    """Judge the findings."""
    found = digest.findings
    return Verdict(
        has_groups=digest.groups > 0,
        rejected=found.rejected_lines.count,
        faults=(
            _fault("partition owned twice", "partitions owned twice", found.overlaps, _owned_twice),
            _fault(
                "partition perhaps owned twice",
                "partitions perhaps owned twice",
                found.unsure,
                _perhaps_owned_twice,
            ),
            _fault(
                "non-monotonic commit", "non-monotonic commits", found.non_monotonic, _gone_back
            ),
            _fault("lost commit", "lost commits", found.lost_commits, _wrong_start),
            _fault(
                "commit perhaps non-monotonic",
                "commits perhaps non-monotonic",
                found.unsure_commits,
                _gone_back,
            ),
            _fault(
                "commit perhaps lost", "commits perhaps lost", found.unsure_starts, _wrong_start
            ),
            _fault(
                "start that may skip records",
                "starts that may skip records",
                found.skips,
                _wrong_start,
                is_certain=False,
            ),
            _fault(
                "claim without a grant", "claims without a grant", found.differences, _not_granted
            ),
            _fault("gap in a sequence", "gaps in sequences", found.missing_events, _missing),
            _fault(
                "event with two versions",
                "events with two versions",
                found.contradictions,
                _contradicted,
            ),
            _fault(
                "event that could not be read",
                "events that could not be read",
                Gravest(
                    count=digest.unread_events,
                    rows=[row for row in found.rejected_lines.rows if row.is_unread],
                ),
                _not_read,
            ),
        ),
    )


def _fault(
    one: str, name: str, found: Gravest[R], tell: Callable[[R], str], *, is_certain: bool = True
) -> Fault:
    evidence = tuple(map(tell, found.rows[:EVIDENCE_MAX]))
    return Fault(one=one, name=name, count=found.count, evidence=evidence, is_certain=is_certain)


def _owned_twice(row: OwnershipRow) -> str:
    until = "now" if row.to_ms is None else moment(row.to_ms)
    owners = f"{shown(row.member_id)} and {shown(row.other_member_id)}"
    return f"{_partition(row)} had {owners} as {row.basis}, {beginning(row.from_ms)} to {until}"


def _perhaps_owned_twice(row: OwnershipRow) -> str:
    owners = f"{shown(row.other_member_id)} and {shown(row.member_id)}"
    when = f"{beginning(row.from_ms)} to {beginning(row.to_ms)}"
    why = "no event tells whether one had lost it before the other got it"
    return f"{_partition(row)} passed between {owners}, {when}, and {why}"


def _gone_back(row: OffsetRow) -> str:
    known = {"owner": row.owner_id, "offset before": row.before, "owner's start": row.started_at}
    said = ", ".join(f"{name} {shown(each)}" for name, each in known.items() if each is not None)
    who = shown(row.member_id) if row.member_id else "a client outside the group"
    how = "committed in a transaction" if row.is_transactional else "committed"
    when = f"{moment(row.from_ms)} to {moment(row.to_ms)}"
    return f"{_partition(row)} at {row.lowest} {how} by {who} ({said}), {when}, {_line(row)}"


def _wrong_start(row: WrongStartRow) -> str:
    told = "there is none" if row.told is None else row.told
    stored = f"{row.stored} was committed {moment(row.stored_ms)}"
    asked = f"its owner {shown(row.owner_id)} was told {told}, {moment(row.at_ms)}"
    return f"{_partition(row)}: {stored}, {asked}, {_line(row)}"


def _not_granted(row: DifferenceRow) -> str:
    granted = "nobody" if row.granted_to is None else shown(row.granted_to)
    how = "committed for it" if row.said_by == "commit" else "stated it"
    claimed = f"{shown(row.member_id)} {how}, {moment(row.at_ms)}"
    return f"{_partition(row)} was granted to {granted}, {claimed}"


def _missing(row: SequenceRow) -> str:
    numbers = f"events {row.missing_from} to {row.missing_to}"
    when = f"between {moment(row.from_ms)} and {moment(row.to_ms)}"
    return f"{_sequence(row)} lacks {numbers}, {when}"


def _contradicted(row: ContradictionRow) -> str:
    ways = f"{shown(row.event)} and, differently, {shown(row.other_event)}"
    return f"{_sequence(row)} has event {row.sequence} as {ways}, {moment(row.at_ms)}"


def _sequence(row: SequenceRow | ContradictionRow) -> str:
    of_process = row.process_id is not None
    whose = f"process {shown(row.process_id)}" if of_process else f"group {shown(row.group_id)}"
    return f"{whose} at gateway {shown(row.gateway_id)}"


def _not_read(row: RejectedRow) -> str:
    """The problem text is our own, and names only events that we know."""
    place = shown(row.file) if row.place is None else f"{shown(row.file)} {row.place}"
    return f"group {shown(row.group_id)}: {place}: {row.problem}"


def _line(row: OffsetRow | WrongStartRow) -> str:
    """The event that is the evidence."""
    whose = "its sequence" if row.process_id is None else f"process {shown(row.process_id)}"
    return f"event {row.sequence} of {whose} at gateway {shown(row.gateway_id)}"


def _partition(row: OwnershipRow | OffsetRow | WrongStartRow | DifferenceRow) -> str:
    return f"group {shown(row.group_id)}: {shown(row.topic)}-{row.partition}"


def _printed(fault: Fault) -> list[str]:
    """The number of faults, and the instances."""
    if not fault.count:
        return [f"no {fault.name}"]
    rest = fault.count - len(fault.evidence)
    more = [f"  and {rest} more"] if rest else []
    return [
        f"{counted(fault.count, fault.one, fault.name)}:",
        *(f"  {line}" for line in fault.evidence),
        *more,
    ]


Level: TypeAlias = Literal["good", "warning", "bad", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer to one question."""

    level: Level
    answer: str
    evidence: str | None = None
    """The key of its evidence, if there is any."""


_UNSAFE = ("overlaps", "non_monotonic", "lost_commits", "differences")
"""The findings that prove a fault. The others leave it open."""


def headline(totals: Totals) -> Check:
    """Was it safe?"""
    checks = safety(totals)
    broken = [check for check in checks if check.level == "bad"]
    if broken:
        is_unsafe = any(getattr(totals, name) for name in _UNSAFE)
        word = "Not safe" if is_unsafe else "Not proven safe"
        found = "; ".join(_clause(check.answer) for check in broken)
        return Check(level="bad", answer=f"{word}: {found}.")
    if not totals.groups:
        return Check(level="none", answer="Nothing to judge: the events mention no group.")
    safe = "no partition had two owners, and no committed offset went back"
    if any(check.level == "warning" for check in checks):
        return Check(level="warning", answer=f"As far as the events show, {safe}.")
    return Check(level="good", answer=f"Safe: {safe}.")


def safety(totals: Totals) -> Sequence[Check]:
    """The conditions that must hold, and whether the events suffice to check them."""
    check = partial(_check, totals)
    return (
        check(
            "overlaps",
            "No partition had two owners.",
            f"A partition was owned by two members at once ({_times(totals.overlaps)}).",
        ),
        check(
            "unsure",
            "The order of all owners is known.",
            "It is unsure whether a partition had two owners at once"
            f" ({_times(totals.unsure)}): the clocks of two gateways may differ, or a gateway that"
            " was killed in a rebalance may have forgotten the first one.",
        ),
        check(
            "non_monotonic",
            "No committed offset went back, unless the owner of the partition intended it.",
            f"A committed offset went back ({_times(totals.non_monotonic)}).",
        ),
        check(
            "lost_commits",
            "Every owner continued from the latest commit.",
            f"A commit was lost: an owner was told less ({_times(totals.lost_commits)}).",
        ),
        check(
            "unsure_commits" if totals.unsure_commits else "unsure_starts",
            "The order of all commits is known.",
            "It is unsure whether a commit went back or was lost"
            f" ({_times(totals.unsure_commits + totals.unsure_starts)}): the clocks of two gateways"
            " may differ.",
        ),
        check(
            "skips",
            "No owner started beyond the latest commit.",
            "A new owner was told more than what had been committed"
            f" ({_times(totals.skips)}): records were skipped, or the answer to a commit was lost.",
            level="warning",
        ),
        check(
            "differences",
            "All members claimed only partitions that they were granted.",
            f"A member claimed a partition that it was not granted ({_times(totals.differences)}).",
        ),
        check(
            "missing_events",
            "No event is missing.",
            f"{counted(totals.missing_events, 'event is', 'events are')} missing, so what happened"
            " there is unknown.",
        ),
        check(
            "contradictions",
            "No event has two versions.",
            f"{counted(totals.contradictions, 'event has', 'events have')} two versions, and it is"
            " unknown which is true.",
        ),
        _unread_lines(totals),
    )


def _unread_lines(totals: Totals) -> Check:
    """A line of garbage is harmless: if it hid an event of a group, the sequence would have a gap.
    An event with a place in a sequence that cannot be read does hide something."""
    if totals.unread_events:
        wrong = (
            f"{counted(totals.unread_events, 'event')} of a group could not be read, so what"
            " happened there is unknown."
        )
    else:
        wrong = f"{counted(totals.rejected_lines, 'line')} of the input could not be read."
    return _check(
        totals,
        "rejected_lines",
        "All lines of the input could be read.",
        wrong,
        level="bad" if totals.unread_events else "warning",
    )


def outcome(totals: Totals, clients: Sequence[ClientVersion]) -> Iterator[str]:
    """One sentence each on the result, the cost, and which members can go next."""
    yield _progress(totals)
    cost = f"{partition_seconds(totals.unowned_partition_s)} without an owner"
    if totals.migrations and totals.unowned_partition_s:
        cost += f", {number(totals.unowned_in_migrations_partition_s)} of them during migrations"
    yield f"{cost}."
    if totals.unowned_at_end:
        left = counted(totals.unowned_at_end, "partition has", "partitions have")
        yield f"{left} no owner at the end although the group has members; not counted above."
    yield (
        f"{counted(totals.rebalances, 'rebalance')} interrupted members"
        f" {counted(totals.members_disturbed, 'time')};"
        f" {counted(totals.partitions_moved, 'partition')} changed hands,"
        f" where {number(totals.partitions_moved_least)} would have been enough."
    )
    ready, too_old = sum(each.ready for each in clients), sum(each.too_old for each in clients)
    if ready:
        yield f"{counted(ready, 'member')} can switch to the consumer protocol now."
    if too_old:
        yield f"{counted(too_old, 'member')} must be upgraded first: the version is too old."


def _progress(totals: Totals) -> str:
    there = (
        "On the consumer protocol at the end:"
        f" {number(totals.groups_on_consumer)} of {counted(totals.groups, 'group')}"
    )
    others = [
        f"{what}: {number(count)}"
        for count, what in (
            (totals.groups_mixed, "with members of both protocols"),
            (totals.groups_on_classic, "on the classic protocol"),
        )
        if count
    ]
    migrations = counted(totals.migrations, "migration")
    if totals.migrations_back:
        migrations += f", {number(totals.migrations_back)} of them back to the classic protocol"
    if totals.migrations:
        are_all = totals.migrations_complete == totals.migrations > 1
        migrations += f"; {'all' if are_all else number(totals.migrations_complete)} completed"
    return f"{'; '.join((there, *others))}. {migrations}."


def _check(totals: Totals, name: str, right: str, wrong: str, *, level: Level = "bad") -> Check:
    """`name` is that of a total and of its evidence."""
    if not getattr(totals, name):
        return Check(level="good", answer=right)
    return Check(level=level, answer=wrong, evidence=name)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{number(count)} times"


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")
