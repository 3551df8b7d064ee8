"""Bugs in the grace that a replacement has to take its predecessor's slot."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator.consumer.member_slots import end_slot, leave_slot
from coordinator.consumer.removal import delete_member
from coordinator.consumer.temporary_assignments import take_slot, write_targets
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import arm_after_load
from coordinator.group.member_slots import forget_slot
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.records import (
    CurrentAssignment,
    EpochCause,
    Member,
    RemovalCause,
    TargetAssignmentMember,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKind, MemberSlot, MemberSlotMoved
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

_TAKERS = ("coordinator.consumer.admission.take_slot", "coordinator.mixed.join.take_slot")
Joining = JoinGroupReceived | ConsumerHeartbeatReceived


@noticed_by(Invariant.TARGETS, Invariant.LIVENESS)
def a_grace_ends_without_a_new_epoch(patch: Patch) -> None:
    """The slot ends, but no member gets its partitions."""
    patch.setattr("coordinator.handlers.expired_deadlines.grace_over", end_slot)


@noticed_by(Invariant.INDEXES, Invariant.TIMERS)
def a_restart_forgets_the_slots(patch: Patch) -> None:
    """After a load nothing ends the targets of members that left."""

    def arm(*args: object, **kwargs: object) -> object:
        records = arm_after_load(*args, **kwargs)  # type: ignore[arg-type]
        return (record for record in records if not _is_of_slot(record))

    patch.setattr("coordinator.engine.arm_after_load", arm)


def _is_of_slot(record: object) -> bool:
    key = getattr(record, "key", None)
    return isinstance(record, MemberSlotMoved) or getattr(key, "kind", None) is DeadlineKind.GRACE


@noticed_by(Invariant.SINGLE_HOLDER, Invariant.NO_ERROR)
def a_slot_is_taken_twice(patch: Patch) -> None:
    """A replacement gets its predecessor's target, and the slot stays for the next one."""

    def take(step: StepBuilder, member_id: str, event: Joining) -> Member | None:
        for old_id, slot in step.state.member_slots.items():
            if isinstance(slot.member, Member) and slot.member.client_id == event.client_id:
                target = step.consumer.targets.get(old_id)
                step.emit(TargetAssignmentMember(member_id=member_id, partitions=target))
                return replace(slot.member, member_id=member_id)
        return None

    for name in _TAKERS:
        patch.setattr(name, take)


@noticed_by(Invariant.SINGLE_HOLDER, Invariant.NO_ERROR, Invariant.INDEXES, Invariant.BALANCED)
def a_new_target_leaves_the_slots(patch: Patch) -> None:
    """The partitions of a slot get another target, and keep the old one."""
    patch.setattr("coordinator.consumer.target.end_slots", lambda _step: None)


@noticed_by(Invariant.INDEXES)
def who_returns_in_person_keeps_its_slot(patch: Patch) -> None:
    """The end of the grace then takes the target of a member that is back."""
    for module in ("coordinator.native.heartbeat", "coordinator.mixed.join"):
        patch.setattr(f"{module}.returns_in_person", lambda *_: False)


@noticed_by(Invariant.TARGETS, Invariant.LIVENESS, Invariant.INDEXES)
def a_replacement_loses_the_target(patch: Patch) -> None:
    """The slot ends, and its target with it, but the epoch stays."""

    def take(step: StepBuilder, member_id: str, event: Joining) -> Member | None:
        left = take_slot(step, member_id, event)
        if left is not None and member_id in step.consumer.targets:
            step.emit(TargetAssignmentMember(member_id=member_id, partitions=frozenset()))
        return left

    for name in _TAKERS:
        patch.setattr(name, take)


@noticed_by(Invariant.INDEXES, Invariant.NO_ERROR)
def who_left_goes_on_holding(patch: Patch) -> None:
    """The assignment of a member that left stays until its grace ends."""

    def leave(step: StepBuilder, member_id: str) -> None:
        current = step.consumer.assignments[member_id]
        leave_slot(step, member_id)
        step.emit(CurrentAssignment(member_id=member_id, value=current))

    patch.setattr("coordinator.conversion.fence.leave_slot", leave)


@noticed_by(Invariant.INDEXES, Invariant.TARGETS, Invariant.TIMERS)
def the_last_member_leaves_the_slots(patch: Patch) -> None:
    """An empty group keeps the targets of members that left."""
    patch.setattr("coordinator.conversion.fence.end_slots", _forget_all)


def _forget_all(step: StepBuilder) -> None:
    for member_id in list(step.state.member_slots):
        forget_slot(step, member_id)


@noticed_by(Invariant.SILENCE)
def a_live_member_is_replaced(patch: Patch) -> None:
    """A client with the same client id takes the place of a member that has not left."""

    def take(step: StepBuilder, member_id: str, event: Joining) -> Member | None:
        group = step.state.group
        for old_id, member in group.members.items() if isinstance(group, ConsumerGroup) else ():
            if member.client_id == event.client_id and member.instance_id is None:
                delete_member(step, old_id, RemovalCause.LEFT, keeps_target=True)
                step.emit(MemberSlotMoved(old_id, MemberSlot(member)))
                step.arm(DeadlineKind.GRACE, old_id, 0)
                break
        return take_slot(step, member_id, event)

    for name in _TAKERS:
        patch.setattr(name, take)


@noticed_by(Invariant.INDEXES, Invariant.NO_ERROR, Invariant.BALANCED, Invariant.SINGLE_HOLDER)
def a_temporary_owner_keeps_its_assignment(patch: Patch) -> None:
    """The replacement gets its partitions, but they stay in the target of the temporary owner."""

    def move(
        step: StepBuilder, targets: Mapping[str, frozenset[Partition]], cause: EpochCause
    ) -> None:
        grown = {
            id_: partitions
            for id_, partitions in targets.items()
            if not partitions < step.consumer.target_of(id_) or not partitions
        }
        write_targets(step, grown, cause)

    patch.setattr("coordinator.consumer.temporary_assignments.write_targets", move)


@noticed_by(Invariant.TIMERS, Invariant.NO_ERROR, Invariant.INDEXES)
def a_rebalance_leaves_the_slots(patch: Patch) -> None:
    """A classic group rebalances, and a member that left before still finds its slot."""
    patch.setattr("coordinator.classic.rebalance.end_slots", lambda _step: None)
