"""Deletes an empty consumer group when a classic member joins, under any policy (rule 6.6).

The joiner then creates a classic group. `upgrade.py` handles the reverse case, a native member that
joins an empty classic group.
"""

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.records import EpochCause, GroupEpoch, TargetAssignmentMetadata


def remove_empty_consumer_group(step: StepBuilder) -> None:
    """Write tombstones for everything that an empty consumer group still has."""
    step.emit(
        TargetAssignmentMetadata(epoch=None),
        GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    )
