"""Ends the slot of a member whose client is not restarting (rule 3.16): it has left the group and
kept its connection, as a consumer does that was stuck for longer than its poll interval."""

from coordinator.classic.rebalance import rebalance_or_complete
from coordinator.consumer.member_slots import end_slot
from coordinator.conversion.fence import fence
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import LeaverStayed


def end_slot_of_leaver(step: StepBuilder, event: LeaverStayed) -> None:
    """Let the others have the partitions, unless the slot is gone, or another member has them
    already."""
    slot = step.state.member_slots.get(event.member_id)
    if slot is None or slot.reassigned:
        return
    match step.state.group:
        case ClassicGroup():
            rebalance_or_complete(step)
        case ConsumerGroup():
            end_slot(step, event.member_id)
            fence(step, {})
        case None:
            pass
