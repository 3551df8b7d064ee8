"""Makes the event that states all that a group has, from the engine's state."""

from collections.abc import Iterator, Mapping

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import list_stored_assignment
from coordinator.group.state import GroupState
from coordinator.interface.errors import GroupError
from coordinator.interface.records import Assignment, ClassicGroupMember, Member
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.group_events import GroupLoaded
from gateway.events.member_events import MemberSnapshot, Partitions
from gateway.events.topic_ids import topic_ids

_NOTHING = Assignment(member_epoch=0, previous_epoch=0)


def snapshot_group(
    state: GroupState, topics: Topics, *, are_topics_known: bool = True
) -> GroupLoaded:
    """The whole group. `are_topics_known`: whether `topics` has every topic of the group that
    exists; an adopted group's are not known yet."""
    match state.group:
        case ClassicGroup() as group:
            members = tuple(_classic_members(group, topics if are_topics_known else None))
            return GroupLoaded(
                kind="classic",
                state=group.phase,
                group_epoch=group.core.generation,
                members=members,
                topic_ids=topic_ids(topics, _names(members)),
            )
        case ConsumerGroup() as group:
            members = tuple(
                _consumer_member(group, member, topics) for member in group.members.values()
            )
            return GroupLoaded(
                kind="consumer",
                state=group.state,
                group_epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                members=members,
                topic_ids=topic_ids(topics, _names(members)),
            )
        case None:
            return GroupLoaded(kind=None, state=ClassicPhase.EMPTY, group_epoch=0, members=())


def _classic_members(group: ClassicGroup, topics: Topics | None) -> Iterator[MemberSnapshot]:
    for member in group.members.values():
        yield MemberSnapshot(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            protocol="classic",
            member_epoch=group.core.generation,
            partitions=_list_assigned(member, group.core.protocol, topics),
        )


def _list_assigned(
    member: ClassicGroupMember, protocol: str | None, topics: Topics | None
) -> Partitions | None:
    """What the leader assigned to a member; None in a custom format."""
    try:
        listed = list_stored_assignment(member.assignment, protocol=protocol)
    except GroupError:
        return None
    partitions: dict[str, set[int]] = {}
    for entry in listed:
        if topics is None or entry.topic in topics.by_name:
            partitions.setdefault(entry.topic, set()).update(entry.partitions)
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(partitions.items())}


def _consumer_member(group: ConsumerGroup, member: Member, topics: Topics) -> MemberSnapshot:
    current = group.assignments.get(member.member_id, _NOTHING)
    return MemberSnapshot(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        protocol="classic" if member.is_classic else "consumer",
        member_epoch=current.member_epoch,
        partitions=topics.names(current.held_partitions),
        pending_revocation=topics.names(current.pending_revocation),
    )


def _names(members: tuple[MemberSnapshot, ...]) -> Mapping[str, None]:
    return {name: None for member in members for name in member.partitions or ()}
