"""ConsumerGroupHeartbeat (rules 3.5 to 3.9). The scenarios cover its admission."""

from dataclasses import replace

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import (
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, Owned, make_topics

ALL = {"foo": (0, 1, 2)}
ROLLED = GroupConfig(
    consumer_assignment_interval_ms=0,
    unaffected_members_rejoin=False,
    eager_imbalance_percent=50,
    replacement_grace_ms=3_000,
    rolled_since_ms=1_000_000,
)
"""Members that leave keep their places for a while."""


def loads(group: GroupScript) -> list[int]:
    """How many partitions the members have in their targets, in ascending order."""
    return sorted(len(group.consumer.target_of(id_)) for id_ in group.consumer.members)


def test_the_first_member_of_a_new_group(group: GroupScript) -> None:
    """The member gets epoch 2 and all partitions, with five kinds of records in Kafka's order (rule
    8.2)."""
    reply = group.native("n1")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("n1", 2, 5_000)
    assert group.names_of(reply.assignment) == ALL
    assert [type(record) for record in group.last_step.durable] == [
        MemberMetadata,
        GroupEpoch,
        TargetAssignmentMember,
        TargetAssignmentMetadata,
        CurrentAssignment,
    ]


@pytest.mark.parametrize(
    ("topics", "owned", "timeout_ms", "tells"),
    [
        (None, None, -1, False),
        (None, ALL, -1, False),
        (("foo",), ALL, -1, False),
        (("foo",), None, 10_000, False),
        (("foo",), ALL, 10_000, True),
    ],
)
def test_a_full_heartbeat_returns_the_assignment(
    group: GroupScript,
    topics: tuple[str, ...] | None,
    owned: Owned | None,
    timeout_ms: int,
    tells: bool,
) -> None:
    """Other heartbeats return it only if it changed (rule 3.8)."""
    group.native("n1")
    reply = group.native("n1", 2, topics=topics, owned=owned, rebalance_timeout_ms=timeout_ms)
    assert (reply.assignment is not None) is tells
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SESSION, "n1") == 45_000


def test_an_absent_field_keeps_its_value(group: GroupScript) -> None:
    """This applies to topics, timeout, assignor, rack and instance id."""
    group.native("n1", instance_id="i1", assignor="range", rack_id="r1", rebalance_timeout_ms=7_000)
    before = group.consumer.members["n1"]
    group.native("n1", 2)
    assert group.consumer.members["n1"] == before
    assert (before.instance_id, before.server_assignor) == ("i1", "range")
    assert (before.rebalance_timeout_ms, before.topic_names) == (7_000, ("foo",))
    group.native("n1", 2, rack_id="r2")
    assert group.consumer.members["n1"] == replace(before, rack_id="r2")


def test_a_member_is_shown_with_its_client(group: GroupScript) -> None:
    """Admins see where the member runs, and its topics in order."""
    group.native("n1", topics=("foo", "bar", "foo"))
    (view,) = group.view().members
    assert (view.client_id, view.client_host) == ("client", "/127.0.0.1")
    assert view.topic_names == ("bar", "foo")


def test_a_classic_member_turns_native_in_place(group: GroupScript) -> None:
    """Its id, partitions and epoch stay, and its classic timers stop."""
    group.given_consumer_group(given_classic("c1", epoch=9, assigned=ALL), given_native("n1"))
    assert group.left_ms(DeadlineKind.JOIN, "c1") is not None
    reply = group.native("c1")
    assert reply.member_epoch == 10
    assert group.names_of(reply.assignment) == ALL
    assert group.consumer.epoch == 10
    assert not group.consumer.members["c1"].is_classic
    assert group.left_ms(DeadlineKind.JOIN, "c1") is None
    assert group.beat("c1", 10).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_last_classic_place_is_taken_is_even(make_group: MakeGroup) -> None:
    """The replacement counts, too, with the target that it takes (DEV D81)."""
    group = make_group(config=ROLLED, topics=make_topics(foo=8))
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": range(4)}),
        given_native("n1", assigned={"foo": range(4, 8)}),
    )
    group.native("n2")
    group.leave("c1")
    assert (group.consumer.epoch, loads(group)) == (11, [2, 2])
    group.native("n3")
    assert loads(group) == [2, 3, 3]


def test_a_group_that_turns_native_counts_the_places_that_it_keeps(make_group: MakeGroup) -> None:
    """Nothing asks again when a native member takes the place of another (DEV D81)."""
    group = make_group(config=ROLLED, topics=make_topics(foo=10))
    group.given_consumer_group(
        given_classic("c1", instance_id="i1", assigned={"foo": range(4)}),
        given_classic("c2", assigned={"foo": range(4, 8)}),
        given_native("n1", assigned={"foo": (8, 9)}),
    )
    group.native("n2")
    group.native("c2")
    assert loads(group) == [1, 1, 4, 4]
    group.native("n1", -1)
    group.native("n2", -1)
    group.native("n3", instance_id="i1")
    group.native("n4")
    group.native("n5")
    assert loads(group) == [2, 2, 3, 3]


def test_an_unsubscription_takes_effect_at_once(make_group: MakeGroup) -> None:
    """The client still owns the topic. It must revoke it at the same epoch, although the next
    target is not due (KAFKA-19431)."""
    group = make_group(topics=make_topics(foo=3, bar=1))
    both = {**ALL, "bar": (0,)}
    group.native("n1", topics=("foo", "bar"))
    reply = group.native("n1", 2, topics=("foo",), owned=both)
    assert reply.member_epoch == 2
    assert group.names_of(reply.assignment) == ALL
    assert (group.consumer.epoch, group.consumer.assignment_epoch) == (3, 2)
    assert group.native("n1", 2, owned=ALL).member_epoch == 2
    group.wait(1_000)
    assert group.native("n1", 2, owned=ALL).member_epoch == 3
    assert group.view().state == "Stable"


def test_a_late_join_releases_no_partition(group: GroupScript) -> None:
    """DEV D25: a join always states no partitions. Its member has partitions now, and continues to
    use those that it was not asked to revoke."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    late = group.native("n1")
    assert (late.error, late.member_epoch) == (ErrorCode.NONE, 10)
    assert group.names_of(late.assignment) == {"foo": (0, 1)}
    group.native("n2", 10, owned={})
    assert group.granted_partitions("n2") == {}


def test_a_rejoining_member_gives_up_partitions_it_does_not_confirm(group: GroupScript) -> None:
    """The heartbeat after the join states the owned partitions (rule 3.9)."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    assert group.native("n1").member_epoch == 10
    assert group.names_of(group.native("n1", 10).assignment) == {"foo": (0,)}
    assert group.native("n1", 10, owned={"foo": (0,)}).member_epoch == 11
    assert group.names_of(group.native("n2", 10, owned={}).assignment) == {"foo": (1,)}


@pytest.mark.parametrize("was_told_to_revoke", [False, True])
def test_a_rejoining_member_is_assigned_the_partitions_it_holds(
    group: GroupScript, was_told_to_revoke: bool
) -> None:
    """The answer lists them even if its target differs completely. To a client without partitions
    an empty assignment is no change. It would acknowledge nothing, and no partition would move
    before its rebalance timeout."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}, target={"foo": (1,)}),
        given_native("n2", assigned={"foo": (1,)}, target={"foo": (0,)}),
        epoch=11,
    )
    if was_told_to_revoke:
        assert group.names_of(group.native("n1", 10).assignment) == {}
    reply = group.native("n1")
    assert group.names_of(reply.assignment) == {"foo": (0,)}
    taken = group.native("n1", 10, owned={"foo": (0,)})
    assert group.names_of(taken.assignment) == {}
    assert group.native("n1", 10, owned={}).member_epoch == 11
    group.native("n2", 10)
    assert group.names_of(group.native("n2", 10, owned={}).assignment) == {"foo": (0,)}


def test_rejoining_does_not_extend_the_revocation_deadline(group: GroupScript) -> None:
    """A member could keep its partitions for ever (deviation D4)."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}, target={"foo": (1,)}),
        given_native("n2", target={"foo": (0,)}),
        epoch=11,
    )
    group.native("n1", 10)
    group.wait(6_000)
    group.native("n1")
    group.native("n1", 10, owned={"foo": (0,)})
    assert group.left_ms(DeadlineKind.REVOCATION, "n1") == 4_000
    group.wait(4_000)
    assert "n1" not in group.consumer.members


def test_a_rejoining_member_gets_free_partitions_at_once(group: GroupScript) -> None:
    """Free partitions need no proof."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}, target={"foo": (0, 1)}), epoch=11
    )
    reply = group.native("n1")
    assert (reply.member_epoch, group.names_of(reply.assignment)) == (11, {"foo": (0, 1)})


def test_a_revocation_is_repeated_until_it_is_acknowledged(group: GroupScript) -> None:
    """Its answer may be lost or withheld, and librdkafka continues with short heartbeats."""
    group.given_consumer_group(
        given_native("n1", assigned=ALL, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1, 2)}),
        epoch=11,
    )
    for owned in (None, None, ALL, None):
        assert group.names_of(group.native("n1", 10, owned=owned).assignment) == {"foo": (0,)}
    reply = group.native("n1", 10, owned={"foo": (0,)})
    assert (reply.member_epoch, reply.assignment) == (11, None)
    assert group.native("n1", 11).assignment is None


def free_partitions_for_n2(group: GroupScript, epoch: int) -> None:
    """Have n2 send a heartbeat at this epoch, and wait until n1 has given up two partitions."""
    group.given_consumer_group(
        given_native("n1", assigned=ALL, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1, 2)}),
        epoch=11,
    )
    assert group.native("n2", epoch, owned={}).member_epoch == 11
    group.native("n1", 10)
    group.native("n1", 10, owned={"foo": (0,)})


def test_a_grant_at_the_same_epoch_is_repeated_until_it_is_acknowledged(group: GroupScript) -> None:
    """The member that waited for the partition already has the epoch, so no request of it shows
    whether it received the answer."""
    free_partitions_for_n2(group, 10)
    for owned in (None, {}, {"foo": (1,)}, None):
        assert group.names_of(group.native("n2", 11, owned=owned).assignment) == {"foo": (1, 2)}
    assert group.native("n2", 11, owned={"foo": (1, 2)}).assignment is None
    assert group.native("n2", 11).assignment is None


def test_a_grant_in_the_answer_to_a_late_join_is_repeated(group: GroupScript) -> None:
    """The client gave that join up and joined again, so it knows the epoch, but not the grant."""
    free_partitions_for_n2(group, 0)
    assert group.names_of(group.native("n2", 0, owned={}).assignment) == {"foo": (1, 2)}
    assert group.names_of(group.native("n2", 11).assignment) == {"foo": (1, 2)}
    assert group.native("n2", 11, owned={"foo": (1, 2)}).assignment is None
    assert group.native("n2", 11).assignment is None


@pytest.mark.parametrize("is_topic_deleted", [False, True])
@pytest.mark.parametrize("is_loaded_again", [False, True])
def test_revoking_an_unacknowledged_grant_makes_the_member_state_what_it_owns(
    group: GroupScript, is_topic_deleted: bool, is_loaded_again: bool
) -> None:
    """The member may own exactly the new assignment. It would see no change and acknowledge
    nothing. Once it has been told, COORDINATOR_NOT_AVAILABLE makes clients state everything
    (deviation D67)."""
    group.given_consumer_group(
        given_native("n1", assigned=ALL, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1, 2)}),
        epoch=11,
    )
    group.native("n2", 10, owned={})
    group.native("n1", 10)
    group.native("n1", 10, owned={"foo": (0,)})
    assert group.names_of(group.native("n2", 11).assignment) == {
        "foo": (1, 2)
    }  # this answer is lost
    if is_topic_deleted:
        group.topics = make_topics(version=2)
    else:
        group.native("n3")
    assert group.names_of(group.native("n2", 11).assignment) == group.granted_partitions("n2")
    if is_loaded_again:
        group.restart()
    assert group.native("n2", 11).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    if is_loaded_again:  # DEV D90: the answers before were sent by another process
        assert group.native("n2", 11, owned={}).member_epoch == 11
        group.native("n2", 11)
    assert group.native("n2", 11, owned={}).member_epoch == 12
    assert group.native("n2", 12).error == ErrorCode.NONE
    assert group.left_ms(DeadlineKind.REVOCATION, "n2") is None


def test_a_member_that_acknowledged_a_grant_revokes_as_usual(group: GroupScript) -> None:
    """The member states its partitions, and learns which to keep."""
    group.given_consumer_group(
        given_native("n1", assigned=ALL, target={"foo": (0,)}),
        given_native("n2", target={"foo": (1, 2)}),
        epoch=11,
    )
    group.native("n2", 10, owned={})
    group.native("n1", 10)
    group.native("n1", 10, owned={"foo": (0,)})
    group.native("n2", 11)
    group.native("n3")
    group.native("n2", 11)
    assert group.native("n2", 11).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    left = group.granted_partitions("n2")
    for owned in ({"foo": (1, 2)}, None):
        assert group.names_of(group.native("n2", 11, owned=owned).assignment) == left
    assert len(left["foo"]) == 1
    assert group.native("n2", 11, owned=left).member_epoch == 12


def test_the_answer_repeats_until_a_member_states_the_new_epoch(
    group: GroupScript,
) -> None:
    """The member does not advance meanwhile, because that would outdate the epoch that it
    states."""
    group.given_consumer_group(
        given_native("n1", target=ALL), given_native("n2", assigned=ALL, target={}), epoch=11
    )
    group.native("n2", 10)
    group.native("n2", 10, owned={})
    for _ in range(3):
        reply = group.native("n1", 10)
        assert (reply.member_epoch, group.names_of(reply.assignment)) == (11, ALL)
        group.native("n3")
        group.native("n3", -1)
        group.wait(1_000)
    assert group.native("n1", 11, owned=ALL).error == ErrorCode.NONE


def test_after_a_load_every_assignment_is_repeated(group: GroupScript) -> None:
    """The repetition ends with the acknowledgement. A member with nothing to acknowledge receives
    it for its rebalance timeout, whenever in its session its first heartbeat comes."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}), given_native("n2", assigned={"foo": (1, 2)})
    )
    group.restart()
    assert group.names_of(group.native("n1", 10).assignment) == {"foo": (0,)}
    assert group.native("n1", 10, owned={"foo": (0,)}).assignment is None
    assert group.native("n1", 10).assignment is None
    for _ in range(2):
        group.wait(27_499)
        assert group.native("n2", 10).assignment is not None
        group.native("n1", 10)
    group.wait(2)
    assert group.native("n2", 10).assignment is None
    assert not group.consumer.repetitions


def test_a_static_member_that_left_starts_without_partitions(group: GroupScript) -> None:
    """The member left cleanly, so the partitions that it loses are free immediately."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0, 1)}, target={"foo": (0,)}, instance_id="i1"),
        given_native("n2", target={"foo": (1,)}),
        epoch=11,
    )
    group.native("n1", -2, instance_id="i1")
    assert group.native("n1-restarted", instance_id="i1").member_epoch == 11
    assert group.names_of(group.native("n2", 10, owned={}).assignment) == {"foo": (1,)}
