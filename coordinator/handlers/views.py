"""The view of a group for admin tools, independent of request and version (rule 3.14)."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from coordinator.consumer.selection import preferred_assignor
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import write_assignment, write_subscription
from coordinator.group.state import GroupState
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import Assignment, ClassicGroupMember, Member, Subscription
from coordinator.interface.replies import GroupView, MemberView
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicPhase
from coordinator.mixed.sync import embedded_version
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE

# A native member has no embedded protocol; version 0 is what old dashboards can read. They read the
# subscription before the assignment, and kafkajs fails for the whole group if there is none.
EMBEDDED_VERSION_OF_NATIVE_MEMBERS = 0


def summarize(state: GroupState, *, config: GroupConfig) -> GroupView:
    """The group without its members: the cost does not follow their number."""
    match state.group:
        case None:
            return GroupView(group_id=state.group_id, group_type=None, state="Dead")
        case ClassicGroup(core=core) as group:
            return GroupView(
                group_id=state.group_id,
                group_type="classic",
                state=group.phase,
                protocol_type=core.protocol_type or "",
                protocol=_shown_protocol(group) or "",
                group_epoch=core.generation,
                assignment_epoch=core.generation,
            )
        case ConsumerGroup() as group:
            return GroupView(
                group_id=state.group_id,
                group_type="consumer",
                state=group.state,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                group_epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                assignor=preferred_assignor(group, config),
            )


def describe(state: GroupState, *, config: GroupConfig, topics: Topics) -> GroupView:
    """The whole group, without topics that the cluster does not know."""
    members: tuple[MemberView, ...] = ()
    match state.group:
        case None:
            pass
        case ClassicGroup() as group:
            protocol = _shown_protocol(group)
            members = tuple(
                _classic_member_view(member, protocol)
                for _, member in sorted(group.members.items())
            )
        case ConsumerGroup() as group:

            @cache  # most members have the same subscription
            def subscription_bytes(subscription: Subscription) -> bytes:
                return write_subscription(
                    group.topics_of(subscription), EMBEDDED_VERSION_OF_NATIVE_MEMBERS
                )

            members = tuple(
                _consumer_member_view(group, member, topics, subscription_bytes)
                for _, member in sorted(group.members.items())
            )
    return replace(summarize(state, config=config), members=members)


def _shown_protocol(group: ClassicGroup) -> str | None:
    """Kafka shows a protocol and its metadata only in the Stable state."""
    return group.core.protocol if group.phase is ClassicPhase.STABLE else None


def _classic_member_view(member: ClassicGroupMember, protocol: str | None) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_classic=True,
        metadata=member.metadata_for(protocol) if protocol else b"",
        assignment_bytes=member.assignment,
    )


def _consumer_member_view(
    group: ConsumerGroup,
    member: Member,
    topics: Topics,
    subscription_bytes: Callable[[Subscription], bytes],
) -> MemberView:
    current = group.assignments.get(member.member_id, Assignment(member_epoch=0, previous_epoch=0))
    version = embedded_version(member) if member.is_classic else EMBEDDED_VERSION_OF_NATIVE_MEMBERS
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_classic=member.is_classic,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        phase=group.phases.get(member.member_id, ""),
        topic_names=member.topic_names,
        topic_regex=member.topic_regex,
        assignment=topics.names(current.held_partitions),
        target=topics.names(group.target_of(member.member_id)),
        metadata=(
            member.classic.protocols[0][1]
            if member.classic
            else subscription_bytes(member.subscription)
        ),
        assignment_bytes=write_assignment(current.held_partitions, version, topics),
    )
