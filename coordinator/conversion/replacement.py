"""An empty consumer group gives way to a classic joiner, whatever the policy (rule 6.6).

What the joiner then finds is no group, and it creates a generic one. The mirror image, an empty
generic group and a native joiner, is in `upgrade.py`.
"""

from coordinator.draft import Draft
from coordinator.records import EpochCause, GroupEpoch, TargetAssignmentMetadata


def remove_empty_consumer_group(draft: Draft) -> None:
    """Tombstones for all that a consumer group without members still has."""
    draft.emit(
        TargetAssignmentMetadata(epoch=None),
        GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    )
