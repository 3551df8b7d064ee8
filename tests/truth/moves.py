"""Moves a simulated group from one gateway to another, whose log and clock are its own."""

from collections.abc import Sequence, Set
from random import Random

from gateway.events.group_events import GroupLoaded, HostingStarted
from gateway.events.member_events import MemberSnapshot
from gateway.events.offset_events import OffsetsCommitted
from gateway.pipeline.fold.rows import FindingRow
from tests.support.event_writer import EventWriter
from tests.support.folded_lines import fold_texts
from tests.support.simulated_events import SimulatedStep
from tests.support.simulated_lines import shift_times, write, write_reports

CLOCKS_DIFFER_S_MAX = 20.0
REPORTED_WITHIN = 100
"""Steps within which a commit is reported."""
HOSTED_S = 1.0
"""The time between the end of one hosting and the beginning of the next."""


def findings(
    seed: int, steps: Sequence[SimulatedStep], excused: Set[tuple[str, int]]
) -> tuple[list[str], str | None]:
    """What is wrongly called a fault in a run that moves once, and what the group was like at the
    move if a fault is called possible."""
    rng = Random(seed)
    whole = [n for n, step in enumerate(steps) if step.loaded is None and step.is_durable]
    whole = [n for n in whole[len(whole) // 4 :] if not _divides_a_report(steps, n)] or [0]
    place = rng.choice(whole)
    rows = fold_texts(
        *move_gateways(steps, place, rng.uniform(-1, 1) * CLOCKS_DIFFER_S_MAX)
    ).findings
    certain = [row for row in rows if row.is_certain and not _is_excused(row, excused)]
    doubts = [row for row in rows if not row.is_certain and row.kind == "owned_twice"]
    return [f"after a move: {row}" for row in certain], _group_at(steps, place) if doubts else None


def _group_at(steps: Sequence[SimulatedStep], place: int) -> str:
    last = steps[place - 1] if place else None
    if last is None or not last.members:
        return "without a member"
    return "with partitions" if last.holdings else "with members, of which none had a partition"


def _divides_a_report(steps: Sequence[SimulatedStep], place: int) -> bool:
    """Whether commits before and after a move are told together. The second gateway does not know
    those of the first one."""
    began_ms = steps[place].at_ms
    return any(
        isinstance(event, OffsetsCommitted) and event.from_ms < began_ms
        for step in steps[place + 1 : place + REPORTED_WITHIN]
        for _at_ms, event in step.offsets
    )


def _is_excused(row: FindingRow, excused: Set[tuple[str, int]]) -> bool:
    return (row.topic, row.partition) in excused or row.kind == "claim_without_grant"


def move_gateways(steps: Sequence[SimulatedStep], place: int, ahead_s: float) -> list[str]:
    """The lines of both gateways; the second one's clock is so far ahead. The first one ends by its
    own will."""
    first, second = EventWriter("g", "first"), EventWriter("h", "second")
    before, after = steps[:place], steps[place:]
    write(before, first)
    end_s = before[-1].at_ms / 1000 if before else 0.0
    write_reports(after[0], first)  # of what was committed by then
    first.end(end_s)
    begin_s = end_s + HOSTED_S + ahead_s
    second.forget(begin_s)
    started = HostingStarted(reason="it moved", anchor_generation=first.run + 1)
    second.beside(begin_s, started, _loaded_group(before[-1] if before else None))
    for number, step in enumerate(after):
        at_s = step.at_ms / 1000 + HOSTED_S + ahead_s
        if step.loaded is not None:
            second.restart(f"second {number}")
            second.beside(at_s, HostingStarted(reason="it is free", anchor_generation=None))
        if number:
            for event_s, event in step.offsets:
                shifted_event = shift_times(event, HOSTED_S + ahead_s)
                second.beside(event_s / 1000 + HOSTED_S + ahead_s, shifted_event)
        tell = second.emit if step.is_durable else second.beside
        tell(at_s, *(shift_times(event, HOSTED_S + ahead_s) for event in step.events))
    second.end(after[-1].at_ms / 1000 + HOSTED_S + ahead_s)
    return [*first.lines, *second.lines]


def _loaded_group(step: SimulatedStep | None) -> GroupLoaded:
    """What the second gateway finds."""
    partitions: dict[str, dict[str, list[int]]] = {}
    for (topic, number), member_id in step.holdings.items() if step else ():
        partitions.setdefault(member_id, {}).setdefault(topic, []).append(number)
    members = tuple(
        MemberSnapshot(
            member_id=member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host="/h",
            protocol="consumer",
            member_epoch=None,
            partitions={
                topic: tuple(sorted(numbers))
                for topic, numbers in partitions.get(member_id, {}).items()
            },
        )
        for member_id, member in sorted(step.members.items() if step else ())
    )
    return GroupLoaded(kind=None, state="Stable", group_epoch=0, members=members)
