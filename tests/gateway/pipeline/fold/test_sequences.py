"""Missing lines are found, and nothing else is."""

import random
from itertools import pairwise

from coordinator.interface.records import RemovalCause
from gateway.events.gateway_events import GatewayEnded, GatewayStarted
from gateway.events.member_events import MemberLeft
from tests.support.event_writer import START_MS, EventWriter, seconds, without
from tests.support.folded_lines import folded

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
STARTED = GatewayStarted(version="1", bootstrap="h:1", cluster_id="c", brokers=(1,))

Gap = tuple[str, str | None, str, str | None, int, int, float | None, float | None]
"""Cluster, group, gateway, process, first and last missing number, before, after."""


def found(*lines: str) -> list[Gap]:
    """The whole table, sorted."""
    rows = [
        (
            *(row.cluster_id, row.group_id, row.gateway_id, row.process_id),
            *(row.missing_from, row.missing_to, seconds(row.from_ms), seconds(row.to_ms)),
        )
        for row in folded(*lines).sequences
    ]
    return sorted(rows, key=lambda row: (row[2], row[1] or "", row[4]))


def test_gaps_of_groups_and_processes_are_found() -> None:
    """Each sequence counts alone, wherever its lines are and however often they are repeated. One
    that starts late has no gap, and a second gateway has its own numbers."""
    whole, late = EventWriter("g1", "p1", "whole"), EventWriter("g1", "p2", "late")
    broken, other = EventWriter("g1", "p3", "broken"), EventWriter("g2", "p4", "broken")
    whole.gateway(0, STARTED)
    late.lose(10)
    for at_s in (1, 2, 3):
        for writer in (whole, late, broken, other):
            writer.tell(at_s, LEFT)
    broken.lose(1)
    broken.tell(4, LEFT)
    broken.lose(200)
    broken.tell(5, LEFT)
    whole.beside(6, LEFT)
    whole.lose_beside(2)
    whole.gateway(7, GatewayEnded())
    lines = 2 * [line for writer in (whole, late, broken, other) for line in writer.lines]
    random.Random(1).shuffle(lines)
    assert found(*lines) == [
        ("c", None, "g1", "p1", 3, 4, 6, 7),
        ("c", "broken", "g1", None, 4, 4, 3, 4),
        ("c", "broken", "g1", None, 6, 205, 4, 5),
    ]


def test_a_missing_end_of_a_sequence_is_found() -> None:
    """The process's own events show how far the group's sequence had come. A group without lines
    has no gap, and late lines or large numbers cause no error."""
    cut, whole, unseen, endless = (EventWriter(process_id=each, group_id=each) for each in "abcd")
    cut.tell(1, LEFT, LEFT)
    cut.lose(2)
    cut.beside(6, LEFT)
    cut.beside(5, LEFT)
    whole.tell(1, LEFT, LEFT)
    whole.beside(2, LEFT)
    whole.tell(3, LEFT)
    unseen.lose(7)
    unseen.beside(2, LEFT)
    endless.tell(1, LEFT)
    endless.lose((1 << 63) - 2)
    endless.beside(2, LEFT)
    lines = [line for writer in (cut, whole, unseen, endless) for line in writer.lines]
    assert [row[1:2] + row[4:] for row in found(*lines)] == [
        ("a", 3, 4, 1, 5),
        ("d", 2, (1 << 63) - 1, 1, 2),
    ]


def test_a_missing_beginning_of_a_sequence_is_found() -> None:
    """It is found if a process event about the group came earlier. Lines before that event are not
    missing, nor are numbers that the process already knew at its first event."""
    first, later, late, whole = (EventWriter(process_id=each, group_id=each) for each in "abcd")
    first.beside(1, LEFT, LEFT)
    first.lose(1)
    first.tell(3, LEFT)
    later.lose(5)
    later.beside(1, LEFT)
    later.lose(2)
    later.tell(3, LEFT)
    late.lose(5)
    late.beside(1, LEFT)
    late.tell(2, LEFT)
    late.beside(3, LEFT)
    whole.beside(1, LEFT)
    whole.tell(2, LEFT)
    odd = without(first.lines[0]).replace('"after": 0', '"after": -9')
    lines = [line for writer in (first, later, late, whole) for line in writer.lines]
    assert [row[1:2] + row[4:] for row in found(*lines, odd)] == [
        ("a", 1, 1, 1, 3),
        ("b", 6, 7, 1, 3),
    ]


def test_a_restarted_sequence_counts_alone() -> None:
    """The group was deleted. Nothing is missing between the two sequences, but gaps within each are
    found."""
    writer = EventWriter()
    writer.tell(1, LEFT, LEFT, LEFT)
    writer.forget(2)
    writer.beside(2, LEFT)
    writer.tell(3, LEFT)
    writer.lose(1)
    writer.tell(4, LEFT)
    writer.lose(1)
    writer.beside(5, LEFT)
    writer.forget(6)
    writer.tell(6, LEFT)
    gaps = found(*writer.lines)
    assert [row[4:] for row in gaps] == [(2, 2, 3, 4), (4, 4, 4, 5)]


def test_an_impossible_time_makes_a_line_invalid() -> None:
    """Its number counts as missing."""
    writer = EventWriter()
    writer.tell(1, LEFT, LEFT, LEFT)
    lines = [writer.lines[0], writer.lines[1].replace(f"{START_MS + 1000}", f"{1 << 62}")]
    assert lines[1] != writer.lines[1]
    gaps = found(*lines, writer.lines[2])
    assert [row[4:] for row in gaps] == [(2, 2, 1, 1)]


def test_an_unknown_event_is_not_missing() -> None:
    """A later groupferry wrote it. A partial line is missing, however."""
    writer = EventWriter()
    writer.tell(1, LEFT, LEFT, LEFT, LEFT, LEFT, LEFT, LEFT)
    _, unknown, newer, lacking, other, half, _ = range(7)
    lines = list(writer.lines)
    lines[unknown] = lines[unknown].replace('"member_left"', '"member_blinked"')
    lines[newer] = lines[newer].replace('"schema_version":1', '"schema_version":2')
    lines[lacking] = lines[lacking].replace('"member_id":"m",', "")
    lines[other] = lines[other].replace('"member_id":"m"', '"member_id":"m","offsets":[1]')
    lines[half] = lines[half][:-20]
    assert lines[lacking] != writer.lines[lacking]
    assert [row[4:6] for row in found(*lines)] == [(6, 6)]


def test_exactly_the_lost_lines_are_missing() -> None:
    """Long sequences lose random lines and ranges. The result equals that of a plain walk through
    the numbers."""
    dice = random.Random(1)
    kept: dict[str, list[int]] = {}
    lines = []
    for group_id in "abcd":
        writer = EventWriter(group_id=group_id)
        for number in range(1, 401):
            writer.tell(number, LEFT)
        lost = {dice.randrange(1, 401) for _ in range(dice.randrange(12))}
        start = dice.randrange(1, 300)
        lost |= set(range(start, start + dice.randrange(1, 150)))
        kept[group_id] = [n for n in range(1, 401) if n not in lost]
        lines += [writer.lines[n - 1] for n in kept[group_id]]
    dice.shuffle(lines)
    gaps = [(row[1], *row[4:]) for row in found(*lines)]
    assert gaps == [
        (group_id, before + 1, after - 1, before, after)
        for group_id, numbers in kept.items()
        for before, after in pairwise(numbers)
        if after > before + 1
    ]
