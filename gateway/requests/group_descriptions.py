"""Groups as DescribeGroups and ConsumerGroupDescribe show them: made from views of the engine, or
for groups that are not shown."""

from collections.abc import Mapping

from coordinator.interface.replies import GroupView, MemberView
from coordinator.interface.topics import Topics
from kafka_codecs import consumer_group_describe as described
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode

FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6
"""Before v6, DescribeGroups reports an unknown group as Dead, without an error."""

_CLASSIC_STATES = {
    "Assigning": "PreparingRebalance",
    "Reconciling": "PreparingRebalance",
}
"""The states of a consumer group, translated for tools that know only classic states."""


def describe_classic(view: GroupView) -> DescribedGroup:
    """A group as DescribeGroups shows it. A consumer group is shown to tools that know only classic
    states."""
    return DescribedGroup(
        group_id=view.group_id,
        group_state=_CLASSIC_STATES.get(view.state, view.state),
        protocol_type=view.protocol_type,
        protocol_data=view.protocol or view.assignor,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment_bytes,
            )
            for member in view.members
        ),
    )


def unknown_classic(group_id: str, version: int, reason: str = "") -> DescribedGroup:
    """An unknown group: Dead as in Kafka, from v6 on with GROUP_ID_NOT_FOUND."""
    if version < FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state="Dead")
    return DescribedGroup(
        group_id=group_id,
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=reason or f"Group {group_id} not found.",
    )


def describe_consumer(view: GroupView, topics: Topics) -> described.DescribedGroup:
    """A group as ConsumerGroupDescribe shows it, which does not show classic groups."""
    if view.group_type != "consumer":
        return unknown_consumer(view.group_id, f"Group {view.group_id} is not a consumer group.")
    return described.DescribedGroup(
        group_id=view.group_id,
        group_state=view.state,
        group_epoch=view.group_epoch,
        assignment_epoch=view.assignment_epoch,
        assignor_name=view.assignor,
        members=tuple(_consumer_member(member, topics) for member in view.members),
    )


def unknown_consumer(group_id: str, reason: str = "") -> described.DescribedGroup:
    """The answer for a group that is not known, or is no consumer group."""
    if not group_id:
        return described.DescribedGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    return described.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=reason or f"Group {group_id} not found.",
    )


def with_hidden_topics(group_id: str) -> described.DescribedGroup:
    """The answer for a group with topics that the client may not describe."""
    return described.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has topics that the client is not authorized to describe.",
    )


def topics_of(group: described.DescribedGroup) -> set[str]:
    """The names of the topics that the members of a described group have or are to get."""
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def _consumer_member(member: MemberView, topics: Topics) -> described.Member:
    return described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment, topics),
        target_assignment=_assignment(member.target, topics),
        member_type=described.MemberType.CLASSIC
        if member.is_classic
        else described.MemberType.CONSUMER,
    )


def _assignment(named: Mapping[str, tuple[int, ...]], topics: Topics) -> described.Assignment:
    return described.Assignment(
        topic_partitions=tuple(
            described.TopicPartitions(
                topic_id=topics.by_name[name].topic_id, topic_name=name, partitions=numbers
            )
            for name, numbers in named.items()
        )
    )
