"""The members of a forwarded group, as far as the cluster shows them."""

from dataclasses import replace
from uuid import UUID

from coordinator.group.embedded_protocol import write_assignment
from coordinator.interface.topics import Partition, Topic, Topics
from gateway.groups.cluster_members import cluster_members_of
from gateway.groups.cluster_view import SeenInCluster
from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.lookup_outcome import LiveMembers
from kafka_codecs.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    MemberType,
    TopicPartitions,
)
from tests.gateway.groups.test_readiness import snapshot

TOPIC = Topic(name="t", topic_id=UUID(int=1), partition_count=2)


def test_partitions_are_those_that_the_leader_assigned() -> None:
    """What is not known is null: a member without an assignment, or a group in a rebalance."""
    topics = Topics({"t": TOPIC})
    assignment = write_assignment([Partition(TOPIC.topic_id, 1)], 0, topics)
    members = {
        "a": WatchedMember(member_id="a", client_id="c", assignment=assignment),
        "b": WatchedMember(member_id="b"),
    }
    for protocol, known in (("range", {"t": (1,)}), ("", None)):
        watched = WatchedGroup(group_id="g", generation=7, protocol=protocol, members=members)
        seen = cluster_members_of(replace(snapshot(), watched=watched))
        assert seen is not None
        a, b = seen.members
        assert (seen.kind, seen.state) == ("classic", "Stable" if protocol else None)
        assert (a.partitions, b.partitions, a.member_epoch) == (known, None, 7)


def test_members_of_the_new_protocol_are_those_that_the_cluster_describes() -> None:
    """This holds for the members that go through the gateway. Kafka's own migration mixes both
    protocols."""
    assigned = Assignment(
        topic_partitions=(
            TopicPartitions(topic_id=TOPIC.topic_id, topic_name="t", partitions=(1, 0)),
        )
    )
    member = Member(
        member_id="a",
        member_epoch=5,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        assignment=assigned,
        target_assignment=assigned,
        member_type=MemberType.CONSUMER,
    )
    classic = replace(member, member_id="b", member_type=MemberType.CLASSIC)
    group = DescribedGroup(group_id="g", group_state="Stable", members=(member, classic))
    outcome = LiveMembers(protocol_type="consumer", client_ids=("c",), consumer_group=group)
    seen = cluster_members_of(replace(snapshot(), in_cluster=SeenInCluster(outcome, 0)))
    assert seen is not None
    assert (seen.kind, seen.state) == ("consumer", "Stable")
    assert [(it.protocol, it.member_epoch, it.partitions) for it in seen.members] == [
        ("consumer", 5, {"t": (0, 1)}),
        ("classic", 5, {"t": (0, 1)}),
    ]


def test_nothing_is_said_of_a_group_that_nothing_shows() -> None:
    assert cluster_members_of(replace(snapshot(), watched=None)) is None
