"""Another coordinator has the group, so every member here is fenced: a partition has one owner.

DEV D36: in Kafka a group has only one coordinator.
"""

from coordinator.classic.rebalance import remove_member
from coordinator.conversion.fence import fence
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import RemovalCause


def fence_all_members(step: StepBuilder, cause: RemovalCause) -> None:
    """Fence all members and answer their parked requests."""
    match step.state.group:
        case ClassicGroup() as group:
            for member_id in list(group.members):
                remove_member(step, member_id, cause)
        case ConsumerGroup() as group if group.members:
            fence(step, dict.fromkeys(sorted(group.members), cause))
        case _:
            pass
