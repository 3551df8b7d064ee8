"""JoinGroup on a consumer group (rules 5.2 to 5.5)."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import MemberState
from coordinator.mixed.join import owned_by_sender
from kafka_codecs.consumer_protocol import Subscription, TopicPartition
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import (
    GroupScript,
    Owned,
    make_topics,
    partitions,
    read_assignment,
    subscription,
)


def test_a_member_stays_static_when_it_leaves_its_instance_id_out(group: GroupScript) -> None:
    """A JoinGroup does not clear the fields that it omits (rule 5.4)."""
    group.native("n1")
    member_id = group.join(instance_id="i1").member_id
    assert group.join(member_id).error == ErrorCode.NONE
    assert dict(group.consumer.instances) == {"i1": member_id}


def test_an_empty_instance_id_is_not_no_instance_id(group: GroupScript) -> None:
    """A dynamic member does not replace one that sent an empty instance id."""
    group.native("n1")
    static = group.join(instance_id="").member_id
    dynamic = group.join(version=3).member_id
    assert group.consumer.members.keys() == {"n1", static, dynamic}
    group.leave(static)
    assert not group.consumer.instances


def test_the_last_native_member_that_turns_classic_triggers_a_downgrade(group: GroupScript) -> None:
    """The group checks for a downgrade whenever a member with a known instance id joins, even under
    its own member id (rule 6.2)."""
    group.native("n1", instance_id="i1")
    reply = group.join("n1", instance_id="i1")
    assert (reply.generation, reply.protocol_name) == (2, "range")
    assert group.view().group_type == "classic"
    assert group.sync_assignment("n1", 2, instance_id="i1") == {"foo": (0, 1, 2)}


def test_a_fenced_client_cannot_rejoin_with_owned_partitions(group: GroupScript) -> None:
    """DEV D16: it would use its partitions until SyncGroup, and its last commits for them would
    pass. Without owned partitions it may rejoin under its old id (rule 5.3)."""
    group.given_consumer_group(given_native("n1", assigned={"foo": (0, 1, 2)}))
    reply = group.join("fenced", owned={"foo": (0,)})
    assert (reply.error, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert "fenced" not in group.consumer.members

    assert group.join("fenced").error == ErrorCode.NONE
    assert "fenced" in group.consumer.members


@pytest.mark.parametrize("instance_id", ["i2", None])
def test_a_member_that_left_temporarily_returns_by_joining(
    group: GroupScript, instance_id: str | None
) -> None:
    """DEV D26: at epoch 0, like a native member that returns. In Kafka it keeps epoch -2 while it
    has partitions to revoke, and neither SyncGroup nor a commit can use that generation."""
    group.given_consumer_group(
        given_native("n1", target={"foo": (0,)}),
        given_native("n2", assigned={"foo": (0, 1)}, target={"foo": (1,)}, instance_id="i2"),
        epoch=11,
    )
    group.native("n2", -2, instance_id="i2")
    reply = group.join("n2", instance_id=instance_id, owned={"foo": (0, 1)})
    assert (reply.error, reply.generation) == (ErrorCode.NONE, 0)
    assert group.sync_assignment("n2", 0, instance_id=instance_id) == {"foo": (1,)}
    assert group.beat("n2", 0).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join("n2", owned={"foo": (1,)}).generation == 11


def test_a_member_that_left_temporarily_gets_its_partitions_back(group: GroupScript) -> None:
    """If it has nothing to revoke, it gets them immediately."""
    group.given_consumer_group(
        given_native("n1", assigned={"foo": (0,)}),
        given_classic("c2", assigned={"foo": (1, 2)}, instance_id="i2"),
    )
    group.native("c2", -2, instance_id="i2")
    assert group.join("c2", instance_id="i2").generation == 10
    assert group.sync_assignment("c2", 10) == {"foo": (1, 2)}


def test_a_join_keeps_the_fields_that_it_omits(group: GroupScript) -> None:
    """A JoinGroup sets the client, the sorted topics, and the rack if its version has one. A native
    member that returns as classic keeps its preferred assignor and its rack."""
    group.native("n1")
    group.native("n2", instance_id="i2", rack_id="r1", assignor="range")
    joined = group.join(instance_id="i2", topics=("foo", "bar", "foo")).member_id
    member = group.consumer.members[joined]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.rack_id, member.server_assignor) == ("r1", "range")
    assert member.topic_names == ("bar", "foo")
    group.join(joined, metadata=subscription(("foo",), rack_id="r2", version=3))
    assert group.consumer.members[joined].rack_id == "r2"


def test_a_member_of_a_full_group_may_rejoin(make_group: MakeGroup) -> None:
    """The joiner is already a member."""
    group = make_group(config=GroupConfig(consumer_max_size=2))
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    assert group.join("c1").error == ErrorCode.NONE
    assert group.join("c2").error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_that_downgrades_the_group_gives_up_unsubscribed_topics(
    make_group: MakeGroup,
) -> None:
    """The member states that it no longer owns their partitions. The classic group must not count
    them as held when it converts again (DEV D17)."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    both = {"foo": (0,), "bar": (0,)}
    group.given_consumer_group(given_native("n1", topics=both, assigned=both, instance_id="i1"))
    group.send_join("n1", instance_id="i1", topics=("foo",), owned={"foo": (0,)})
    assert group.view().group_type == "classic"
    assert read_assignment(group.classic.members["n1"].assignment) == {"foo": (0,)}


# What the sender still owns (deviation D5)

OLD, NEW = partitions({"foo": (0,)}), partitions({"foo": (1,)})
HELD = {**dict.fromkeys(OLD, 5), **dict.fromkeys(NEW, 7)}


@pytest.mark.parametrize(
    ("generation", "listed", "owned"),
    [
        (7, (), ()),  # eager: it revoked everything, and states its generation
        (7, (0,), (0,)),
        (9, (0,), (0,)),
        (6, (), (1,)),  # sent before foo-1 was granted: proves nothing about it
        (5, (0,), (0, 1)),
        (4, (), (0, 1)),
        (0, (), (0, 1)),
        (-1, (), ()),  # a client that starts, or never states a generation
        (-1, (0,), (0,)),
        (6, (0, 1, 2), (0, 1, 2)),
    ],
)
def test_an_owned_list_does_not_release_later_grants(
    generation: int, listed: tuple[int, ...], owned: tuple[int, ...]
) -> None:
    """foo-0 was granted at epoch 5, foo-1 at epoch 7."""
    subscription = Subscription(
        topics=("foo",),
        owned_partitions=(TopicPartition(topic="foo", partitions=listed),),
        generation_id=generation,
    )
    assert owned_by_sender(subscription, HELD, make_topics(foo=3)) == partitions({"foo": owned})


def given_a_late_grant(group: GroupScript) -> None:
    """c1 was granted foo-0 at epoch 10, and must give it to n2 at epoch 11."""
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": (0,)}, target={}),
        given_native("n2", target={"foo": (0,)}),
        epoch=11,
    )


@pytest.mark.parametrize("owned", [{}, {"foo": (1,)}])
def test_a_stale_join_releases_no_partition(group: GroupScript, owned: Owned) -> None:
    """The JoinGroup was sent in generation 9, and arrives after c1 has rejoined at 10. Its list
    lacks foo-0, because c1 did not own it then."""
    given_a_late_grant(group)
    reply = group.join("c1", owned=owned, generation=9, embedded_version=3)
    assert reply.generation == 10
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.current("c1").pending_revocation.keys() == OLD
    group.native("n2", 10, owned={})
    assert group.granted_partitions("n2") == {}
    assert group.join("c1", generation=10, embedded_version=3).generation == 11
    assert group.names_of(group.native("n2", 11).assignment) == {"foo": (0,)}


@pytest.mark.parametrize(
    ("generation", "embedded_version"), [(10, 3), (10, 2), (-1, 3), (9, 1), (9, 0)]
)
def test_a_list_with_the_current_generation_or_none_counts(
    group: GroupScript, generation: int, embedded_version: int
) -> None:
    """Eager clients send both kinds, and older clients send no generation."""
    given_a_late_grant(group)
    reply = group.join("c1", generation=generation, embedded_version=embedded_version)
    assert reply.generation == 11
    assert group.names_of(group.native("n2", 10, owned={}).assignment) == {"foo": (0,)}


def test_a_stale_join_does_not_end_a_revocation(group: GroupScript) -> None:
    """Pending partitions count like assigned ones: only a newer list proves a revocation."""
    group.given_consumer_group(
        given_classic(
            "c1", pending={"foo": (0,)}, target={}, state=MemberState.UNREVOKED_PARTITIONS
        ),
        given_native("n2", target={"foo": (0,)}),
        epoch=11,
    )
    assert group.join("c1", generation=9, embedded_version=3).generation == 10
    assert group.current("c1").pending_revocation.keys() == OLD
    assert group.join("c1", generation=10, embedded_version=3).generation == 11
