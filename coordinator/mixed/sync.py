"""SyncGroup on a consumer group: returns the granted partitions (rule 5.6)."""

from coordinator.consumer.phases import PhaseEvent, move_phase
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import version_of, write_assignment
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.interface.events import SyncGroupReceived
from coordinator.interface.records import ClassicMetadata, Member, MemberState
from coordinator.interface.replies import SyncGroupReply
from coordinator.interface.volatile_records import DeadlineKind
from coordinator.mixed.guards import classic_member
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode


def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
    """Decide a SyncGroup; the caller knows that the group is a consumer group."""
    group = step.consumer
    member = classic_member(step, event.member_id, event.instance_id, event.generation)
    assert member.classic is not None
    current = group.assignments[member.member_id]
    # DEV D27: this precedes the protocol check. A member that syncs after its group converted names
    # the protocol of the classic group, and Kafka's answer to that is fatal for the client.
    if (
        group.assignment_epoch > current.member_epoch
        and current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        move_phase(step, member.member_id, PhaseEvent.TOLD_TO_REJOIN)
        step.answer(event.token, SyncGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    _check_protocol(member.classic, event)
    move_phase(step, member.member_id, PhaseEvent.SYNCED)
    step.arm(DeadlineKind.SESSION, member.member_id, member.classic.session_timeout_ms)
    step.answer(
        event.token,
        SyncGroupReply(
            protocol_type=event.protocol_type,
            protocol_name=event.protocol_name,
            assignment=write_assignment(
                current.assigned,
                embedded_version(member),
                step.topics,
                _user_data(group, member.member_id, member.classic),
            ),
        ),
    )


def _user_data(group: ConsumerGroup, member_id: str, classic: ClassicMetadata) -> bytes | None:
    """What a client-side assignor says to the member, if the member takes it for that assignor's
    (rule 9.7). Without an assignor, the target is that of the classic group."""
    metadata = group.target_metadata.get(member_id)
    name, _metadata = classic.protocols[0]
    return metadata.metadata if metadata is not None and group.assignor in (None, name) else None


def embedded_version(member: Member) -> int:
    """The version of a classic member's own subscription, which it can therefore read."""
    assert member.classic is not None
    _name, metadata = member.classic.protocols[0]
    return version_of(metadata)


def _check_protocol(classic: ClassicMetadata, event: SyncGroupReceived) -> None:
    name, _metadata = classic.protocols[0]
    if event.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or event.protocol_name not in (
        None,
        name,
    ):
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the member joined with {CONSUMER_PROTOCOL_TYPE}/{name}",
        )
