"""Members and their states over time: in hand-written histories, and in the simulator."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from gateway.events.group_events import (
    GroupAdopted,
    GroupCreated,
    GroupForwarded,
    HostingStarted,
    TopicsDeleted,
)
from gateway.events.member_events import ClientSeen
from gateway.pipeline.fold.timeline import TimelineRow
from tests.support.event_writer import EventWriter, WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded
from tests.support.group_events import (
    AT_REST,
    COMPLETING,
    DOWN,
    EMPTY,
    PREPARING,
    REJOIN,
    STABLE,
    SYNC,
    TOPIC,
    UP,
    becomes,
    bump,
    converts,
    gets,
    gives,
    goes,
    group_goes,
    is_to_give,
    joins,
    leaves,
    speaks,
    switches,
    target,
)

Interval = tuple[
    str | None, str | None, str | None, str | None, float | None, float | None, str | None
]
"""Member, kind, protocol, state, start (None: before the first event), end, cause of the end."""


def a_classic_group(writer: EventWriter) -> None:
    """A member has the classic group's state from its join until it leaves."""
    writer.beside(0, GroupCreated(kind="classic"))
    writer.beside(1, joins("a"), group_goes(EMPTY, PREPARING))
    writer.beside(2, group_goes(PREPARING, COMPLETING))
    writer.tell(3, group_goes(COMPLETING, STABLE), gets("a", 0))
    writer.beside(7, gives("a", 0), leaves("a"), group_goes(STABLE, PREPARING))
    writer.tell(7, group_goes(PREPARING, EMPTY, 2))


def a_roll_of_one(writer: EventWriter) -> None:
    """A classic member of a consumer group has its own rebalances. In a classic group it has the
    group's state again."""
    writer.tell(0, GroupCreated(kind="consumer"), joins("n", "consumer"), bump(2), target(2))
    writer.tell(0, gets("n", 0, 1))
    writer.tell(2, joins("a"), bump(3), goes("a", AT_REST, SYNC))
    writer.beside(3, goes("a", SYNC, AT_REST))
    writer.tell(4, target(3), is_to_give("n", 1))
    writer.tell(5, gives("n", 1))
    writer.beside(6, goes("a", AT_REST, REJOIN))
    writer.tell(7, gets("a", 1), goes("a", REJOIN, AT_REST))
    writer.tell(9, gives("n", 0), leaves("n"), converts(DOWN, 1), group_goes(STABLE, PREPARING, 3))
    writer.beside(10, group_goes(PREPARING, COMPLETING, 4))
    writer.tell(10, group_goes(COMPLETING, STABLE, 4), gets("a", 0))


def a_conversion_in_place(writer: EventWriter) -> None:
    """A member changes its protocol under the same id, or, if static, under another. The history
    begins when both are already members."""
    writer.tell(0, group_goes(COMPLETING, STABLE, 5), gets("a", 0), gets("b", 1))
    writer.tell(4, converts(UP, 2), switches("a", "consumer"))
    writer.tell(6, gives("b", 1), becomes("b", "b2"), joins("b2", "consumer", "i"), gets("b2", 1))


def several_to_give_up(writer: EventWriter) -> None:
    """A native member must revoke partitions until the last of them is released, assigned again, or
    of a deleted topic."""
    writer.tell(0, joins("n", "consumer"), bump(2), target(2), gets("n", 0, 1, 2))
    writer.tell(1, is_to_give("n", 0, 1))
    writer.tell(2, is_to_give("n", 2), gives("n", 0))
    writer.tell(3, gets("n", 1))
    writer.tell(5, TopicsDeleted(topics=(TOPIC,)))


def late_and_quiet(writer: EventWriter) -> None:
    """A member that only commits was present all the time, and so was one that left without a
    join."""
    writer.beside(1, speaks("quiet", 0))
    writer.beside(3, leaves("late"), group_goes(STABLE, PREPARING, 2))


def a_restart(writer: EventWriter) -> None:
    """A process forgets an incomplete generation: `b` never joined, `a` is a member again, and the
    group is Stable."""
    writer.tell(0, group_goes(COMPLETING, STABLE), joins("a"), gets("a", 0))
    writer.beside(2, joins("b"), group_goes(STABLE, PREPARING))
    writer.beside(3, gives("a", 0), leaves("a"))
    writer.process_id = "the next one"
    writer.beside(8, joins("c"), group_goes(STABLE, PREPARING))


def a_restart_after_an_empty_group_turned_classic(writer: EventWriter) -> None:
    """A record deletes the empty consumer group, but none has the first classic member, which a
    restart forgets."""
    writer.tell(0, joins("n", "consumer"), bump(2), target(2))
    writer.tell(1, leaves("n"))
    writer.tell(2, converts(DOWN, 0, is_live=False), joins("a"), group_goes(EMPTY, PREPARING))
    writer.beside(3, joins("b"))
    writer.beside(5, leaves("b"))
    writer.process_id = "the next one"
    writer.beside(8, joins("c"), group_goes(EMPTY, PREPARING))


def a_restart_after_a_conversion_during_a_rebalance(writer: EventWriter) -> None:
    """A consumer group keeps who joins, even in the moment in which a rebalance began before."""
    writer.tell(0, GroupCreated(kind="classic"))
    writer.beside(1, joins("a"), group_goes(EMPTY, PREPARING))
    writer.tell(1, converts(UP, 1), joins("n", "consumer"), bump(2), target(2))
    writer.beside(2, seen("n", "c"))
    writer.process_id = "the next one"
    writer.beside(8, seen("n", "c"))


def a_restart_of_an_emptied_group(writer: EventWriter) -> None:
    """An empty group is written as such, so a restart brings nobody back."""
    writer.tell(0, GroupCreated(kind="classic"), joins("a"), group_goes(EMPTY, PREPARING))
    writer.beside(2, joins("b"))
    writer.beside(3, leaves("a"))
    writer.tell(4, leaves("b"), group_goes(PREPARING, EMPTY))
    writer.beside(5, TopicsDeleted(topics=("u",)))
    writer.process_id = "the next one"
    writer.beside(8, joins("c"), group_goes(EMPTY, PREPARING))


def seen(member_id: str, client_id: str, instance_id: str | None = None) -> ClientSeen:
    return ClientSeen(
        member_id=member_id,
        client_id=client_id,
        client_host="/h",
        instance_id=instance_id,
        software_name=None,
        software_version=None,
        protocol="classic",
        protocol_type="consumer",
        embedded_version=3,
        assignors=("range",),
    )


def a_roll_in_the_cluster(writer: EventWriter) -> None:
    """Nobody tells who is in a forwarded group. `a` was there; `b` came and left; `c` was killed,
    and `d` came in its place, but not in that of `e`, which goes on, nor in that of `f`. Clients
    that never speak of partitions may have been turned away."""
    writer.beside(0, GroupForwarded(reason="rule"))
    writer.beside(1, speaks("a", 1))
    writer.beside(2, seen("b", "b"), seen("c", "c"), seen("e", "c"), seen("f", "f"))
    writer.beside(2, seen("away", "away"))
    for member_id in "bcef":
        writer.beside(3, speaks(member_id, 3))
    writer.beside(4, leaves("b"))
    writer.process_id = "the next one"
    writer.beside(5, GroupForwarded(reason="rule"))
    writer.beside(6, seen("d", "c"))
    writer.beside(7, speaks("e", 7))
    writer.beside(8, speaks("d", 8))


def a_static_member_in_the_cluster(writer: EventWriter) -> None:
    """Its successor has the same instance id."""
    writer.beside(0, GroupForwarded(reason="rule"))
    writer.beside(1, seen("a", "c", "i"), seen("b", "c", "k"))
    writer.beside(2, speaks("a", 2))
    writer.beside(3, speaks("b", 3))
    writer.beside(4, seen("a2", "other", "i"))
    writer.beside(5, speaks("a2", 5))
    writer.beside(6, speaks("a", 5))


def an_adoption_and_a_release(writer: EventWriter) -> None:
    """The gateway takes over `a`, but not `gone`. Released members come back; what they had
    committed before may be told later."""
    writer.beside(1, speaks("a", 1))
    writer.beside(1, speaks("gone", 1))
    writer.tell(4, GroupCreated(kind="classic"), group_goes(EMPTY, STABLE))
    writer.tell(4, joins("a"))
    writer.beside(4, HostingStarted(reason="it was adopted"), GroupAdopted(held_ms=1))
    writer.beside(5, speaks("a", 5))
    writer.beside(7, leaves("a"), GroupForwarded(reason="it was released"))
    writer.beside(8, speaks("a", 6))
    writer.beside(9, speaks("a2", 9))


def an_adoption_before_a_restart(writer: EventWriter) -> None:
    """Its members have records, so that the next process knows them. An empty consumer group of
    that name was left here."""
    writer.beside(0, GroupForwarded(reason="rule"))
    writer.beside(1, speaks("a", 1))
    writer.tell(4, converts(DOWN, 2, is_live=False), group_goes(EMPTY, STABLE))
    writer.tell(4, joins("a"), joins("b"))
    writer.beside(4, HostingStarted(reason="it was adopted"), GroupAdopted(held_ms=1))
    writer.beside(5, seen("away", "away"))
    writer.process_id = "the next one"
    writer.beside(8, joins("c"), group_goes(STABLE, PREPARING))


CASES: Mapping[WriteHistory, Sequence[Interval]] = {
    a_classic_group: [
        (None, "classic", None, "Empty", 0, 1, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 1, 2, "group_state_changed"),
        (None, "classic", None, "CompletingRebalance", 2, 3, "group_state_changed"),
        (None, "classic", None, "Stable", 3, 7, "group_state_changed"),
        (None, "classic", None, "Empty", 7, None, None),
        ("a", "classic", "classic", "PreparingRebalance", 1, 2, "group_state_changed"),
        ("a", "classic", "classic", "CompletingRebalance", 2, 3, "group_state_changed"),
        ("a", "classic", "classic", "Stable", 3, 7, "member_left"),
    ],
    a_roll_of_one: [
        (None, "consumer", None, "Stable", 0, 2, "group_epoch_bumped"),
        (None, "consumer", None, "Assigning", 2, 4, "target_computed"),
        (None, "consumer", None, "Reconciling", 4, 9, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 9, 10, "group_state_changed"),
        (None, "classic", None, "Stable", 10, None, None),
        ("n", "consumer", "consumer", "Stable", 0, 4, "partitions_revoked"),
        ("n", "consumer", "consumer", "UnrevokedPartitions", 4, 5, "grant_ended"),
        ("n", "consumer", "consumer", "Stable", 5, 9, "member_left"),
        ("a", "consumer", "classic", "CompletingRebalance", 2, 3, "member_state_changed"),
        ("a", "consumer", "classic", "Stable", 3, 6, "member_state_changed"),
        ("a", "consumer", "classic", "PrepareRebalance", 6, 7, "member_state_changed"),
        ("a", "consumer", "classic", "Stable", 7, 9, "group_state_changed"),
        ("a", "classic", "classic", "PreparingRebalance", 9, 10, "group_state_changed"),
        ("a", "classic", "classic", "Stable", 10, None, None),
    ],
    a_conversion_in_place: [
        (None, "classic", None, "Stable", 0, 4, "group_converted"),
        (None, "consumer", None, None, 4, None, None),
        ("a", "classic", "classic", "Stable", None, 4, "member_switched"),
        ("a", "consumer", "consumer", "Stable", 4, None, None),
        ("b", "classic", "classic", "Stable", None, 4, "group_converted"),
        ("b", "consumer", "classic", "Stable", 4, 6, "member_replaced"),
        ("b2", "consumer", "consumer", "Stable", 6, None, None),
    ],
    several_to_give_up: [
        (None, "consumer", None, "Reconciling", 0, 3, "partitions_assigned"),
        (None, "consumer", None, "Stable", 3, None, None),
        ("n", "consumer", "consumer", "Stable", 0, 1, "partitions_revoked"),
        ("n", "consumer", "consumer", "UnrevokedPartitions", 1, 5, "topics_deleted"),
        ("n", "consumer", "consumer", "Stable", 5, None, None),
    ],
    late_and_quiet: [
        (None, "classic", None, "Stable", 1, 3, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 3, None, None),
        ("quiet", "classic", "classic", "Stable", None, 3, "group_state_changed"),
        ("quiet", "classic", "classic", "PreparingRebalance", 3, None, None),
        ("late", "classic", "classic", "Stable", None, 3, "member_left"),
    ],
    a_restart: [
        (None, "classic", None, "Stable", 0, 2, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 2, 3, "gateway_restarted"),
        (None, "classic", None, "Stable", 3, 8, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 8, None, None),
        ("a", "classic", "classic", "Stable", 0, 2, "group_state_changed"),
        ("a", "classic", "classic", "PreparingRebalance", 2, 3, "gateway_restarted"),
        ("a", "classic", "classic", "Stable", 3, 8, "group_state_changed"),
        ("a", "classic", "classic", "PreparingRebalance", 8, None, None),
        ("b", "classic", "classic", "PreparingRebalance", 2, 3, "gateway_restarted"),
        ("c", "classic", "classic", "PreparingRebalance", 8, None, None),
    ],
    a_restart_after_an_empty_group_turned_classic: [
        (None, "consumer", None, "Stable", 0, 1, "member_left"),
        (None, "consumer", None, "Empty", 1, 2, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 2, 5, "gateway_restarted"),
        (None, "classic", None, "Empty", 5, 8, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 8, None, None),
        ("n", "consumer", "consumer", "Stable", 0, 1, "member_left"),
        ("a", "classic", "classic", "PreparingRebalance", 2, 5, "gateway_restarted"),
        ("b", "classic", "classic", "PreparingRebalance", 3, 5, "member_left"),
        ("c", "classic", "classic", "PreparingRebalance", 8, None, None),
    ],
    a_restart_after_a_conversion_during_a_rebalance: [
        (None, "classic", None, "Empty", 0, 1, "target_computed"),
        (None, "consumer", None, "Stable", 1, None, None),
        ("a", "consumer", "classic", "Stable", 1, None, None),
        ("n", "consumer", "consumer", "Stable", 1, None, None),
    ],
    a_roll_in_the_cluster: [
        (None, None, None, None, 1, None, None),
        ("a", None, None, None, None, None, None),
        ("b", None, "classic", None, 2, 4, "member_left"),
        ("c", None, "classic", None, 2, 6, "client_seen"),
        ("d", None, "classic", None, 6, None, None),
        ("e", None, "classic", None, 2, None, None),
        ("f", None, "classic", None, 2, None, None),
    ],
    a_static_member_in_the_cluster: [
        (None, None, None, None, 1, None, None),
        ("a", None, "classic", None, 1, 4, "client_seen"),
        ("b", None, "classic", None, 1, None, None),
        ("a2", None, "classic", None, 4, None, None),
    ],
    an_adoption_and_a_release: [
        (None, "classic", None, None, 1, 4, "group_state_changed"),
        (None, "classic", None, "Stable", 4, None, None),
        ("a", "classic", "classic", None, None, 4, "group_state_changed"),
        ("a", "classic", "classic", "Stable", 4, 7, "member_left"),
        ("gone", "classic", "classic", None, None, 4, "hosting_started"),
        ("a2", "classic", "classic", "Stable", 9, None, None),
    ],
    an_adoption_before_a_restart: [
        (None, "consumer", None, None, 1, 4, "group_converted"),
        (None, "classic", None, "Stable", 4, 8, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 8, None, None),
        ("a", "consumer", "classic", None, None, 4, "group_converted"),
        ("a", "classic", "classic", "Stable", 4, 8, "group_state_changed"),
        ("a", "classic", "classic", "PreparingRebalance", 8, None, None),
        ("b", "classic", "classic", "Stable", 4, 8, "group_state_changed"),
        ("b", "classic", "classic", "PreparingRebalance", 8, None, None),
        ("c", "classic", "classic", "PreparingRebalance", 8, None, None),
    ],
    a_restart_of_an_emptied_group: [
        (None, "classic", None, "PreparingRebalance", 0, 4, "group_state_changed"),
        (None, "classic", None, "Empty", 4, 8, "group_state_changed"),
        (None, "classic", None, "PreparingRebalance", 8, None, None),
        ("a", "classic", "classic", "PreparingRebalance", 0, 3, "member_left"),
        ("b", "classic", "classic", "PreparingRebalance", 2, 4, "member_left"),
        ("c", "classic", "classic", "PreparingRebalance", 8, None, None),
    ],
}


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Sequence[TimelineRow]]:
    """The intervals of all histories by group."""
    told: dict[str, WriteHistory] = {case.__name__: case for case in CASES}
    found: dict[str, list[TimelineRow]] = {group_id: [] for group_id in told}
    for row in folded(*lines_of(told)).timeline:
        found[row.group_id].append(row)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_hand_written_histories_have_the_expected_intervals(
    case: WriteHistory, rows: Mapping[str, Sequence[TimelineRow]]
) -> None:
    """Each history is explained where it is defined."""
    found = [
        (
            row.member_id,
            row.kind,
            row.protocol,
            row.state,
            None if row.is_from_before else seconds(row.from_ms),
            seconds(row.to_ms),
            row.ended_by,
        )
        for row in rows[case.__name__]
    ]
    assert Counter(found) == Counter(CASES[case])


def test_the_last_interval_has_the_cause_of_a_departure(
    rows: Mapping[str, Sequence[TimelineRow]],
) -> None:
    """The cause is where the member's last interval ends."""
    found = {row.member_id: row.cause for row in rows["late_and_quiet"] if row.to_ms}
    assert found["late"] == "left"
