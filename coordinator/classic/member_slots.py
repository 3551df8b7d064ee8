"""Keeps the slot of a member that left a classic group, for its replacement (rule 3.16, DEV D77).

The member is removed, but no rebalance begins. A client with the same client id and host that joins
within the grace, by either protocol, gets what the member was assigned, and no other member is told
anything. Any rebalance ends all slots.
"""

from coordinator.classic.subscriptions import has_to_rejoin
from coordinator.group.member_slots import find_slot, forget_slot, grace_ms, record_return
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import JoinGroupReceived, LeaveGroupReceived
from coordinator.interface.records import ClassicGroupMember
from coordinator.interface.volatile_records import (
    ClassicPhase,
    DeadlineKind,
    MemberSlot,
    MemberSlotMoved,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE

SLOTS_MAX = 1_000
"""Slots that a classic group keeps. The next member that leaves makes it rebalance."""


def leaver_with_slot(step: StepBuilder, event: LeaveGroupReceived) -> ClassicGroupMember | None:
    """The member that leaves at its own request, alone in it, and may have left for a moment.

    A static member has its slot by its instance id anyway. In a rebalance the others rejoin in any
    case, and without other members there is no one to spare. If the member has to rejoin, its
    successor would not know, and what it gave up would stay idle.
    """
    group = step.classic
    if len(event.members) != 1 or not event.members[0].comes_back:
        return None
    if grace_ms(step, all_rejoin=True) == 0:
        return None
    member = group.members.get(event.members[0].member_id)
    may_return = (
        group.phase is ClassicPhase.STABLE
        and not group.unsynced
        and group.core.protocol_type == CONSUMER_PROTOCOL_TYPE
        and len(group.members) > 1
        and len(step.state.member_slots) < SLOTS_MAX
    )
    if member is None or member.instance_id is not None or not may_return:
        return None
    return None if has_to_rejoin(step, member) else member


def keep_slot(step: StepBuilder, left: ClassicGroupMember) -> None:
    """Keep the slot of a member that has been removed."""
    step.emit(MemberSlotMoved(left.member_id, MemberSlot(left, left_ms=step.now_ms)))
    step.arm(DeadlineKind.GRACE, left.member_id, grace_ms(step, all_rejoin=True))


def take_slot(step: StepBuilder, event: JoinGroupReceived) -> ClassicGroupMember | None:
    """End the slot that a new member may take, and return who left it, None if there is none.

    DEV D34: a commit in flight may be that of its predecessor, and only a rebalance waits for it.
    """
    match = find_slot(step, event)
    if match is None or event.instance_id is not None or step.state.commits:
        return None
    old_id, slot = match
    if slot.reassigned:
        return None
    record_return(step, slot)
    forget_slot(step, old_id)
    assert isinstance(slot.member, ClassicGroupMember)
    return slot.member


def end_slots(step: StepBuilder) -> None:
    """Forget all slots: a rebalance begins, or the group ends."""
    for member_id in list(step.state.member_slots):
        forget_slot(step, member_id)
