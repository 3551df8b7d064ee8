"""Makes the event that says what the cluster shows of a forwarded group."""

from collections.abc import Iterator

from coordinator.group.embedded_protocol import list_stored_assignment
from coordinator.interface.errors import GroupError
from gateway.events.group_events import ClusterMembersSeen
from gateway.events.member_events import MemberSnapshot, Partitions
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.hosting.forwarded import STABLE, WatchedGroup, WatchedMember
from gateway.hosting.lookup_outcome import LiveMembers
from kafka_codecs.consumer_group_describe import DescribedGroup, MemberType


def cluster_members_of(snapshot: GroupSnapshot) -> ClusterMembersSeen | None:
    """The members of a group, as far as requests and descriptions show them; None if nothing
    does."""
    match None if snapshot.in_cluster is None else snapshot.in_cluster.outcome:
        case LiveMembers(consumer_group=DescribedGroup() as group):
            members = tuple(_native_members(group))
            return ClusterMembersSeen(kind="consumer", state=group.group_state, members=members)
        case _ if snapshot.watched is not None:
            return _classic_group(snapshot.watched)
        case _:
            return None


def _native_members(group: DescribedGroup) -> Iterator[MemberSnapshot]:
    for member in group.members:
        yield MemberSnapshot(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            protocol="classic" if member.member_type == MemberType.CLASSIC else "consumer",
            member_epoch=member.member_epoch,
            partitions={
                topic.topic_name: tuple(sorted(topic.partitions))
                for topic in member.assignment.topic_partitions
            },
        )


def _classic_group(watched: WatchedGroup) -> ClusterMembersSeen:
    return ClusterMembersSeen(
        kind="classic",
        state=STABLE if watched.protocol else None,
        members=tuple(
            MemberSnapshot(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                protocol="classic",
                member_epoch=watched.generation,
                partitions=_partitions(member, watched.protocol),
            )
            for member in watched.members.values()
        ),
    )


def _partitions(member: WatchedMember, protocol: str) -> Partitions | None:
    """None during a rebalance, and if the assignment is unknown or in a custom format."""
    if not (protocol and member.assignment):
        return None
    try:
        listed = list_stored_assignment(member.assignment, protocol=protocol)
    except GroupError:
        return None
    return {entry.topic: tuple(sorted(entry.partitions)) for entry in listed}
