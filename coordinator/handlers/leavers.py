"""Ends the place of a member whose client is not restarting (rule 3.16): it has left the group and
kept its connection, as a consumer does that was stuck for longer than its poll interval."""

from coordinator.classic.rebalance import rebalance_or_complete
from coordinator.consumer.places import end_place
from coordinator.conversion.fence import fence
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import LeaverStayed


def end_place_of_leaver(step: StepBuilder, event: LeaverStayed) -> None:
    """Let the others have the partitions, unless the place is gone or lent already."""
    place = step.state.places.get(event.member_id)
    if place is None or place.lent:
        return
    match step.state.group:
        case ClassicGroup():
            rebalance_or_complete(step)
        case ConsumerGroup():
            end_place(step, event.member_id)
            fence(step, {})
        case None:
            pass
