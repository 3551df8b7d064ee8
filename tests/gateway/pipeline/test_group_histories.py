"""Each event counts once, in the order in which it happened, whoever wrote it and whenever it was
read."""

import random
from itertools import pairwise

from pyspark.sql import SparkSession

from coordinator.interface.records import EpochCause
from gateway.events.gateway_events import GatewayStarted
from gateway.events.group_events import GroupCreated, GroupDeleted, GroupEpochBumped
from gateway.events.member_events import MemberJoined, PartitionsStated
from tests.support.scribe import GROUP, Scribe, histories, seconds

CREATED = GroupCreated(kind="consumer")


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


def test_order_and_repeats_of_lines_do_not_matter(spark: SparkSession) -> None:
    """A restart repeats lines, and files overlap and arrive in any order."""
    scribe = Scribe()
    scribe.tell(1, CREATED, joined("a"))
    scribe.beside(2, stated("a"))
    scribe.tell(2, joined("b"))
    scribe.beside(3, stated("b"))
    lines = scribe.lines * 2
    random.Random(1).shuffle(lines)
    rows = histories(spark, *lines).of(GroupCreated, MemberJoined, PartitionsStated).collect()
    rows.sort(key=lambda row: row.position)
    assert [(row.event, row.member_id) for row in rows] == [
        ("group_created", None),
        ("member_joined", "a"),
        ("partitions_stated", "a"),
        ("member_joined", "b"),
        ("partitions_stated", "b"),
    ]
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]
    assert [seconds(row.at_ms) for row in rows] == [1, 1, 2, 2, 3]


def test_time_never_goes_back(spark: SparkSession) -> None:
    """The clock of a gateway that takes over may be behind. Its events are later anyway, as the
    group's sequence shows."""
    scribe = Scribe()
    scribe.tell(100, CREATED)
    scribe.tell(90, joined("a"))
    scribe.beside(91, stated("a"))
    scribe.tell(120, joined("b"))
    rows = (
        histories(spark, *scribe.lines).of(GroupCreated, MemberJoined, PartitionsStated).collect()
    )
    rows.sort(key=lambda row: row.position)
    assert [seconds(row.at_ms) for row in rows] == [100, 100, 100, 120]
    assert [row.member_id for row in rows] == [None, "a", "a", "b"]


def test_two_gateways_of_one_cluster_share_a_history(spark: SparkSession) -> None:
    """The group moved to another gateway. Groups of another cluster are different groups."""
    lines = []
    for number, (gateway_id, cluster_id) in enumerate((("g1", "c"), ("g2", "c"), ("g3", "other"))):
        scribe = Scribe(gateway_id, f"p{number}")
        started = GatewayStarted(version="1", bootstrap="h:1", cluster_id=cluster_id, brokers=(1,))
        scribe.gateway(number, started)
        scribe.tell(number, CREATED)
        scribe.tell(number + 10, GroupDeleted())
        lines += scribe.lines
    rows = histories(spark, *lines).of(GroupCreated, GroupDeleted).collect()
    told = sorted((row.cluster_id, row.group_id, row.position, row.gateway_id) for row in rows)
    assert told == [
        ("c", GROUP, 1, "g1"),
        ("c", GROUP, 2, "g2"),
        ("c", GROUP, 3, "g1"),
        ("c", GROUP, 4, "g2"),
        ("other", GROUP, 1, "g3"),
        ("other", GROUP, 2, "g3"),
    ]


def test_a_history_begins_with_its_first_line(spark: SparkSession) -> None:
    """It has only the requested events."""
    scribe = Scribe()
    scribe.lose(7)
    scribe.tell(1, GroupEpochBumped(group_epoch=3, cause=EpochCause.MEMBER_JOINED))
    scribe.tell(2, joined("a"), joined("b"))
    rows = histories(spark, *scribe.lines).of(MemberJoined).collect()
    rows.sort(key=lambda row: row.position)
    assert [row.member_id for row in rows] == ["a", "b"]
    assert all(later.position == earlier.position + 1 for earlier, later in pairwise(rows))
    assert "group_epoch" not in rows[0]


def test_gaps_are_reported(spark: SparkSession) -> None:
    """They are missing numbers of the group's sequence, which process events may also reveal,
    unreadable events, and a missing beginning, perhaps of a second gateway."""
    scribe = Scribe()
    scribe.lose(2)
    scribe.tell(1, joined("a"), joined("b"))
    scribe.lose(2)
    scribe.beside(2, stated("b"))
    scribe.beside(2, stated("a"))
    scribe.tell(3, joined("c"), joined("d"), joined("e"))
    unreadable = next(line for line in scribe.lines if '"d"' in line)
    scribe.gateway_id = "another"
    scribe.lose()
    scribe.tell(4, joined("f"))
    lines = [line for line in scribe.lines if line != unreadable]
    lines.append(unreadable.replace('"schema_version":1', '"schema_version":2'))
    rows = histories(spark, *lines).of(MemberJoined, PartitionsStated).collect()
    rows.sort(key=lambda row: row.position)
    assert [(row.member_id, row.hole.position, seconds(row.hole.at_ms)) for row in rows] == [
        ("a", 0, None),
        ("b", 0, None),
        ("b", 2, 1),
        ("a", 2, 1),
        ("c", 2, 1),
        ("e", 5, 3),
        ("f", 6, 3),
    ]


def test_a_recreated_group_has_another_sequence(spark: SparkSession) -> None:
    """Its numbers restart. They are no repeats, and there is no gap between the sequences."""
    scribe = Scribe()
    scribe.tell(1, joined("a"), joined("b"))
    scribe.beside(2, stated("b"))
    scribe.forget(3)
    scribe.beside(3, stated("c"))
    scribe.tell(4, joined("d"), joined("e"))
    lines = scribe.lines * 2
    random.Random(1).shuffle(lines)
    rows = histories(spark, *lines).of(MemberJoined, PartitionsStated).collect()
    rows.sort(key=lambda row: row.position)
    assert [row.member_id for row in rows] == ["a", "b", "b", "c", "d", "e"]
    assert [row.hole for row in rows] == [None] * 6


def test_a_complete_history_has_no_gap(spark: SparkSession) -> None:
    """Process events before the group has a sequence reveal no gap, nor do repeats, nor events with
    unknown names."""
    scribe = Scribe()
    scribe.beside(1, stated("a"))
    scribe.tell(2, CREATED, joined("a"))
    scribe.beside(3, stated("a"))
    scribe.tell(4, joined("unknown"), joined("b"))
    lines = [
        line.replace('"member_joined"', '"member_blinked"') if "unknown" in line else line
        for line in scribe.lines
    ]
    rows = histories(spark, *lines, *lines).of(MemberJoined, PartitionsStated).collect()
    assert [row.hole for row in rows] == [None] * 4


def test_one_of_two_contradicting_lines_counts(spark: SparkSession) -> None:
    """It is always the same one, in any order of the lines. The earlier time counts."""
    scribe, later = Scribe(), Scribe()
    scribe.tell(1, CREATED, *(joined("a") for _ in range(10)))
    later.lose(9)
    later.tell(900, joined("late"), joined("late"))
    copies = [line.replace('"a"', '"b"') for line in scribe.lines[1:]]
    lines = [*scribe.lines, *copies, *later.lines]
    found = []
    for seed in range(3):
        random.Random(seed).shuffle(lines)
        rows = histories(spark, *lines).of(MemberJoined).collect()
        assert {seconds(row.at_ms) for row in rows} == {1}
        found.append([row.member_id for row in sorted(rows, key=lambda row: row.position)])
    assert sorted(set(found[0])) == ["a", "b"]
    assert len(found[0]) == 10
    assert found[0] == found[1] == found[2]
