"""Somebody else has the group: every member here is fenced, for a partition has one owner only.

DEV D36: in Kafka a group is in one place. Who took it is not known here.
"""

from coordinator.classic.group import ClassicGroup
from coordinator.classic.rebalance import remove_member
from coordinator.consumer.group import ConsumerGroup
from coordinator.conversion.fence import fence
from coordinator.records import RemovalCause
from coordinator.step_builder import StepBuilder


def fence_all_members(step: StepBuilder) -> None:
    """Fence them all; whoever waits for a rebalance is told so."""
    match step.state.group:
        case ClassicGroup() as group:
            for member_id in list(group.members):
                remove_member(step, member_id, RemovalCause.GROUP_TAKEN)
        case ConsumerGroup() as group if group.members:
            fence(step, dict.fromkeys(sorted(group.members), RemovalCause.GROUP_TAKEN))
        case _:
            pass
