"""The members of a forwarded group, as far as the cluster shows them."""

from uuid import UUID

from coordinator.group.embedded_protocol import write_assignment
from coordinator.interface.topics import Partition, Topic, Topics
from gateway.groups.cluster_members import cluster_members_of
from gateway.hosting.forwarded import WatchedGroup, WatchedMember

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
        seen = cluster_members_of(
            WatchedGroup(group_id="g", generation=7, protocol=protocol, members=members)
        )
        a, b = seen.members
        assert (seen.kind, seen.state) == ("classic", "Stable" if protocol else None)
        assert (a.partitions, b.partitions, a.member_epoch) == (known, None, 7)
