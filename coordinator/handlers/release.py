"""Hands a group to another coordinator (rule 2.12).

From the first record on, this coordinator no longer serves the group. The record has the members,
since they may still hold partitions: `gateway/docs/release.md` says how they are asked to rejoin.
DEV D71: in Kafka a group only moves between brokers that share a log.
"""

from coordinator.classic.member_slots import end_slots
from coordinator.classic.rebalance import drop_member
from coordinator.conversion.downgrade import delete_consumer_group
from coordinator.conversion.upgrade import remove_classic_group
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import write_assignment
from coordinator.group.state import GroupState
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError, ensure
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    ReleaseBegan,
    ReleaseMoved,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupValue,
    Member,
    ReleaseRecord,
    ReleaseState,
    RemovalCause,
)
from coordinator.interface.volatile_records import ClassicPhase
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.error_codes import ErrorCode

_NO_MEMBERS = ClassicGroupValue(protocol_type=None, generation=-1, protocol=None, leader=None)
_EMBEDDED_VERSION = 0
"""The version of the assignments in the record, which no client reads."""
_REPEATED_LATER = (JoinGroupReceived, LeaveGroupReceived, ConsumerHeartbeatReceived)
_TOLD_TO_REJOIN = (HeartbeatReceived, SyncGroupReceived, OffsetCommitReceived)


def may_begin(state: GroupState) -> bool:
    """Whether it is certain who may hold partitions, and no member waits for a rebalance. In a
    consumer group that is so at any time."""
    match state.group:
        case ClassicGroup() as group if group.members:
            return group.phase is ClassicPhase.STABLE and not group.core.told_to_rejoin
        case _:
            return True


def members_not_taken(
    state: GroupState, *, takes_natives: bool, takes_mixed: bool
) -> tuple[Member, ...]:
    """The members that the other coordinator does not take: native ones, or the classic ones
    together with them."""
    group = state.group
    if not isinstance(group, ConsumerGroup) or not group.has_native_members:
        return ()
    if takes_natives and takes_mixed:
        return ()
    return tuple(member for member in group.members.values() if member.is_classic == takes_natives)


def begin(step: StepBuilder, event: ReleaseBegan) -> None:
    """Stop serving the group, in one batch with what is known of it. Nothing happens if a rebalance
    has begun, or if a member has joined that the other coordinator does not take: the caller checks
    whether the release is under way."""
    if step.state.is_leaving or not may_begin(step.state):
        return
    if members_not_taken(
        step.state, takes_natives=event.takes_natives, takes_mixed=event.takes_mixed
    ):
        return
    value = _NO_MEMBERS
    match step.state.group:
        case ClassicGroup() as group:
            value = group.stored_value()
            end_slots(step)
            for member_id in list(group.members):
                drop_member(step, member_id, RemovalCause.RELEASED)
            remove_classic_group(step)
        case ConsumerGroup() as consumer_group:
            value = _recalled_group(step, consumer_group)
            delete_consumer_group(
                step, dict.fromkeys(consumer_group.members, RemovalCause.RELEASED)
            )
        case None:
            pass
    step.emit(ReleaseRecord(value=ReleaseState(group=value)))


def _recalled_group(step: StepBuilder, group: ConsumerGroup) -> ClassicGroupValue:
    epochs = {member_id: group.assignments[member_id].member_epoch for member_id in group.members}
    return ClassicGroupValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=None,
        leader=None,
        members=tuple(
            _recall_member(step, member) for _id, member in sorted(group.members.items())
        ),
        older_epochs={id_: epoch for id_, epoch in epochs.items() if epoch != group.epoch},
    )


def _recall_member(step: StepBuilder, member: Member) -> ClassicGroupMember:
    """A member of a consumer group. A native one has no protocols."""
    held = step.consumer.assignments[member.member_id].held_partitions
    classic = member.classic
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=(
            step.config.consumer_session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        ),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=() if classic is None else classic.protocols,
        assignment=write_assignment(held, _EMBEDDED_VERSION, step.topics) if held else b"",
    )


def record_progress(step: StepBuilder, event: ReleaseMoved) -> None:
    """Store how far a release has come."""
    ensure(step.state.group is None, "a group that is served here cannot be released further")
    if event.release != step.state.release:
        step.emit(ReleaseRecord(value=event.release))


def check_not_leaving(step: StepBuilder, event: Request) -> None:
    """Raises GroupError for a request of a member while the group is handed over. The client
    repeats it at the new coordinator."""
    if not step.state.is_leaving:
        return
    if isinstance(event, _REPEATED_LATER):
        raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the group changes coordinators")
    if isinstance(event, OffsetCommitReceived) and _is_native(step, event):
        raise GroupError(ErrorCode.STALE_MEMBER_EPOCH, "the group changes coordinators")
    if isinstance(event, OffsetCommitReceived) and event.is_transactional:
        # Producers take REBALANCE_IN_PROGRESS for fatal: Kafka does not answer it.
        raise GroupError(ErrorCode.ILLEGAL_GENERATION, "the group changes coordinators")
    if isinstance(event, _TOLD_TO_REJOIN):
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS, "the group changes coordinators")


def _is_native(step: StepBuilder, event: OffsetCommitReceived) -> bool:
    """Whether a commit is that of a native member, which expects no REBALANCE_IN_PROGRESS."""
    release = step.state.release
    if not event.knows_member_epochs or release is None or release.group is None:
        return False
    members = release.group.members
    return any(member.is_native for member in members if member.member_id == event.member_id)
