"""Judges whether everything was safe. Faults are a partition with two owners, a commit that
went back or was lost, and a claim without a grant. Others are events that are missing,
contradictory or unreadable, because then the answer is unknown. It is also unknown without any
group. Starts that may have skipped records are listed, but are no fault: the answer to a commit may
have been lost.

Where they mean the same, the names are Jepsen's: lost, skipped, non-monotonic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.report.numbers.evidence import Gravest
from gateway.pipeline.report.wording import beginning
from gateway.pipeline.tables.contradictions import ContradictionRow
from gateway.pipeline.tables.differences import DifferenceRow
from gateway.pipeline.tables.offsets import OffsetRow
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.rejected import RejectedRow
from gateway.pipeline.tables.row import BaseRow
from gateway.pipeline.tables.sequences import SequenceRow
from gateway.pipeline.tables.wrong_starts import WrongStartRow
from gateway.readable import moment, shown

R = TypeVar("R", bound=BaseRow)

EVIDENCE_MAX = 20
"""Faults of one kind that are printed. The tables have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault: how often it was found, and the first EVIDENCE_MAX instances by time."""

    name: str
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
            told.append(f"{self.rejected} lines could not be read")
        return tuple(told)


def judge(digest: Digest) -> Verdict:
    """Judge the findings."""
    found = digest.findings
    return Verdict(
        has_groups=digest.groups > 0,
        rejected=found.rejected_lines.count,
        faults=(
            _fault("partitions owned twice", found.overlaps, _owned_twice),
            _fault("partitions perhaps owned twice", found.unsure, _perhaps_owned_twice),
            _fault("non-monotonic commits", found.non_monotonic, _gone_back),
            _fault("lost commits", found.lost_commits, _wrong_start),
            _fault("starts that may skip records", found.skips, _wrong_start, is_certain=False),
            _fault("claims without a grant", found.differences, _not_granted),
            _fault("gaps in sequences", found.missing_events, _missing),
            _fault("events with two versions", found.contradictions, _contradicted),
            _fault(
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
    name: str, found: Gravest[R], tell: Callable[[R], str], *, is_certain: bool = True
) -> Fault:
    evidence = tuple(map(tell, found.rows[:EVIDENCE_MAX]))
    return Fault(name=name, count=found.count, evidence=evidence, is_certain=is_certain)


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
    return [f"{fault.count} {fault.name}:", *(f"  {line}" for line in fault.evidence), *more]
