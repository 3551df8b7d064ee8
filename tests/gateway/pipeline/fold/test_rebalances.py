"""The costs of rebalances: in hand-written histories, and in the simulator."""

from collections.abc import Mapping, Sequence

import pytest

from coordinator.interface.records import EpochCause
from gateway.events.group_events import TopicsDeleted
from gateway.events.member_events import MemberReplaced
from gateway.pipeline.fold.rebalances import RebalanceRow
from tests.support.event_writer import EventWriter, WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded
from tests.support.group_events import (
    AT_REST,
    COMPLETING,
    EMPTY,
    PREPARING,
    REJOIN,
    STABLE,
    TOPIC,
    UP,
    becomes,
    bump,
    converts,
    expires,
    gets,
    gives,
    goes,
    group_goes,
    is_to_give,
    joins,
    leaves,
    target,
)

Course = tuple[str, int | None, str, float, float | None, bool]
"""Kind, epoch, cause, start, end, is superseded."""
Cost = tuple[int, int, int, int, int, int]
"""Members, classic members, disturbed members, disturbed classic members, moved partitions, and the
least possible."""


def a_classic_group(writer: EventWriter) -> None:
    """All remaining members rejoin, whatever moves. `a` has two partitions afterwards and had
    three, `b` has two and had none. Two had to move, but three did."""
    writer.beside(0, joins("a"), group_goes(EMPTY, PREPARING, 0))
    writer.beside(1, group_goes(PREPARING, COMPLETING, 1))
    writer.tell(1, group_goes(COMPLETING, STABLE, 1), gets("a", 0, 1, 2, 3))
    writer.beside(5, joins("b"), group_goes(STABLE, PREPARING, 1))
    writer.beside(7, group_goes(PREPARING, COMPLETING, 2))
    writer.tell(8, group_goes(COMPLETING, STABLE, 2), gives("a", 1, 2, 3), gets("b", 1, 2))
    writer.beside(9, group_goes(STABLE, PREPARING, 2))
    writer.tell(10, group_goes(COMPLETING, STABLE, 3), gives("b", 1), gets("a", 1), gets("b", 3))


def an_interrupted_one(writer: EventWriter) -> None:
    """It ends when the group is Stable. `b` had one partition and has two. It could have kept the
    first, and each of the two that `a` had needed to move."""
    writer.tell(0, group_goes(COMPLETING, STABLE, 1), gets("a", 0, 1), gets("b", 2))
    writer.beside(5, gives("a", 0, 1), leaves("a"), group_goes(STABLE, PREPARING, 1))
    writer.beside(6, group_goes(PREPARING, COMPLETING, 2))
    writer.beside(7, joins("c"), gives("b", 2), group_goes(COMPLETING, PREPARING, 2))
    writer.beside(8, group_goes(PREPARING, COMPLETING, 3))
    writer.tell(9, group_goes(COMPLETING, STABLE, 3), gets("b", 0, 1), gets("c", 2))


def a_consumer_group(writer: EventWriter) -> None:
    """Only the member that has to revoke is disturbed, of three. When one leaves, its partitions
    must move."""
    writer.tell(0, joins("a", "consumer"), joins("b", "consumer"), bump(2), target(2))
    writer.tell(1, gets("a", 0, 1, 2), gets("b", 3))
    writer.tell(5, joins("c", "consumer"), bump(3), target(3))
    writer.tell(6, is_to_give("a", 2))
    writer.tell(7, gives("a", 2))
    writer.tell(8, gets("c", 2))
    writer.tell(20, gives("b", 3), leaves("b"), bump(4, EpochCause.MEMBER_REMOVED))
    writer.tell(22, target(4))
    writer.tell(23, gets("c", 3))


def one_upon_the_other(writer: EventWriter) -> None:
    """Superseded rebalances had no target, unfinished revocations, or released partitions without
    an owner. The last one continues."""
    writer.tell(0, joins("a", "consumer"), bump(2), target(2), gets("a", 0, 1, 2))
    writer.tell(2, joins("b", "consumer"), bump(3))
    writer.tell(3, joins("c", "consumer"), bump(4), target(4), is_to_give("a", 1, 2))
    writer.tell(4, joins("d", "consumer"), bump(5), target(5))
    writer.tell(5, gives("a", 1, 2), gets("b", 1))
    writer.tell(6, joins("e", "consumer"), bump(6), target(6), gets("c", 2))
    writer.tell(7, is_to_give("b", 1))


def a_conversion(writer: EventWriter) -> None:
    """Classic members that rejoin are disturbed. A static member that returns with another id and
    the same partitions is no new owner, and not disturbed."""
    writer.tell(0, group_goes(COMPLETING, STABLE, 1), gets("a", 0, 1), gets("s1", 2), gets("b", 3))
    writer.tell(
        4,
        converts(UP, 3),
        gives("s1", 2),
        becomes("s1", "s2"),
        joins("s2", "consumer", "static"),
        gets("s2", 2),
        bump(2, EpochCause.REBALANCE_INTERRUPTED),
        target(2),
    )
    writer.beside(5, goes("a", AT_REST, REJOIN))
    writer.tell(6, gives("a", 1), goes("a", REJOIN, AT_REST))
    writer.tell(7, gets("s2", 1))


def several_at_once(writer: EventWriter) -> None:
    """Each new group epoch begins a rebalance, even at a conversion."""
    writer.tell(0, group_goes(COMPLETING, STABLE, 1), gets("a", 0, 1))
    writer.tell(4, converts(UP, 1), joins("b", "consumer"), bump(2))
    writer.tell(4, joins("c", "consumer"), bump(3))
    writer.tell(4, leaves("c"), bump(4, EpochCause.MEMBER_REMOVED))
    writer.tell(6, target(4))


def a_topic_goes(writer: EventWriter) -> None:
    """The partitions of a deleted topic move to no member, and a recreated topic is new. After the
    last member has left, nothing remains to do."""
    writer.tell(0, joins("a", "consumer"), bump(2), target(2), gets("a", 0))
    writer.tell(3, TopicsDeleted(topics=(TOPIC,)), bump(3, EpochCause.TOPICS_CHANGED), target(3))
    writer.tell(6, bump(4, EpochCause.TOPICS_CHANGED), target(4), gets("a", 0))
    writer.tell(9, gives("a", 0), expires("a"), bump(5, EpochCause.MEMBER_REMOVED))


def a_static_member_that_comes_back(writer: EventWriter) -> None:
    """Its join begins a rebalance: its partitions are released before that, and assigned to its new
    id after it. They have not moved."""
    writer.tell(0, joins("a", "consumer", "i"), bump(2), target(2), gets("a", 0, 1))
    writer.tell(5, gives("a", 0, 1), becomes("a", "b"), joins("b", "consumer", "i"))
    writer.tell(5, bump(3), target(3), gets("b", 0, 1))


def a_member_that_takes_another_instance(writer: EventWriter) -> None:
    """It replaces itself, which begins the next rebalance, and is one of the members disturbed."""
    writer.tell(0, joins("a", "consumer", "i"), bump(2), target(2), gets("a", 0))
    writer.tell(3, bump(3), target(3), gets("a", 1))
    replaced = MemberReplaced(member_id="a", replaced_by=None)
    writer.tell(5, gives("a", 0, 1), replaced, joins("a", "consumer", "j"), gets("a", 0, 1))
    writer.tell(5, bump(4), target(4))


def a_successor_without_the_partitions(writer: EventWriter) -> None:
    """The next rebalance assigns them. The one before has moved them to the predecessor."""
    writer.tell(0, joins("a", "consumer", "i"), bump(2), target(2), gets("a", 0))
    replaced = MemberReplaced(member_id="a", replaced_by="b")
    writer.tell(5, gives("a", 0), replaced, joins("b", "consumer", "i"), bump(3))
    writer.tell(6, target(3), gets("b", 0))


CASES: Mapping[WriteHistory, Sequence[tuple[Course, Cost]]] = {
    a_classic_group: [
        (("classic", 1, "member_joined", 0, 1, False), (1, 1, 0, 0, 4, 4)),
        (("classic", 2, "member_joined", 5, 8, False), (2, 2, 1, 1, 2, 2)),
        (("classic", 3, "member_rejoined", 9, 10, False), (2, 2, 2, 2, 2, 1)),
    ],
    an_interrupted_one: [
        (("classic", 3, "member_removed", 5, 9, False), (2, 2, 1, 1, 3, 2)),
    ],
    a_consumer_group: [
        (("consumer", 2, "member_joined", 0, 1, False), (2, 0, 0, 0, 4, 4)),
        (("consumer", 3, "member_joined", 5, 8, False), (3, 0, 1, 0, 1, 1)),
        (("consumer", 4, "member_removed", 20, 23, False), (2, 0, 1, 0, 1, 1)),
    ],
    a_static_member_that_comes_back: [
        (("consumer", 2, "member_joined", 0, 0, False), (1, 0, 0, 0, 2, 2)),
        (("consumer", 3, "member_joined", 5, 5, False), (1, 0, 0, 0, 0, 0)),
    ],
    a_member_that_takes_another_instance: [
        (("consumer", 2, "member_joined", 0, 0, False), (1, 0, 0, 0, 1, 1)),
        (("consumer", 3, "member_joined", 3, 5, False), (1, 0, 1, 0, 2, 2)),
        (("consumer", 4, "member_joined", 5, 5, False), (1, 0, 0, 0, 0, 0)),
    ],
    a_successor_without_the_partitions: [
        (("consumer", 2, "member_joined", 0, 0, False), (1, 0, 0, 0, 1, 1)),
        (("consumer", 3, "member_joined", 5, 6, False), (1, 0, 1, 0, 0, 0)),
    ],
    one_upon_the_other: [
        (("consumer", 2, "member_joined", 0, 0, False), (1, 0, 0, 0, 3, 3)),
        (("consumer", 3, "member_joined", 2, None, True), (2, 0, 0, 0, 0, 0)),
        (("consumer", 4, "member_joined", 3, None, True), (3, 0, 1, 0, 0, 0)),
        (("consumer", 5, "member_joined", 4, None, True), (4, 0, 2, 0, 1, 1)),
        (("consumer", 6, "member_joined", 6, None, False), (5, 0, 2, 0, 1, 1)),
    ],
    a_conversion: [
        (("consumer", 2, "rebalance_interrupted", 4, 7, False), (3, 2, 2, 1, 1, 1)),
    ],
    several_at_once: [
        (("consumer", 2, "member_joined", 4, None, True), (2, 1, 0, 0, 0, 0)),
        (("consumer", 3, "member_joined", 4, None, True), (3, 1, 0, 0, 0, 0)),
        (("consumer", 4, "member_removed", 4, 6, False), (2, 1, 0, 0, 0, 0)),
    ],
    a_topic_goes: [
        (("consumer", 2, "member_joined", 0, 0, False), (1, 0, 0, 0, 1, 1)),
        (("consumer", 3, "topics_changed", 3, 3, False), (1, 0, 0, 0, 0, 0)),
        (("consumer", 4, "topics_changed", 6, 6, False), (1, 0, 1, 0, 1, 1)),
        (("consumer", 5, "member_removed", 9, 9, False), (0, 0, 0, 0, 0, 0)),
    ],
}


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[RebalanceRow]]:
    """The rebalances of all histories by group."""
    told: dict[str, WriteHistory] = {case.__name__: case for case in CASES}
    found: dict[str, list[RebalanceRow]] = {group_id: [] for group_id in told}
    for row in folded(*lines_of(told)).rebalances:
        found[row.group_id].append(row)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_hand_written_histories_have_the_expected_rebalances(
    case: WriteHistory, rows: Mapping[str, Sequence[RebalanceRow]]
) -> None:
    """Each history is explained where it is defined."""
    found = [(course(row), cost(row)) for row in rows[case.__name__]]
    assert found == CASES[case]


def course(row: RebalanceRow) -> Course:
    from_s, to_s = seconds(row.from_ms), seconds(row.to_ms)
    assert from_s is not None
    return (row.kind, row.epoch, row.cause, from_s, to_s, row.is_superseded)


def cost(row: RebalanceRow) -> Cost:
    return (
        row.members,
        row.classic_members,
        row.members_disturbed,
        row.classic_members_disturbed,
        row.partitions_moved,
        row.partitions_moved_least,
    )
