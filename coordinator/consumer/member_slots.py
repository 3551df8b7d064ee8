"""Keeps the slot of a member that left, for its replacement (rule 3.16, DEV D77).

A dynamic member that leaves is deleted immediately and holds nothing from then on. Only its target
stays, for a short grace, and the epoch stays as it is, so no other member is told anything. A
client with the same client id and host that joins meanwhile gets that target. Otherwise the end of
the grace, or any new target before it, treats the member as one that has just left (see
`temporary_assignments.py` for what may happen in between).

A slot grants nothing: its partitions are free, but no other member's target has them.
"""

from dataclasses import replace

from coordinator.consumer.removal import DEPARTED_MAX, delete_member, may_have_departed
from coordinator.group.member_slots import find_slot, forget_slot, grace_ms
from coordinator.group.rolls import is_rolled
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.records import Member, RemovalCause, TargetAssignmentMember
from coordinator.interface.volatile_records import (
    DeadlineKind,
    MemberDeparted,
    MemberSlot,
    MemberSlotMoved,
)


def may_keep_slot(step: StepBuilder, member_id: str) -> bool:
    """Whether only the replacement of this member needs to learn that it leaves.

    Outside a roll it is not expected back. A static member has its slot anyway. With a target due,
    the others hear of that one. Without other members there is no one to spare. The topics of a
    regular expression are forgotten with its last subscriber.
    """
    group, member = step.consumer, step.consumer.members[member_id]
    return (
        step.config.replacement_grace_ms > 0
        and is_rolled(step.state, step.config, step.now_ms)
        and member.instance_id is None
        and not member.topic_regex
        and group.assignment_epoch == group.epoch
        and len(group.members) > 1
        and len(step.state.departed) < DEPARTED_MAX
    )


def leave_slot(step: StepBuilder, member_id: str) -> None:
    """Delete a member that leaves, except for its target."""
    member = step.consumer.members[member_id]
    delete_member(step, member_id, RemovalCause.LEFT, keeps_target=True)
    step.emit(MemberSlotMoved(member_id, MemberSlot(member, left_ms=step.now_ms)))
    step.emit(MemberDeparted(member_id))


def await_replacement(step: StepBuilder, member_id: str) -> bool:
    """Start the grace of a slot. False if its replacement is expected later.

    Without native members the end of the slot downgrades the group, so that all rejoin."""
    length_ms = grace_ms(step, all_rejoin=not step.consumer.has_native_members)
    if length_ms:
        step.arm(DeadlineKind.GRACE, member_id, length_ms)
    return length_ms > 0


def move_slot(step: StepBuilder, left: Member, slot: MemberSlot) -> None:
    """The classic group whose member left has been converted."""
    step.emit(MemberSlotMoved(left.member_id, replace(slot, member=left)))
    step.emit(MemberDeparted(left.member_id))


def returns_in_person(
    step: StepBuilder, member_id: str, event: JoinGroupReceived | ConsumerHeartbeatReceived
) -> bool:
    """Whether a joiner is no replacement, because it was a member in this epoch itself. A new
    target is due then. Its slot ends, and in any epoch if this is another client with its id.

    In this epoch a late commit of its past could not be told from one of its present (DEV D68).
    """
    was_member = may_have_departed(step, member_id)
    if member_id in step.state.member_slots:
        match = find_slot(step, event)
        if was_member or match is None or match[0] != member_id:
            end_slot(step, member_id)
    return was_member


def end_slot(step: StepBuilder, member_id: str) -> None:
    """Delete what is left of a member."""
    if member_id in step.consumer.targets:
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    forget_slot(step, member_id)


def end_slots(step: StepBuilder) -> None:
    """Delete all slots. A new epoch is due, or has begun."""
    for member_id in list(step.state.member_slots):
        end_slot(step, member_id)
