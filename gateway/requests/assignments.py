"""Translates the messages with which a member computes the assignment of its group (KIP-848,
"Client Side Mode")."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from coordinator.interface.records import AssignmentMetadata, ClientAssignor
from coordinator.interface.replies import (
    InstallAssignmentReply,
    PrepareAssignmentReply,
    PreparedMember,
)
from coordinator.interface.topics import Partition, by_topic
from coordinator.interface.volatile_records import Token
from kafka_codecs import consumer_group_heartbeat, consumer_group_install_assignment
from kafka_codecs.consumer_group_heartbeat import TopicPartitions
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    Assignor,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    Member,
    TopicMetadata,
)


def client_assignor(assignor: consumer_group_heartbeat.ClientAssignor) -> ClientAssignor:
    """An assignor that a member can run."""
    return ClientAssignor(
        name=assignor.name,
        minimum_version=assignor.minimum_version,
        maximum_version=assignor.maximum_version,
        reason=assignor.reason,
        version=assignor.metadata_version,
        metadata=assignor.metadata_bytes,
    )


def prepare_event(
    token: Token, message: ConsumerGroupPrepareAssignmentRequest
) -> PrepareAssignmentReceived:
    return PrepareAssignmentReceived(
        token=token, member_id=message.member_id, member_epoch=message.member_epoch
    )


def prepare_response(reply: PrepareAssignmentReply) -> ConsumerGroupPrepareAssignmentResponse:
    return ConsumerGroupPrepareAssignmentResponse(
        error_code=reply.error,
        error_message=reply.reason or None,
        group_epoch=reply.group_epoch,
        assignor_name=reply.assignor,
        members=tuple(map(_make_member, reply.members)),
        topics=tuple(
            TopicMetadata(topic_id=topic_id, topic_name=name, num_partitions=count)
            for topic_id, name, count in reply.topics
        ),
    )


def _make_member(member: PreparedMember) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        subscribed_topic_ids=tuple(member.topic_ids),
        assignor=Assignor(
            reason=member.reason,
            metadata_version=member.version,
            metadata_bytes=member.metadata,
        ),
        topic_partitions=topic_partitions(member.target),
    )


def install_event(
    token: Token, message: ConsumerGroupInstallAssignmentRequest
) -> InstallAssignmentReceived:
    target = {member.member_id: _partitions(member) for member in message.members}
    return InstallAssignmentReceived(
        token=token,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        group_epoch=message.group_epoch,
        error=message.error,
        target=target,
        metadata={
            member.member_id: AssignmentMetadata(
                version=member.metadata_version, metadata=member.metadata_bytes
            )
            for member in message.members
        },
        flaw=_find_repeated(message.members, target),
    )


def _partitions(member: consumer_group_install_assignment.Member) -> frozenset[Partition]:
    return frozenset(
        Partition(topic.topic_id, number)
        for topic in member.partitions
        for number in topic.partitions
    )


def _find_repeated(
    members: Sequence[consumer_group_install_assignment.Member],
    target: Mapping[str, frozenset[Partition]],
) -> str:
    """What is named twice, for people; empty if nothing is."""
    if len(target) < len(members):
        ((member_id, _),) = Counter(member.member_id for member in members).most_common(1)
        return f"{member_id!r} is named twice"
    for member in members:
        if sum(len(topic.partitions) for topic in member.partitions) > len(
            target[member.member_id]
        ):
            return f"{member.member_id!r} got a partition twice"
    return ""


def install_response(reply: InstallAssignmentReply) -> ConsumerGroupInstallAssignmentResponse:
    return ConsumerGroupInstallAssignmentResponse(
        error_code=reply.error, error_message=reply.reason or None
    )


def topic_partitions(partitions: Iterable[Partition]) -> tuple[TopicPartitions, ...]:
    """Partitions by topic."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic(partitions).items()
    )
