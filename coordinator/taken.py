"""Somebody else has the group: every member here is fenced, for a partition has one owner only.

DEV D36: in Kafka a group is in one place. Who took it is not known here.
"""

from coordinator.consumer.group import ConsumerGroup
from coordinator.conversion.fence import fence
from coordinator.draft import Draft
from coordinator.generic.group import GenericGroup
from coordinator.generic.rebalance import remove_member
from coordinator.records import RemovalCause


def taken(draft: Draft) -> None:
    """Fence them all; whoever waits for a rebalance is told so."""
    match draft.state.group:
        case GenericGroup() as group:
            for member_id in list(group.members):
                remove_member(draft, member_id, RemovalCause.GROUP_TAKEN)
        case ConsumerGroup() as group if group.members:
            fence(draft, dict.fromkeys(sorted(group.members), RemovalCause.GROUP_TAKEN))
        case _:
            pass
