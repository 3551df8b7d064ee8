"""Makes the event that says what the cluster shows of a forwarded group."""

from coordinator.group.embedded_protocol import list_stored_assignment
from coordinator.interface.errors import GroupError
from gateway.events.group_events import ClusterMembersSeen
from gateway.events.member_events import MemberSnapshot, Partitions
from gateway.hosting.forwarded import STABLE, WatchedGroup, WatchedMember


def cluster_members_of(watched: WatchedGroup) -> ClusterMembersSeen:
    """The members of a classic group, as far as requests and descriptions show them."""
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
