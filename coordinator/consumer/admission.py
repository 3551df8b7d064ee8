"""Finds the member of a ConsumerGroupHeartbeat and checks its epoch (rules 3.3, 3.4)."""

from coordinator.consumer.group_epoch import bump_epoch_if_needed
from coordinator.consumer.regexes import forget_unused_regexes
from coordinator.consumer.removal import delete_member, may_have_departed, replace_member
from coordinator.consumer.target import target_due_at_ms
from coordinator.consumer.temporary_assignments import take_slot
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import CONSUMER_SIZE_LIMIT, StaticTakeover
from coordinator.interface.errors import GroupError
from coordinator.interface.events import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ConsumerHeartbeatReceived
from coordinator.interface.records import Assignment, EpochCause, Member, RemovalCause
from kafka_codecs.error_codes import ErrorCode


def check_room(
    step: StepBuilder, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> None:
    """Raises GroupError GROUP_MAX_SIZE_REACHED. A known member or instance always fits."""
    is_known = member_id in group.members or instance_id in group.instances
    if not is_known and len(group.members) >= step.config.consumer_max_size:
        limit = step.config.named_limits(CONSUMER_SIZE_LIMIT)
        raise GroupError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"the group already has its maximum of {step.config.consumer_max_size} members {limit}",
        )


def admit(step: StepBuilder, event: ConsumerHeartbeatReceived, member_id: str) -> Member | None:
    """The member before this heartbeat; None if it is new. Replaces a returning static member.

    Raises GroupError with the codes of rules 3.3 and 3.4.
    """
    group = step.consumer if step.state.group is not None else ConsumerGroup()
    check_room(step, group, member_id, event.instance_id)
    if event.member_epoch == JOIN_EPOCH:
        return _admit_joiner(step, group, event, member_id)
    instance_id = instance_of(step, event)
    if instance_id is not None:
        check_instance(group, instance_id, member_id)
    member = group.members.get(member_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of the group")
    _check_epoch(member, group.assignments[member_id], event)
    return member


def instance_of(step: StepBuilder, event: ConsumerHeartbeatReceived) -> str | None:
    """The instance id of the sender: the one that it names, or the one that a removed member had
    and another member has now.

    DEV D49: librdkafka's short heartbeats name none. UNKNOWN_MEMBER_ID would make that client join
    again and fence its successor.
    """
    group = step.state.group
    if event.instance_id is not None or group is None or event.member_id in group.members:
        return event.instance_id
    former = step.state.former_instances.get(event.member_id)
    return former if former in group.instances else None


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """Raises GroupError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless the member holds it."""
    holder_id = group.instances.get(instance_id)
    if holder_id is None:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}"
        )
    if holder_id != member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"the instance id {instance_id} belongs to another member now",
        )


def is_away(group: ConsumerGroup, member_id: str) -> bool:
    """Whether the member is static and left with epoch -2, to return later (rule 3.10)."""
    current = group.assignments.get(member_id)
    return current is not None and current.member_epoch == STATIC_LEAVE_EPOCH


def _is_live_native(group: ConsumerGroup, member_id: str) -> bool:
    return not (is_away(group, member_id) or group.members[member_id].is_classic)


def _admit_joiner(
    step: StepBuilder, group: ConsumerGroup, event: ConsumerHeartbeatReceived, member_id: str
) -> Member | None:
    holder_id = group.instances.get(event.instance_id or "")
    if holder_id == member_id and _is_live_native(group, holder_id):
        # DEV D91: its client repeats a join whose answer was lost, or rejoins after it was fenced.
        return group.members[member_id]
    if holder_id is not None:
        _take_over(step, event, holder_id, member_id)
    elif is_away(group, member_id):
        # DEV D26: the member returns with another instance id, or without one.
        replace_member(step, member_id, member_id)
    elif step.state.member_slots and event.instance_id is None and member_id not in group.members:
        return take_slot(step, member_id, event)
    return group.members.get(member_id)


def _take_over(
    step: StepBuilder, event: ConsumerHeartbeatReceived, holder_id: str, member_id: str
) -> None:
    """Replace a holder that left with epoch -2 or is classic. A live native holder stays.

    DEV D82: if the settings say so, a native holder whose client has closed its connections does
    not count as live. Kafka's coordinator knows no connections, so a client that crashed finds its
    own instance id in use until its session ends.
    """
    group = step.consumer
    holder = group.members[holder_id]
    has_crashed = (
        step.config.static_takeover is StaticTakeover.CONNECTION_CLOSED
        and holder_id in event.disconnected
    )
    if _is_live_native(group, holder_id) and not has_crashed:
        raise GroupError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"the instance id {holder.instance_id} is in use: its member must leave, or its session"
            " end",
        )
    if member_id in group.members and member_id != holder_id:
        # The joiner gives up its previous membership, whose target needs a new owner.
        delete_member(step, member_id, RemovalCause.REPLACED)
        forget_unused_regexes(step)
        bump_epoch_if_needed(step, EpochCause.MEMBER_REMOVED)
    if may_have_departed(step, member_id):
        # DEV D68: the instance had this id in this epoch already. Its client may not know that it
        # was replaced meanwhile, and would continue where it was. The new member needs another
        # epoch.
        due_at_ms = target_due_at_ms(group, step.config, step.now_ms)
        if step.config.roll_policy.is_paused or step.now_ms < due_at_ms:
            raise GroupError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the instance id {holder.instance_id} has been taken from this member, which may"
                " have it again with the next target",
            )
        delete_member(step, holder_id, RemovalCause.REPLACED)
        forget_unused_regexes(step)
    else:
        replace_member(step, holder_id, member_id)


def _check_epoch(member: Member, current: Assignment, event: ConsumerHeartbeatReceived) -> None:
    received = event.member_epoch
    if received == current.member_epoch:
        return
    # If the answer with the new epoch was lost, the member repeats the previous epoch and owns no
    # more than it was assigned. DEV D54: it need not state its partitions, because librdkafka does
    # not after a heartbeat timed out, and fencing would cost it all of them. A classic member has
    # its epoch from JoinGroup, so a heartbeat with its previous epoch is late.
    owns_no_more = (
        not member.is_classic if event.owned is None else event.owned <= current.assigned.keys()
    )
    repeats_previous = (
        received < current.member_epoch and received == current.previous_epoch and owns_no_more
    )
    if not repeats_previous:
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member epoch {received} is not the current one, {current.member_epoch}: rejoin",
        )
