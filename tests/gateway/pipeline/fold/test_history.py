"""Each event counts once, in the order in which it happened, whoever wrote it and whenever it was
read."""

import random
from itertools import pairwise

from coordinator.interface.records import EpochCause
from gateway.events.event import GatewayEvent
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import GroupCreated, GroupDeleted, GroupEpochBumped
from gateway.events.member_events import MemberJoined, PartitionsStated
from gateway.pipeline.fold.history import History, Moment, Told
from tests.support.event_writer import GROUP, START_MS, EventWriter, seconds
from tests.support.folded_lines import folds, history_of

CREATED = GroupCreated(kind="consumer")


def of(history: History, *kinds: type[GatewayEvent]) -> list[Told]:
    """The events of these kinds."""
    return [told for told in history.told if isinstance(told.event, kinds)]


def member_id(told: Told) -> str | None:
    return getattr(told.event, "member_id", None)


def joined(member_id: str) -> MemberJoined:
    return MemberJoined(
        member_id=member_id,
        client_id="c",
        client_host="/h",
        instance_id=None,
        protocol="consumer",
    )


def stated(member_id: str) -> PartitionsStated:
    return PartitionsStated(member_id=member_id, member_epoch=1, partitions={})


def test_order_and_repeats_of_lines_do_not_matter() -> None:
    """A restart repeats lines, and files overlap and arrive in any order."""
    writer = EventWriter()
    writer.tell(1, CREATED, joined("a"))
    writer.beside(2, stated("a"))
    writer.tell(2, joined("b"))
    writer.beside(3, stated("b"))
    lines = writer.lines * 2
    random.Random(1).shuffle(lines)
    rows = of(history_of(*lines), GroupCreated, MemberJoined, PartitionsStated)
    assert [(row.event.name, member_id(row)) for row in rows] == [
        ("group_created", None),
        ("member_joined", "a"),
        ("partitions_stated", "a"),
        ("member_joined", "b"),
        ("partitions_stated", "b"),
    ]
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]
    assert [seconds(row.at_ms) for row in rows] == [1, 1, 2, 2, 3]


def test_time_never_goes_back() -> None:
    """The clock of a gateway that takes over may be behind. Its events are later anyway, as the
    group's sequence shows."""
    writer = EventWriter()
    writer.tell(100, CREATED)
    writer.tell(90, joined("a"))
    writer.beside(91, stated("a"))
    writer.tell(120, joined("b"))
    rows = of(history_of(*writer.lines), GroupCreated, MemberJoined, PartitionsStated)
    assert [seconds(row.at_ms) for row in rows] == [100, 100, 100, 120]
    assert [member_id(row) for row in rows] == [None, "a", "a", "b"]


def test_two_gateways_of_one_cluster_share_a_history() -> None:
    """The group moved to another gateway. Groups of another cluster are different groups."""
    lines = []
    for number, (gateway_id, cluster_id) in enumerate((("g1", "c"), ("g2", "c"), ("g3", "other"))):
        writer = EventWriter(gateway_id, f"p{number}")
        started = GatewayStarted(version="1", bootstrap="h:1", cluster_id=cluster_id, brokers=(1,))
        writer.gateway(number, started)
        writer.tell(number, CREATED)
        writer.tell(number + 10, GroupDeleted())
        lines += writer.lines
    told = {
        key: [(row.event, seconds(row.at_ms)) for row in tables.changes]
        for key, tables in folds(*lines)
        if key is not None
    }
    assert told == {
        ("c", GROUP): [("group_created", 0), ("group_created", 1)],
        ("other", GROUP): [("group_created", 2)],
    }


def test_a_history_begins_with_its_first_line() -> None:
    """It has only the requested events."""
    writer = EventWriter()
    writer.lose(7)
    writer.tell(1, GroupEpochBumped(group_epoch=3, cause=EpochCause.MEMBER_JOINED))
    writer.tell(2, joined("a"), joined("b"))
    rows = of(history_of(*writer.lines), MemberJoined)
    assert [member_id(row) for row in rows] == ["a", "b"]
    assert all(later.position == earlier.position + 1 for earlier, later in pairwise(rows))


def test_gaps_are_reported() -> None:
    """They are missing numbers of the group's sequence, which process events may also reveal,
    unreadable events, and a missing beginning, perhaps of a second gateway."""
    writer = EventWriter()
    writer.lose(2)
    writer.tell(1, joined("a"), joined("b"))
    writer.lose(2)
    writer.beside(2, stated("b"))
    writer.beside(2, stated("a"))
    writer.tell(3, joined("c"), joined("d"), joined("e"))
    unreadable = next(line for line in writer.lines if '"d"' in line)
    writer.gateway_id = "another"
    writer.lose()
    writer.tell(4, joined("f"))
    lines = [line for line in writer.lines if line != unreadable]
    lines.append(unreadable.replace('"schema_version":1', '"schema_version":2'))
    rows = of(history_of(*lines), MemberJoined, PartitionsStated)
    assert [(member_id(row), row.hole) for row in rows] == [
        ("a", Moment(0, None)),
        ("b", Moment(0, None)),
        ("b", Moment(2, START_MS + 1_000)),
        ("a", Moment(2, START_MS + 1_000)),
        ("c", Moment(2, START_MS + 1_000)),
        ("e", Moment(5, START_MS + 3_000)),
        ("f", Moment(6, START_MS + 3_000)),
    ]


def test_a_recreated_group_has_another_sequence() -> None:
    """Its numbers restart. They are no repeats, and there is no gap between the sequences."""
    writer = EventWriter()
    writer.tell(1, joined("a"), joined("b"))
    writer.beside(2, stated("b"))
    writer.forget(3)
    writer.beside(3, stated("c"))
    writer.tell(4, joined("d"), joined("e"))
    lines = writer.lines * 2
    random.Random(1).shuffle(lines)
    rows = of(history_of(*lines), MemberJoined, PartitionsStated)
    assert [member_id(row) for row in rows] == ["a", "b", "b", "c", "d", "e"]
    assert [row.hole for row in rows] == [None] * 6


def test_a_complete_history_has_no_gap() -> None:
    """Process events before the group has a sequence reveal no gap, nor do repeats, nor events with
    unknown names."""
    writer = EventWriter()
    writer.beside(1, stated("a"))
    writer.tell(2, CREATED, joined("a"))
    writer.beside(3, stated("a"))
    writer.tell(4, joined("unknown"), joined("b"))
    lines = [
        line.replace('"member_joined"', '"member_blinked"') if "unknown" in line else line
        for line in writer.lines
    ]
    rows = of(history_of(*lines, *lines), MemberJoined, PartitionsStated)
    assert [row.hole for row in rows] == [None] * 4


def test_one_of_two_contradicting_lines_counts() -> None:
    """It is always the same one, in any order of the lines. The earlier time counts."""
    writer, later = EventWriter(), EventWriter()
    writer.tell(1, CREATED, *(joined("a") for _ in range(10)))
    later.lose(9)
    later.tell(900, joined("late"), joined("late"))
    copies = [line.replace('"a"', '"b"') for line in writer.lines[1:]]
    lines = [*writer.lines, *copies, *later.lines]
    found = []
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        rows = of(history_of(*lines), MemberJoined)
        assert {seconds(row.at_ms) for row in rows} == {1}
        found.append([member_id(row) for row in rows])
    assert sorted(set(map(str, found[0]))) == ["a", "b"]
    assert len(found[0]) == 10
    assert found[0] == found[1] == found[2]
