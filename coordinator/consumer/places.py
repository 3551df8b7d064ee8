"""Keeps the place of a member that left, for its replacement (rule 3.16, DEV D77).

A dynamic member that leaves is deleted at once and holds nothing from then on. Only its target
stays, for a short grace, and the epoch stays as it is, so no other member is told anything. A
client with the same client id and host that joins meanwhile gets that target. Otherwise the end of
the grace, or any new target before it, treats the member as one that has just left.

A place grants nothing: its partitions are free, but nobody else's target has them.
"""

from dataclasses import replace

from coordinator.consumer.removal import DEPARTED_MAX, delete_member, may_have_departed
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived, JoinGroupReceived
from coordinator.interface.records import Member, RemovalCause, TargetAssignmentMember
from coordinator.interface.volatile_records import (
    DeadlineKind,
    MemberDeparted,
    Place,
    PlaceMoved,
)


def may_keep_place(step: StepBuilder, member_id: str) -> bool:
    """Whether only the replacement of this member needs to learn that it leaves.

    A static member has its place anyway. With a target due, the others hear of that one. Without
    other members, nobody is spared. The topics of a regular expression are forgotten with its last
    subscriber.
    """
    group, member = step.consumer, step.consumer.members[member_id]
    return (
        step.config.replacement_grace_ms > 0
        and member.instance_id is None
        and not member.topic_regex
        and group.assignment_epoch == group.epoch
        and len(group.members) > 1
        and len(step.state.departed) < DEPARTED_MAX
    )


def leave_place(step: StepBuilder, member_id: str) -> None:
    """Delete a member that leaves, except for its target."""
    member = step.consumer.members[member_id]
    delete_member(step, member_id, RemovalCause.LEFT, keeps_target=True)
    step.emit(PlaceMoved(member_id, Place(member)))
    step.emit(MemberDeparted(member_id))
    step.arm(DeadlineKind.GRACE, member_id, step.config.replacement_grace_ms)


def take_place(
    step: StepBuilder, member_id: str, event: JoinGroupReceived | ConsumerHeartbeatReceived
) -> Member | None:
    """Give a new member the place of the one that it replaces. Returns that one, under the new id;
    None if there is no such place. The caller stores the member."""
    for old_id, place in step.state.places.items():
        left = place.member
        if left is not None and _replaces(event, left, step.config):
            target = step.consumer.targets.get(old_id)
            end_place(step, old_id)
            if target is not None:
                step.emit(TargetAssignmentMember(member_id=member_id, partitions=target))
            return replace(left, member_id=member_id)
    return None


def _replaces(
    event: JoinGroupReceived | ConsumerHeartbeatReceived, left: Member, config: GroupConfig
) -> bool:
    """Whether the sender is the same client as a member that left. Another preferred assignor would
    need another target."""
    if (
        isinstance(event, ConsumerHeartbeatReceived)
        and event.server_assignor != left.server_assignor
    ):
        return False
    return event.client_id == left.client_id and (
        event.client_host == left.client_host or not config.replacement_needs_host
    )


def returns_in_person(step: StepBuilder, member_id: str) -> bool:
    """Whether a joiner is no replacement, because it was a member in this epoch itself. Its place
    ends, if another member has not taken it, and a new target is due.

    In this epoch a late commit of its past could not be told from one of its present (DEV D68).
    """
    if not may_have_departed(step, member_id):
        return False
    if member_id in step.state.places:
        end_place(step, member_id)
    return True


def end_place(step: StepBuilder, member_id: str) -> None:
    """Delete what is left of a member."""
    if member_id in step.consumer.targets:
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=None))
    forget_place(step, member_id)


def end_places(step: StepBuilder) -> None:
    """Delete all places. A new epoch is due, or has begun."""
    for member_id in list(step.state.places):
        end_place(step, member_id)


def forget_place(step: StepBuilder, member_id: str) -> None:
    """Forget a place, whose target is gone."""
    step.disarm(DeadlineKind.GRACE, member_id)
    step.emit(PlaceMoved(member_id, None))
