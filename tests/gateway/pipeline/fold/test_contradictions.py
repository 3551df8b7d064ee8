"""Equal numbers with different contents are found, but repeats are not."""

import random

from coordinator.interface.records import RemovalCause
from gateway.events.gateway_events import GatewayEnded, GatewayStarted
from gateway.events.member_events import MemberLeft
from tests.support.event_writer import EventWriter, seconds
from tests.support.folded_lines import folded

LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
STARTED = GatewayStarted(version="1", bootstrap="h:1", cluster_id="c", brokers=(1,))


def test_a_number_with_two_contents_is_found() -> None:
    """Member, time or event differ, in a group's sequence or a process's. Repeats, equal numbers of
    another sequence, and garbage are no contradictions."""
    writer, other = EventWriter("g", "p"), EventWriter("h", "q")
    writer.gateway(0, STARTED)
    for number in range(100):
        writer.tell(number, LEFT)
        other.tell(number, MemberLeft(member_id="n", cause=RemovalCause.LEFT))
    writer.beside(100, LEFT, LEFT)
    writer.gateway(101, GatewayEnded())
    another = EventWriter("g", "p")
    another.lose_beside(3)
    another.gateway(101, STARTED)
    _started, first, *_, beside, _, ended = writer.lines
    unreadable = ended.replace('"gateway_ended"', '"gateway_blinked"')
    planted = [
        first.replace('"m"', '"n"'),
        writer.lines[80].replace("279000,", "279001,"),
        beside.replace('"orders"', '"payments"'),
        *another.lines,
    ]
    lines = 2 * [*writer.lines, *other.lines, *planted, first[:-20], unreadable]
    random.Random(1).shuffle(lines)
    table = folded(*lines).contradictions
    rows = sorted(
        (
            (row.cluster_id, row.group_id, row.gateway_id, row.process_id, row.sequence)
            for row in table
        ),
        key=str,
    )
    assert rows == [
        ("c", "orders", "g", None, 1),
        ("c", "orders", "g", None, 80),
        ("c", None, "g", "p", 2),
        ("c", None, "g", "p", 4),
    ]
    found = {(row.process_id, row.sequence): row for row in table}
    assert {found["p", 4].event, found["p", 4].other_event} == {"gateway_ended", "gateway_started"}
    assert seconds(found[None, 80].at_ms) == 79
