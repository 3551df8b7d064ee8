"""Assigns to one member what another one had that left, until its replacement comes (rule 3.18).

DEV D85: in a roll a member that leaves comes back, if not within the grace. Its partitions then
need an owner meanwhile, but to distribute them disturbs many members once it is back. One temporary
owner therefore has them all, and no other member is told anything. A native one gives up nothing of
its own for that; a classic one rejoins, so it is chosen only where no member is native.

A temporary assignment is a target like any other: written at a new epoch, and reconciled. Any
computed target ends it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from coordinator.consumer.member_slots import end_slot
from coordinator.consumer.selection import client_side_assignor
from coordinator.consumer.target import target_due_at_ms
from coordinator.group.member_slots import find_slot, record_return
from coordinator.group.rolls import is_rolled
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import (
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
)
from coordinator.interface.records import (
    EpochCause,
    GroupEpoch,
    Member,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKind, MemberSlot, MemberSlotMoved

CANDIDATES_MAX = 100
"""Members that are looked at to find a temporary owner, those with fewest partitions first."""

NOTHING: frozenset[Partition] = frozenset()


def assign_temporarily(step: StepBuilder, member_id: str) -> bool:
    """Assign the partitions of a slot to another member, until its replacement comes or the time is
    over. False if that is not possible."""
    group, slot = step.consumer, step.state.member_slots[member_id]
    target = group.target_of(member_id)
    is_possible = (
        step.config.temporary_assignment_ms > 0
        and not step.config.unaffected_members_rejoin
        and is_rolled(step.state, step.config, step.now_ms)
        # Only the assignor knows what its members may have.
        and client_side_assignor(group, step.config) is None
        and _may_move(step)
    )
    if not is_possible or not target or not isinstance(slot.member, Member):
        return False
    owner = next(_candidates(step, slot.member.topic_names), None)
    if owner is None:
        return False
    targets = {member_id: NOTHING, owner: group.target_of(owner) | target}
    write_targets(step, targets, EpochCause.MEMBER_REMOVED)
    step.emit(MemberSlotMoved(member_id, replace(slot, reassigned=target)))
    step.arm(DeadlineKind.GRACE, member_id, step.config.temporary_assignment_ms)
    return True


def take_slot(
    step: StepBuilder, member_id: str, event: JoinGroupReceived | ConsumerHeartbeatReceived
) -> Member | None:
    """Give a new member the slot of the one that it replaces. Returns that one, under the new id;
    None if there is no such slot, or if no target has its partitions any more: the group has been
    converted since, without a topic that was deleted, or before their temporary owner had rejoined.
    The caller stores the member."""
    match = find_slot(step, event)
    if match is None:
        return None
    old_id, slot = match
    assert isinstance(slot.member, Member)
    target = step.consumer.targets.get(old_id)
    metadata = step.consumer.target_metadata.get(old_id)
    record_return(step, slot)
    end_slot(step, old_id)
    if not slot.reassigned:
        if target is not None:
            step.emit(
                TargetAssignmentMember(member_id=member_id, partitions=target, metadata=metadata)
            )
    elif _may_move(step) and all(
        partition in step.consumer.target_owners for partition in slot.reassigned
    ):
        _take_back(step, member_id, slot)
    else:
        return None
    return replace(slot.member, member_id=member_id)


def _take_back(step: StepBuilder, member_id: str, slot: MemberSlot) -> None:
    """The temporary owner may have been replaced itself, or have left a slot of its own, even one
    whose partitions another member has in turn. That slot loses what is taken here. The slot of a
    member that left before this one does not: this one had that for a time, and so has its
    replacement."""
    group, taken = step.consumer, slot.reassigned
    owners = {group.target_owners[partition] for partition in taken}
    targets = {id_: group.target_of(id_) - taken for id_ in sorted(owners)}
    write_targets(step, {**targets, member_id: taken}, EpochCause.MEMBER_JOINED)
    for left_id, other in [*step.state.member_slots.items()]:
        if other.left_ms >= slot.left_ms and not other.reassigned.isdisjoint(taken):
            left = other.reassigned - taken
            step.emit(MemberSlotMoved(left_id, replace(other, reassigned=left)))


def _may_move(step: StepBuilder) -> bool:
    """Whether a target may be written now, and none has to be computed."""
    group = step.consumer
    return (
        group.assignment_epoch == group.epoch
        and group.topics_checked == step.topics.version
        and not step.config.roll_policy.is_paused
        and step.now_ms >= target_due_at_ms(group, step.config, step.now_ms)
    )


def write_targets(
    step: StepBuilder, targets: Mapping[str, frozenset[Partition]], cause: EpochCause
) -> None:
    """Write these targets at a new epoch."""
    group = step.consumer
    epoch = group.epoch + 1
    step.emit(GroupEpoch(epoch=epoch, metadata_hash=group.metadata_hash, cause=cause))
    for member_id, partitions in targets.items():
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=partitions))
    step.emit(
        TargetAssignmentMetadata(epoch=epoch, timestamp_ms=step.now_ms, assignor=group.assignor)
    )


def _candidates(step: StepBuilder, topic_names: tuple[str, ...]) -> Iterator[str]:
    """Members with the same subscription, those with fewest partitions first: native ones, or
    classic ones where none is."""
    group = step.consumer
    tables = (group.loads,) if group.has_native_members else (group.loads, group.spared)
    lightest = (id_ for loads in tables for load in sorted(loads.sizes()) for id_ in loads.at(load))
    for member_id in islice(lightest, CANDIDATES_MAX):
        member = group.members[member_id]
        is_alike = member.topic_names == topic_names and not member.topic_regex
        is_away = group.assignments[member_id].member_epoch == STATIC_LEAVE_EPOCH
        if member.is_classic != group.has_native_members and is_alike and not is_away:
            yield member_id
