"""An empty consumer group gives way to a classic joiner, whatever the policy (rule 6.6).

What the joiner then finds is no group, and it creates a classic one. The mirror image, an empty
classic group and a native joiner, is in `upgrade.py`.
"""

from coordinator.records import EpochCause, GroupEpoch, TargetAssignmentMetadata
from coordinator.step_builder import StepBuilder


def remove_empty_consumer_group(step: StepBuilder) -> None:
    """Tombstones for all that a consumer group without members still has."""
    step.emit(
        TargetAssignmentMetadata(epoch=None),
        GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    )
